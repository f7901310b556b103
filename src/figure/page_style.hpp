#pragma once
#include <string>
#include <string_view>

namespace stickybit::figure::detail {

/// The style sheet of a page: colours of both schemes, type, figures, tables, print.
[[nodiscard]] std::string page_style();

/// Three radio buttons: the keyboard has them, they need no script, and the style sheet reads them with :has().
inline constexpr std::string_view colour_switch =
    "<fieldset class=\"switch\">\n<legend>Colours</legend>\n"
    "<label><input type=\"radio\" name=\"colours\" id=\"colours-auto\" checked><span>Auto</span></label>\n"
    "<label><input type=\"radio\" name=\"colours\" id=\"colours-light\"><span>Light</span></label>\n"
    "<label><input type=\"radio\" name=\"colours\" id=\"colours-dark\"><span>Dark</span></label>\n</fieldset>\n";

/// Browsers print closed details closed; those that know ::details-content do not need this.
inline constexpr std::string_view print_script =
    "<script>\n(() => {\n  let opened = [];\n"
    "  addEventListener('beforeprint', () => {\n    opened = [...document.querySelectorAll('details:not([open])')];\n    for (const d of opened) d.open = true;\n  });\n"
    "  addEventListener('afterprint', () => { for (const d of opened) d.open = false; });\n})();\n</script>\n";

}  // namespace stickybit::figure::detail
