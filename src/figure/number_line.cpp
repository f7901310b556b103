#include "stickybit/figure/number_line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "axis.hpp"
#include "stickybit/format/text.hpp"
#include "stickybit/format/value.hpp"

namespace stickybit::figure {
namespace {

constexpr double width = 680, height = 216, middle = 340, gap_pixels = 200, axis_y = 116;

/// A representable number, or what stands for infinity.
struct neighbour {
  double at;  ///< in gaps from the lower end of the gap that holds the exact value; magnitudes
  std::string value, code;
  bool odd;
};

template <format F>
neighbour neighbour_of(std::uint32_t magnitude, bool negative, double origin, double gap) {
  const auto c = code<F>::from_magnitude(magnitude, negative);
  const double v = to_double(code<F>::from_magnitude(magnitude));
  return {(v - origin) / gap, decimal(c), hex_code(c), (magnitude & 1) != 0};
}

/// Everything that is drawn, in magnitudes: the sign only mirrors the picture.
struct rounding_place {
  std::vector<neighbour> ticks;
  double exact = 0;   ///< in gaps
  double chosen = 0;  ///< in gaps
  double gap = 1;
  std::string note;
};

double remainder_part(rounded const& e) {
  if (e.drop <= 0) return 0;
  const std::uint64_t cut = e.drop >= 64 ? e.significand : e.significand & ((std::uint64_t{1} << e.drop) - 1);
  return std::ldexp(double(cut), -e.drop);
}

template <format F>
rounding_place place_of(rounded const& e) {
  constexpr format_traits t = traits_of(F);
  using bits_type = typename code<F>::bits_type;
  const auto result = code<F>::from_bits(bits_type(e.bits));
  const std::uint32_t chosen = result.magnitude(), largest = t.largest_magnitude();
  const auto value = [](std::uint32_t m) { return to_double(code<F>::from_magnitude(m)); };
  // Where flushing or the format's end decides, what was cut is no part of the gap that is drawn.
  const bool at_smallest_normal = e.rule.subnormal == subnormals::flushed && chosen == std::uint32_t{1} << t.fraction_bits();
  const bool outside = e.raised.overflow || e.flushed || at_smallest_normal || (!t.has_zero && chosen == 0);
  std::uint32_t lower = e.grew && chosen > 0 ? chosen - 1 : chosen, upper = lower + 1;
  if (e.flushed) lower = 0, upper = std::uint32_t{1} << t.fraction_bits();
  const bool at_the_top = e.raised.overflow || upper > largest;  // there is no number above: the gap below is shown
  if (at_the_top) lower = largest - 1, upper = largest;
  rounding_place place;
  place.gap = value(upper) - value(lower);
  const auto add = [&](std::uint32_t m) { place.ticks.push_back(neighbour_of<F>(m, e.negative, value(lower), place.gap)); };
  if (lower > 0) add(lower - 1);
  add(lower);
  add(upper);
  if (upper < largest) add(upper + 1);
  if (outside) place.exact = (std::ldexp(double(e.significand), e.exponent) - value(lower)) / place.gap;
  else place.exact = remainder_part(e) + (at_the_top ? 1 : 0);
  place.chosen = chosen == upper ? 1 : 0;
  if (e.raised.overflow) {
    const bool infinite = chosen > largest || result.is_nan();
    place.chosen = infinite ? 2 : 1;
    if (infinite) place.ticks.push_back({2, decimal(result), hex_code(result), (chosen & 1) != 0});
    place.note = "The value is beyond the largest finite number; the last tick stands for what replaces it.";
  }
  if (e.flushed) place.note = "Subnormal results are replaced by zero: no number lies between zero and the smallest normal one.";
  return place;
}

rounding_place place_of(rounded const& e) {
  switch (e.target) {
    case format::bf16: return place_of<format::bf16>(e);
    case format::f32: return place_of<format::f32>(e);
    case format::f16: return place_of<format::f16>(e);
    case format::tf32: return place_of<format::tf32>(e);
    case format::e4m3fn: return place_of<format::e4m3fn>(e);
    case format::e5m2: return place_of<format::e5m2>(e);
    case format::e4m3fnuz: return place_of<format::e4m3fnuz>(e);
    case format::e5m2fnuz: return place_of<format::e5m2fnuz>(e);
    case format::e8m0: return place_of<format::e8m0>(e);
    case format::e2m1: return place_of<format::e2m1>(e);
    case format::e3m2: return place_of<format::e3m2>(e);
    case format::e2m3: return place_of<format::e2m3>(e);
    case format::f64: break;
  }
  return {};
}

/// Text whose middle is at x, moved inside the picture.
text inside(double x, double y, std::string words, role fill, double size, bool bold = false) {
  words = detail::typeset(std::move(words));
  const double half = text_width(words, size, false, bold) / 2;
  return {std::clamp(x, half + 4, std::max(half + 4, width - half - 4)), y, std::move(words), anchor::middle, fill, size, false, bold};
}

class drawing {
 public:
  explicit drawing(rounded const& e) : event_(e), place_(place_of(e)) {}

  scene made() {
    picture_.width = width;
    picture_.height = height;
    draw_line();
    draw_ticks();
    draw_exact();
    describe();
    return std::move(picture_);
  }

 private:
  /// Pixels of a magnitude in gaps; numbers grow to the right, so negative ones are mirrored.
  [[nodiscard]] double x(double gaps) const {
    const double from_middle = (std::clamp(gaps, -1.2, 2.2) - 0.5) * gap_pixels;
    return std::clamp(middle + (event_.negative ? -from_middle : from_middle), 12.0, width - 12);
  }
  template <class Part>
  void add(Part part) {
    picture_.add(std::move(part));
  }

  void draw_line() {
    const double left = std::min(x(0), x(1));
    add(rectangle{left, axis_y - 7, gap_pixels, 14, role::kept, false, fmt::format("the gap, {}", detail::number_text(place_.gap, 6))});
    add(line{12, axis_y, width - 12, axis_y, role::axis, 1.5});
    if (event_.rule.mode != rounding::nearest_even && event_.rule.mode != rounding::nearest_away) return;
    const double half = x(0.5);
    add(line{half, axis_y - 46, half, axis_y + 12, role::muted, 1, true});
    const bool right_of_exact = half > x(place_.exact);
    add(text{half + (right_of_exact ? 6 : -6), axis_y - 40, "half-way", right_of_exact ? anchor::start : anchor::end, role::muted, 11});
  }

  /// The ends of the gap and what was chosen keep their words; the other neighbours yield.
  void draw_ticks() {
    std::vector<box> taken;
    for (bool important : {true, false})
      for (neighbour const& t : place_.ticks) {
        const bool chosen = t.at == place_.chosen;
        if ((t.at == 0 || t.at == 1 || chosen) == important && t.at > -1.3 && t.at < 2.3) draw_tick(t, important, chosen, taken);
      }
  }

  void draw_tick(neighbour const& t, bool important, bool chosen, std::vector<box>& taken) {
    const double at = x(t.at), reach = important ? 12 : 7;
    const role ink = important ? role::label : role::muted;
    add(line{at, axis_y - reach, at, axis_y + reach, important ? role::label : role::axis, chosen ? 2.5 : 1.5});
    text value = inside(at, axis_y + 32, t.value, ink, 12, chosen);
    text code{value.x, axis_y + 49, t.code, anchor::middle, ink, 11, true};
    const double left = std::min(extent(value).left, extent(code).left), right = std::max(extent(value).right, extent(code).right);
    if (std::any_of(taken.begin(), taken.end(), [&](box const& b) { return left < b.right + 12 && b.left < right + 12; })) return;
    taken.push_back({left, 0, right, 0});
    add(text{value.x, axis_y + 65, t.odd ? "odd" : "even", anchor::middle, role::muted, 11});
    add(std::move(value));
    add(std::move(code));
  }

  void draw_exact() {
    const double at = x(place_.exact), to = x(place_.chosen);
    const double value = std::ldexp(double(event_.significand), event_.exponent);
    add(inside(at, 20, "exact " + detail::number_text(event_.negative ? -value : value, 17), role::exact, 13, true));
    if (event_.cut != tail::zero) add(inside(at, 38, fmt::format("cut off: {}", name_of(event_.cut)), role::muted, 11));
    add(line{at, 46, at, axis_y - 7, role::exact, 1.5});
    if (std::abs(to - at) > 14) {
      const double direction = to > at ? 1 : -1, y = axis_y - 22;
      add(line{at, y, to - 6 * direction, y, role::highlight, 2});
      add(triangle_mark(to - direction, y, 9, direction > 0 ? 0 : 180, role::highlight));
    }
    add(diamond_mark(at, axis_y, 6, role::exact, "the exact value"));
  }

  void describe() {
    const std::string name(traits_of(event_.target).name), mode(name_of(event_.rule.mode));
    std::string outcome = "the value fits; nothing is rounded";
    if (event_.raised.overflow) outcome = "overflow";
    else if (event_.raised.invalid) outcome = "no number of this format";
    else if (event_.flushed) outcome = "flushed to zero";
    else if (place_.chosen != place_.exact) {
      const double error = (place_.chosen - place_.exact) * (event_.negative ? -1 : 1);
      outcome = fmt::format("{}: {} {}, error {} ulp", mode, name_of(event_.cut), event_.grew ? "cut, one ulp added to the magnitude" : "cut and lost",
                            detail::signed_text(error, 4));
    }
    add(inside(middle, height - 10, outcome, role::label, 12));
    picture_.title = "Rounding to " + name;
    picture_.description = fmt::format("A number line with the neighbours in {}. {}.", name, outcome);
    picture_.caption = place_.note;
    if (place_.exact > 2.2 || place_.exact < -1.2) picture_.caption += " The exact value lies further out than drawn.";
  }

  rounded event_;
  rounding_place place_;
  scene picture_{};
};

}  // namespace

scene number_line(rounded const& event) { return drawing(event).made(); }

}  // namespace stickybit::figure
