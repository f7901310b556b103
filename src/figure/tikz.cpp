#include "stickybit/figure/tikz.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "raster_runs.hpp"
#include "stickybit/figure/palette.hpp"
#include "utf8.hpp"

namespace stickybit::figure {
namespace {

constexpr double points_per_pixel = 0.6;

/// What LaTeX has for characters outside ASCII, in text.
constexpr std::pair<char32_t, std::string_view> tex_characters[] = {
    {U'·', "$\\cdot$"},   {U'×', "$\\times$"},     {U'Σ', "$\\Sigma$"},     {U'−', "$-$"},        {U'≈', "$\\approx$"}, {U'±', "$\\pm$"},       {U'∞', "$\\infty$"},
    {U'≤', "$\\le$"},     {U'≥', "$\\ge$"},        {U'≠', "$\\ne$"},        {U'→', "$\\to$"},     {U'←', "$\\gets$"},   {U'↑', "$\\uparrow$"},  {U'↓', "$\\downarrow$"},
    {U'…', "\\ldots{}"},  {U'⋯', "$\\cdots$"},     {U'–', "--"},            {U'—', "---"},        {U'½', "$\\frac12$"}, {U'¼', "$\\frac14$"},   {U'√', "$\\surd$"},
    {U'∑', "$\\Sigma$"},  {U'Δ', "$\\Delta$"},     {U'δ', "$\\delta$"},     {U'α', "$\\alpha$"},  {U'β', "$\\beta$"},   {U'ε', "$\\varepsilon$"}, {U'λ', "$\\lambda$"},
    {U'σ', "$\\sigma$"},  {U'μ', "$\\mu$"},        {U'ℓ', "$\\ell$"},       {U'∈', "$\\in$"},     {U'“', "``"},         {U'”', "''"},           {U'‘', "`"},
    {U'’', "'"},          {U'°', "$^\\circ$"},     {U'\u00A0', "~"},        {U'\u2009', "\\,"},   {U'\u202F', "\\,"}};

/// "2⁻²⁵" has one superscript character after the other.
constexpr std::pair<char32_t, char> superscripts[] = {{U'⁰', '0'}, {U'¹', '1'}, {U'²', '2'}, {U'³', '3'}, {U'⁴', '4'}, {U'⁵', '5'}, {U'⁶', '6'},
                                                       {U'⁷', '7'}, {U'⁸', '8'}, {U'⁹', '9'}, {U'⁻', '-'}, {U'⁺', '+'}};

template <class Table>
auto const* found(Table const& table, char32_t c) {
  for (auto const& entry : table)
    if (entry.first == c) return &entry;
  return static_cast<decltype(&*std::begin(table))>(nullptr);
}

std::string tex_of_ascii(char c) {
  switch (c) {
    case '\\': return "\\textbackslash{}";
    case '~': return "\\textasciitilde{}";
    case '^': return "\\textasciicircum{}";
    case '<': return "\\textless{}";
    case '>': return "\\textgreater{}";
    case '|': return "\\textbar{}";
    case '"': return "''";
    case '#': case '$': case '%': case '&': case '_': case '{': case '}': return std::string{'\\', c};
    default: return std::string(1, c >= 0x20 && c < 0x7f ? c : '?');
  }
}

std::string number(double v) {
  const double r = std::round(v * 100) / 100;
  return fmt::format("{}", r == 0 ? 0.0 : r);
}
std::string place(double x, double y) { return fmt::format("({},{})", number(x), number(y)); }

std::string path_of(std::vector<point> const& points) {
  std::string path;
  for (point p : points) path += (path.empty() ? "" : " -- ") + place(p.x, p.y);
  return path;
}

struct writer {
  static std::string area(rectangle const& r) { return fmt::format("{} rectangle {};\n", place(r.x, r.y), place(r.x + r.width, r.y + r.height)); }
  static std::string pen(role r, double width) { return fmt::format("draw=stickybit-{}, line width={}pt", name_of(r), number(width * points_per_pixel)); }
  static std::string node(double x, double y, std::string_view side, role fill, double size, std::string const& words) {
    const double points = size * points_per_pixel;
    return fmt::format("  \\node[anchor={}, inner sep=0pt, text=stickybit-{}, font=\\fontsize{{{}}}{{{}}}\\selectfont] at {} {{{}}};\n", side, name_of(fill),
                       number(points), number(1.2 * points), place(x, y), words);
  }

  /// Lines from lower left to upper right, 5 pixels apart: what is lost shows without colour, and without a library of patterns.
  static std::string hatch(rectangle const& r) {
    std::string path;
    for (double s = 2.5 - r.height; s < r.width; s += 5) {
      const double first = std::max(0.0, -s), last = std::min(r.height, r.width - s);
      path += fmt::format(" {} -- {}", place(r.x + s + first, r.y + r.height - first), place(r.x + s + last, r.y + r.height - last));
    }
    return path.empty() ? "" : fmt::format("  \\path[{}]{};\n", pen(role::muted, 0.4), path);
  }

  std::string operator()(rectangle const& r) const {
    const std::string drawn = fmt::format("  \\path[{}] {}", r.outlined ? pen(r.fill, 1) : fmt::format("fill=stickybit-{}", name_of(r.fill)), area(r));
    return r.fill == role::cut && !r.outlined ? drawn + hatch(r) : drawn;
  }
  std::string operator()(line const& l) const {
    return fmt::format("  \\path[{}{}] {} -- {};\n", pen(l.stroke, l.width), l.dashed ? ", dashed" : "", place(l.x1, l.y1), place(l.x2, l.y2));
  }
  std::string operator()(polyline const& p) const { return fmt::format("  \\path[{}, line join=round] {};\n", pen(p.stroke, p.width), path_of(p.points)); }
  std::string operator()(polygon const& p) const { return fmt::format("  \\path[fill=stickybit-{}] {} -- cycle;\n", name_of(p.fill), path_of(p.points)); }
  std::string operator()(text const& t) const {
    constexpr std::string_view sides[] = {"base west", "base", "base east"};
    std::string words = tex_escaped(t.words);
    if (t.mono) words = "\\ttfamily{}" + words;
    if (t.bold) words = "\\bfseries{}" + words;
    return node(t.x, t.y, sides[int(t.place)], t.fill, t.size, words);
  }
  std::string operator()(digits const& d) const {
    std::string drawn;
    for (std::size_t i = 0; i < d.characters.size(); ++i)
      if (d.characters[i] != ' ') drawn += node(d.x + d.pitch * double(i), d.y, "base", d.fill, d.size, "\\ttfamily{}" + tex_escaped(d.characters.substr(i, 1)));
    return drawn;
  }
  std::string operator()(raster const& r) const {
    std::string drawn;
    const auto add = [&](std::string const& colour, int level) {
      for (rectangle const& run : detail::runs_of(r, level, level)) drawn += fmt::format("  \\path[fill={}] {}", colour, area(run));
    };
    for (int level = 1; level <= raster::level_count; ++level) {
      const int percent = 100 * level / raster::level_count;
      add(fmt::format("stickybit-positive!{}!white", percent), level);
      add(fmt::format("stickybit-negative!{}!white", percent), -level);
    }
    add("stickybit-neutral!45!white", raster::missing);
    for (rectangle const& run : detail::runs_of(r, -raster::level_count, -1))  // negative cells are striped
      for (double y = run.y + 1; y < run.y + run.height; y += 3)
        drawn += fmt::format("  \\path[draw=white, line width=0.3pt] {} -- {};\n", place(run.x, y), place(run.x + run.width, y));
    return drawn;
  }
};

std::string comment(std::string_view name, std::string_view words) {
  if (words.empty()) return {};
  return fmt::format("% {}: {}\n", name, tex_escaped(words));
}

}  // namespace

std::string tex_escaped(std::string_view words) {
  std::string tex;
  bool raised = false;  // inside $^{...}$
  for (std::size_t at = 0; at < words.size();) {
    const char32_t c = detail::next_character(words, at);
    auto const* superscript = found(superscripts, c);
    if ((superscript != nullptr) != raised) tex += raised ? "}$" : "$^{";
    raised = superscript != nullptr;
    if (raised) tex += superscript->second;
    else if (c < 0x80) tex += tex_of_ascii(char(c));
    else if (auto const* known = found(tex_characters, c)) tex += known->second;
    else tex += '?';
  }
  return raised ? tex + "}$" : tex;
}

std::string to_tikz(scene const& picture) {
  check(picture);
  std::string tikz = comment("title", picture.title) + comment("description", picture.description) + comment("caption", picture.caption);
  for (int r = 0; r < role_count; ++r) tikz += fmt::format("\\definecolor{{stickybit-{}}}{{HTML}}{{{:06X}}}\n", name_of(role(r)), colour_of(role(r), scheme::light));
  tikz += fmt::format("\\begin{{tikzpicture}}[x={0}pt, y=-{0}pt]\n  \\useasboundingbox (0,0) rectangle {1};\n", points_per_pixel, place(picture.width, picture.height));
  const writer write;
  for (primitive const& part : picture.parts) tikz += std::visit(write, part);
  return tikz + "\\end{tikzpicture}\n";
}

}  // namespace stickybit::figure
