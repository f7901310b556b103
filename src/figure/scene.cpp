#include "stickybit/figure/scene.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <stdexcept>

#include "utf8.hpp"

namespace stickybit::figure {
namespace {

/// Advance of a character in em; the widest of DejaVu Sans, Liberation Sans and Arial, about.
double advance_em(char32_t c) {
  if (c < 0x80) {
    if (std::string_view(" .,:;'|!ijl").find(char(c)) != std::string_view::npos) return 0.36;
    if (std::string_view("frtI()[]/-\"").find(char(c)) != std::string_view::npos) return 0.45;
    if (std::string_view("mwMW%@").find(char(c)) != std::string_view::npos) return 0.99;
    if (c >= 'A' && c <= 'Z') return 0.74;
    return std::string_view("+<>=~^").find(char(c)) != std::string_view::npos ? 0.84 : 0.64;
  }
  if (c == 0xB7) return 0.36;
  if (c == 0xB2 || c == 0xB3 || c == 0xB9 || (c >= 0x2070 && c <= 0x209C)) return 0.53;
  if (c >= 0x300 && c < 0x370) return 0;
  return c >= 0x1100 && c != 0x2026 && (c < 0x2000 || c > 0x22FF) ? 1.05 : 0.87;
}

box empty_box() {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  return {infinity, infinity, -infinity, -infinity};
}

/// Of no points, or points that are not finite: not finite.
box around(std::vector<point> const& points) {
  box b = empty_box();
  for (point p : points) {
    if (!std::isfinite(p.x + p.y)) return empty_box();
    b = {std::min(b.left, p.x), std::min(b.top, p.y), std::max(b.right, p.x), std::max(b.bottom, p.y)};
  }
  return b;
}

struct extent_of {
  box operator()(rectangle const& r) const { return {r.x, r.y, r.x + r.width, r.y + r.height}; }
  box operator()(line const& l) const { return around({{l.x1, l.y1}, {l.x2, l.y2}}); }
  box operator()(polyline const& p) const { return around(p.points); }
  box operator()(polygon const& p) const { return around(p.points); }
  box operator()(text const& t) const {
    const double w = text_width(t.words, t.size, t.mono, t.bold);
    const double left = t.place == anchor::start ? t.x : t.place == anchor::middle ? t.x - w / 2 : t.x - w;
    return {left, t.y - 0.9 * t.size, left + w, t.y + 0.25 * t.size};
  }
  box operator()(digits const& d) const {
    return {d.x - d.pitch / 2, d.y - 0.8 * d.size, d.x + d.pitch * (double(d.characters.size()) - 0.5), d.y + 0.1 * d.size};
  }
  box operator()(raster const& r) const {
    const double rows = r.columns > 0 ? double(r.levels.size()) / r.columns : 0;
    return {r.x, r.y, r.x + r.cell_width * r.columns, r.y + r.cell_height * rows};
  }
};

}  // namespace

void scene::add(primitive&& part) { parts.push_back(std::move(part)); }

box extent(primitive const& part) { return std::visit(extent_of{}, part); }

double text_width(std::string_view words, double size, bool mono, bool bold) {
  double em = 0;
  for (std::size_t at = 0; at < words.size();) {
    const char32_t c = detail::next_character(words, at);
    em += mono && c < 0x1100 ? 0.61 : advance_em(c);
  }
  return em * size * (bold && !mono ? 1.1 : 1);
}

std::string shortened(std::string_view words, double width, double size, bool mono, bool bold) {
  if (text_width(words, size, mono, bold) <= width) return std::string(words);
  const double room = width - text_width("…", size, mono, bold);
  std::size_t end = 0;
  for (std::size_t at = 0; at < words.size(); end = at) {
    detail::next_character(words, at);
    if (text_width(words.substr(0, at), size, mono, bold) > room) break;
  }
  return std::string(words.substr(0, end)) + "…";
}

void check(scene const& picture) {
  const auto refuse = [&](std::string_view why) { throw std::invalid_argument(fmt::format("figure '{}': {}", picture.title, why)); };
  if (!(picture.width > 0) || !(picture.height > 0) || !std::isfinite(picture.width) || !std::isfinite(picture.height)) refuse("its size must be above 0 and finite");
  for (primitive const& part : picture.parts) {
    if (auto const* r = std::get_if<raster>(&part))
      if (r->columns <= 0 || r->levels.size() % std::size_t(r->columns) != 0) refuse(fmt::format("{} levels do not fill rows of {} cells", r->levels.size(), r->columns));
    if (auto const* p = std::get_if<polyline>(&part); p != nullptr && p->points.empty()) refuse("a polyline without points");
    if (auto const* p = std::get_if<polygon>(&part); p != nullptr && p->points.empty()) refuse("a polygon without points");
    const box b = extent(part);
    if (!std::isfinite(b.left + b.top + b.right + b.bottom)) refuse("a coordinate is not finite");
  }
}

polygon triangle_mark(double x, double y, double size, double degrees, role fill, std::string tooltip) {
  const double angle = degrees * std::numbers::pi / 180, c = std::cos(angle), s = std::sin(angle);
  const auto turned = [&](double along, double across) { return point{x + along * c - across * s, y + along * s + across * c}; };
  return {{{x, y}, turned(-size, -0.5 * size), turned(-size, 0.5 * size)}, fill, std::move(tooltip)};
}

polygon diamond_mark(double x, double y, double size, role fill, std::string tooltip) {
  return {{{x - size, y}, {x, y - size}, {x + size, y}, {x, y + size}}, fill, std::move(tooltip)};
}

}  // namespace stickybit::figure
