#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "stickybit/figure/scene.hpp"

namespace stickybit::figure::detail {

/// A number as fmt writes it, with a true minus and a short exponent: "-1.5e-07" to "−1.5e−7"; other text stays.
[[nodiscard]] std::string typeset(std::string text);

/// "0.25", "−1.5e−7": a number to `digits` significant digits, with a true minus; "∞", "−∞", "NaN".
[[nodiscard]] std::string number_text(double v, int digits = 3);

/// The same with its sign always said: "+0.25".
[[nodiscard]] std::string signed_text(double v, int digits = 3);

/// "1 step", "12 steps".
[[nodiscard]] std::string counted(std::int64_t n, std::string_view noun);

/// "2⁻²⁵".
[[nodiscard]] std::string power_of_two(int exponent);

/// An interval of finite values, lo ≤ hi.
struct interval {
  double lo, hi;
};

/// The finite values' interval; [0, 0] if there are none. With zero, if asked.
[[nodiscard]] interval interval_of(std::vector<double> const& values, bool with_zero);

/// Maps values to pixels: linear, or with a knee > 0 as sign(v)·log10(1 + |v|/knee). An empty interval is widened; any finite interval will do.
class scale {
 public:
  scale(interval values, double first_pixel, double last_pixel, double knee = 0);

  [[nodiscard]] double operator()(double v) const;  ///< clamped to the pixels' range
  /// Round values inside, ascending, about `wanted` and never more than 2 · wanted + 1.
  [[nodiscard]] std::vector<double> ticks(int wanted) const;
  [[nodiscard]] interval values() const { return values_; }

 private:
  [[nodiscard]] double bent(double v) const;
  interval values_;
  double first_pixel_, last_pixel_, knee_;
};

/// One text for each tick, with as many digits as tell them apart.
[[nodiscard]] std::vector<std::string> tick_texts(std::vector<double> const& ticks);

/// Horizontal grid lines from `left` to `right`, the zero line stronger, their texts at the left.
void draw_value_axis(scene& picture, scale const& y, double left, double right, int wanted);

}  // namespace stickybit::figure::detail
