#include "stickybit/figure/svg.hpp"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

#include "stickybit/figure/palette.hpp"
#include "raster_runs.hpp"
#include "utf8.hpp"

namespace stickybit::figure {
namespace {

/// A hundredth of a pixel is enough; "12", "12.5", never "-0".
std::string number(double v) {
  const double rounded_value = std::round(v * 100) / 100 + 0.0;
  return fmt::format("{}", rounded_value == 0 ? 0.0 : rounded_value);
}

std::string with_tooltip(std::string const& element, std::string_view name, std::string const& tooltip) {
  return tooltip.empty() ? element + "/>\n" : fmt::format("{}><title>{}</title></{}>\n", element, escaped(tooltip), name);
}

std::string points_of(std::vector<point> const& points) {
  std::string list;
  for (point p : points) list += fmt::format("{}{},{}", list.empty() ? "" : " ", number(p.x), number(p.y));
  return list;
}

/// "M3 7h12v6H3z" for each run of cells: a path has one colour, so a level is one path.
std::string path_of(std::vector<rectangle> const& runs) {
  std::string path;
  for (rectangle const& r : runs) path += fmt::format("M{0} {1}h{2}v{3}H{0}z", number(r.x), number(r.y), number(r.width), number(r.height));
  return path;
}

struct writer {
  std::string id;

  std::string operator()(rectangle const& r) const {
    const std::string place = fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"", number(r.x), number(r.y), number(r.width), number(r.height));
    std::string drawn = with_tooltip(fmt::format("{} class=\"{}-{}\"", place, r.outlined ? "e" : "f", name_of(r.fill)), "rect", r.tooltip);
    if (r.fill == role::cut && !r.outlined) drawn += fmt::format("{} class=\"h\" fill=\"url(#{}-hatch)\"/>\n", place, id);
    return drawn;
  }
  std::string operator()(line const& l) const {
    return with_tooltip(fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" class=\"s-{}\" stroke-width=\"{}\"{}", number(l.x1), number(l.y1), number(l.x2),
                                    number(l.y2), name_of(l.stroke), number(l.width), l.dashed ? " stroke-dasharray=\"4 3\"" : ""),
                        "line", l.tooltip);
  }
  std::string operator()(polyline const& p) const {
    return with_tooltip(fmt::format("<polyline points=\"{}\" class=\"s-{}\" stroke-width=\"{}\"", points_of(p.points), name_of(p.stroke), number(p.width)), "polyline",
                        p.tooltip);
  }
  std::string operator()(polygon const& p) const {
    return with_tooltip(fmt::format("<polygon points=\"{}\" class=\"f-{}\"", points_of(p.points), name_of(p.fill)), "polygon", p.tooltip);
  }
  std::string operator()(text const& t) const {
    constexpr std::string_view places[] = {"", " text-anchor=\"middle\"", " text-anchor=\"end\""};
    const std::string tip = t.tooltip.empty() ? "" : fmt::format("<title>{}</title>", escaped(t.tooltip));
    return fmt::format("<text x=\"{}\" y=\"{}\"{} class=\"o f-{}{}{}\" font-size=\"{}\">{}{}</text>\n", number(t.x), number(t.y), places[int(t.place)], name_of(t.fill),
                       t.mono ? " m" : "", t.bold ? " b" : "", number(t.size), escaped(t.words), tip);
  }
  std::string operator()(digits const& d) const {
    std::string places;
    for (std::size_t i = 0; i < d.characters.size(); ++i) places += fmt::format("{}{}", i == 0 ? "" : " ", number(d.x + d.pitch * double(i)));
    return fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\" class=\"f-{} m\" font-size=\"{}\">{}</text>\n", places, number(d.y), name_of(d.fill),
                       number(d.size), escaped(d.characters));
  }
  std::string operator()(raster const& r) const {
    std::string drawn = "<g shape-rendering=\"crispEdges\">\n";
    const auto add = [&](std::string_view what, int lowest, int highest) {
      if (const std::string path = path_of(detail::runs_of(r, lowest, highest)); !path.empty()) drawn += fmt::format("<path {} d=\"{}\"/>\n", what, path);
    };
    for (int level = 1; level <= raster::level_count; ++level) {
      const double opacity = double(level) / raster::level_count;
      add(fmt::format("class=\"f-positive\" fill-opacity=\"{}\"", opacity), level, level);
      add(fmt::format("class=\"f-negative\" fill-opacity=\"{}\"", opacity), -level, -level);
    }
    add("class=\"f-neutral\" fill-opacity=\"0.45\"", raster::missing, raster::missing);
    add(fmt::format("class=\"w\" fill=\"url(#{}-stripe)\"", id), -raster::level_count, -1);
    return drawn + "</g>\n";
  }
};

/// The grounds that say "lost" and "negative" without colour.
std::string patterns(std::string const& id) {
  return fmt::format("<defs><pattern id=\"{0}-hatch\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\"><path d=\"M-1 1L1 -1M0 5L5 0M4 6L6 4\" class=\"s-muted\" "
                     "stroke-width=\"0.6\"/></pattern><pattern id=\"{0}-stripe\" width=\"3\" height=\"3\" patternUnits=\"userSpaceOnUse\"><path d=\"M0 0.5H3\" class=\"p\" "
                     "stroke-width=\"1\"/></pattern></defs>\n",
                     id);
}

std::string own_style() {
  return fmt::format("<style>svg{{{}}}@media(prefers-color-scheme:dark){{svg{{{}}}}}{}</style>\n", colour_variables(false), colour_variables(true), figure_css());
}

}  // namespace

std::string escaped(std::string_view words) {
  std::string safe;
  for (std::size_t at = 0; at < words.size();) {
    const std::size_t begin = at;
    const char32_t c = detail::next_character(words, at);
    const bool forbidden = c == detail::replacement || (c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7f && c < 0xa0) || c == 0xfffe || c == 0xffff;
    if (c == '&') safe += "&amp;";
    else if (c == '<') safe += "&lt;";
    else if (c == '>') safe += "&gt;";
    else if (c == '"') safe += "&quot;";
    else if (c == '\'') safe += "&#39;";
    else if (forbidden) safe += "\xEF\xBF\xBD";
    else safe += words.substr(begin, at - begin);
  }
  return safe;
}

std::string colour_variables(bool dark) {
  const scheme s = dark ? scheme::dark : scheme::light;
  std::string variables = fmt::format("--paper:#{:06x};--panel:#{:06x};--edge:#{:06x};", paper(s), panel(s), edge(s));
  for (int r = 0; r < role_count; ++r) variables += fmt::format("--{}:#{:06x};", name_of(role(r)), colour_of(role(r), s));
  return variables;
}

std::string figure_css() {
  std::string css =
      "svg.figure{font-family:system-ui,-apple-system,\"Segoe UI\",\"Helvetica Neue\",Arial,sans-serif;fill:none}"
      "svg.figure .m{font-family:ui-monospace,\"SF Mono\",Menlo,Consolas,\"Liberation Mono\",\"DejaVu Sans Mono\",monospace}"
      "svg.figure .b{font-weight:600}svg.figure .h{opacity:.55}svg.figure .w{opacity:.4}svg.figure .p{stroke:var(--ground,var(--paper))}"
      "svg.figure .g{fill:var(--paper)}svg.figure polyline{stroke-linejoin:round}"
      // Words stay readable over lines.
      "svg.figure .o{paint-order:stroke;stroke:var(--ground,var(--paper));stroke-width:3px;stroke-linejoin:round}";
  for (int r = 0; r < role_count; ++r) {
    const auto name = name_of(role(r));
    css += fmt::format(".f-{0}{{fill:var(--{0})}}.s-{0},.e-{0}{{fill:none;stroke:var(--{0})}}", name);
  }
  return css;
}

std::string to_svg(scene const& picture, svg_use const& use) {
  check(picture);
  if (use.id.empty() || use.id.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-") != std::string::npos)
    throw std::invalid_argument(fmt::format("id '{}' of a figure: expected letters, digits and '-'", use.id));
  const std::string width = number(picture.width), height = number(picture.height);
  std::string svg;
  if (use.standalone) svg += "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  svg += fmt::format("<svg {}class=\"figure\" viewBox=\"0 0 {} {}\" ", use.standalone ? "xmlns=\"http://www.w3.org/2000/svg\" " : "", width, height);
  // In a page text never gets so small that it cannot be read: the picture's container scrolls instead.
  if (use.standalone) svg += fmt::format("width=\"{}\" height=\"{}\" ", width, height);
  else svg += fmt::format("style=\"width:100%;max-width:{}px;min-width:{}px\" ", number(1.1 * picture.width), number(0.92 * picture.width));
  svg += fmt::format("role=\"img\" aria-labelledby=\"{0}-title {0}-desc\">\n<title id=\"{0}-title\">{1}</title>\n<desc id=\"{0}-desc\">{2}</desc>\n", use.id,
                     escaped(picture.title), escaped(picture.description + (picture.caption.empty() ? "" : " " + picture.caption)));
  if (use.standalone) svg += own_style();
  svg += patterns(use.id);
  if (use.standalone) svg += fmt::format("<rect class=\"g\" width=\"{}\" height=\"{}\"/>\n", width, height);
  const writer write{use.id};
  for (primitive const& part : picture.parts) svg += std::visit(write, part);
  return svg + "</svg>\n";
}

}  // namespace stickybit::figure
