#include "page_style.hpp"

#include <fmt/format.h>

#include "stickybit/figure/svg.hpp"

namespace stickybit::figure::detail {
namespace {

constexpr std::string_view type_and_layout = R"css(*{box-sizing:border-box}
html{background:var(--paper);color:var(--label);-webkit-text-size-adjust:100%;text-size-adjust:100%;scroll-behavior:smooth}
body{margin:0;font:1.0625rem/1.6 Charter,"Bitstream Charter","Iowan Old Style","Source Serif 4",Palatino,"Palatino Linotype",Georgia,"Liberation Serif",serif}
main:focus{outline:none}
header{padding-top:1.25rem}
h1,h2{line-height:1.2;text-wrap:balance;overflow-wrap:break-word;font-weight:600;letter-spacing:-.01em}
h1{font-size:clamp(1.75rem,1.2rem + 2.2vw,2.5rem);margin:1.25rem 0 .75rem}
h2{font-size:1.4rem;margin:3rem 0 .5rem;padding-top:1rem;border-top:1px solid var(--edge)}
p{margin:.75rem 0;overflow-wrap:break-word;hyphens:manual}
.summary{font-size:1.175rem;color:var(--muted);margin:0 0 1.25rem}
a{color:var(--negative);text-underline-offset:.18em;text-decoration-thickness:1px}
code,pre{font-family:ui-monospace,"SF Mono",Menlo,Consolas,"Liberation Mono","DejaVu Sans Mono",monospace;font-size:.875em}
p code,figcaption code,li code,td code,th code{background:var(--panel);padding:.08em .3em;border-radius:3px;overflow-wrap:anywhere}
nav ol{margin:0;padding:0 0 0 1.4rem;font-size:1rem}
nav li{margin:.15rem 0}
.skip{position:absolute;left:.5rem;top:.5rem;padding:.5rem .9rem;background:var(--label);color:var(--paper);border-radius:4px;z-index:1;transform:translateY(-5rem)}
.skip:focus{transform:none}
.switch{border:0;margin:0;padding:0;display:flex;flex-wrap:wrap;gap:.25rem;justify-content:flex-end;align-items:center;font:.8125rem/1.4 system-ui,-apple-system,"Segoe UI",Arial,sans-serif;color:var(--muted)}
.switch legend{float:left;padding:0;margin-right:.4rem}
.switch label{position:relative;cursor:pointer}
.switch input{position:absolute;inset:0;margin:0;opacity:0;cursor:pointer}
.switch span{display:block;padding:.2rem .6rem;border:1px solid var(--edge);border-radius:99px}
.switch input:checked+span{background:var(--label);color:var(--paper);border-color:var(--label)}
:focus-visible,.switch input:focus-visible+span{outline:3px solid var(--negative);outline-offset:2px;border-radius:3px}
.switch input:focus-visible+span{border-radius:99px}
.scroll{overflow-x:auto;overflow-y:hidden;max-width:100%;margin-top:1rem;margin-bottom:1rem}
figure{margin:1.75rem 0}
figure .scroll{--ground:var(--panel);margin:0;padding:1rem;background:linear-gradient(to right,var(--panel) 50%,transparent) 0 0/3rem 100% no-repeat local,
  linear-gradient(to left,var(--panel) 50%,transparent) 100% 0/3rem 100% no-repeat local,linear-gradient(to right,var(--edge),transparent) 0 0/.75rem 100% no-repeat scroll,
  linear-gradient(to left,var(--edge),transparent) 100% 0/.75rem 100% no-repeat scroll,var(--panel);border:1px solid var(--edge);border-radius:6px}
svg.figure{display:block;height:auto;margin:0 auto}
figure.wide figcaption{max-width:44rem;margin-left:auto;margin-right:auto}
figcaption{font-size:.9375rem;line-height:1.5;color:var(--muted);margin-top:.65rem;overflow-wrap:break-word}
figcaption b{color:var(--label);font-weight:600}
pre{margin:0;padding:.9rem 1rem;background:var(--panel);border:1px solid var(--edge);border-radius:6px;line-height:1.45;width:max-content;min-width:100%}
table{border-collapse:collapse;min-width:100%;font-size:.9375rem;line-height:1.4;font-variant-numeric:tabular-nums lining-nums}
caption{text-align:left;color:var(--muted);padding:0 0 .5rem;caption-side:top}
th,td{text-align:left;padding:.35rem .9rem .35rem 0;vertical-align:baseline;border-bottom:1px solid var(--edge);font-weight:400}
thead th{font-weight:600;border-bottom:1.5px solid var(--axis);vertical-align:bottom}
th:last-child,td:last-child{padding-right:0}
.n{text-align:right;white-space:nowrap}
details{margin:1rem 0;border:1px solid var(--edge);border-radius:6px}
details>div{padding:0 1rem .5rem;min-width:0}
summary{cursor:pointer;padding:.55rem 1rem;font-weight:600;overflow-wrap:break-word}
footer{margin-top:3.5rem;margin-bottom:2.5rem;padding-top:.75rem;border-top:1px solid var(--edge);color:var(--muted);font-size:.9375rem}
header,footer,section>*{width:min(44rem,100% - 2.5rem);margin-left:auto;margin-right:auto}
section>figure.wide{width:min(100% - 2.5rem,var(--natural)*1.1 + 2.25rem)}
@media screen and (min-width:48rem){section>.scroll:has(>pre){width:fit-content;min-width:min(100% - 2.5rem,44rem);max-width:min(100% - 2.5rem,72rem)}}
@media(max-width:30rem){body{font-size:1rem}header,footer,section>*,section>figure.wide{width:calc(100% - 2rem)}figure .scroll{padding:.75rem .5rem}}
@media(prefers-reduced-motion:reduce){html{scroll-behavior:auto}}
)css";

constexpr std::string_view print = R"css(@page{margin:18mm 16mm}
@media print{
body{font-size:10.5pt;line-height:1.45}
header,footer,section>*,section>figure.wide{width:auto}
.skip,.switch{display:none}
h2{break-after:avoid;margin-top:1.5rem}
figure,tr,.scroll:has(table){break-inside:avoid}
figcaption{break-before:avoid}
.scroll{overflow:visible}
table{font-size:.85em}
.n{white-space:normal}
figure .scroll{padding:0;background:none;border:0}
svg.figure{min-width:0 !important;max-width:100% !important}
pre{white-space:pre-wrap;overflow-wrap:anywhere;width:auto}
details::details-content{content-visibility:visible;block-size:auto}
a{color:inherit}
}
)css";

}  // namespace

std::string page_style() {
  const std::string light = colour_variables(false), dark = colour_variables(true);
  std::string css = fmt::format(":root{{color-scheme:light;{0}}}\n@media(prefers-color-scheme:dark){{:root{{color-scheme:dark;{1}}}}}\n"
                                ":root:has(#colours-light:checked){{color-scheme:light;{0}}}\n:root:has(#colours-dark:checked){{color-scheme:dark;{1}}}\n",
                                light, dark);
  css += type_and_layout;
  css += figure_css();
  css += "\n";
  css += print;
  return css + fmt::format("@media print{{:root,:root:has(#colours-dark:checked){{color-scheme:light;{}--paper:#fff;--panel:#fff}}}}\n", light);
}

}  // namespace stickybit::figure::detail
