#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "rounded_value.hpp"

namespace stickybit::detail {

/// A running FP32 sum, rounded to nearest: the variance of what its roundings make. A sum whose lowest bit FP32 still holds is not rounded.
class rounded_sum {
 public:
  /// One more term, by a fused operation.
  void add(double term) noexcept { take(term, lowest_bit(term), true); }
  /// Another sum, itself rounded.
  void add(rounded_sum const& other) noexcept {
    variance_ += other.variance_;
    take(other.sum_, other.lowest_, other.set_);
  }
  [[nodiscard]] double sum() const noexcept { return sum_; }
  [[nodiscard]] double variance() const noexcept { return variance_; }

 private:
  static double lowest_bit(double x) noexcept {
    if (x == 0 || !std::isfinite(x)) return std::numeric_limits<double>::infinity();
    const auto bits = std::bit_cast<std::uint64_t>(x);
    return std::ldexp(1.0, int((bits >> 52) & 0x7ff) - 1075 + std::countr_zero((bits & 0xfffffffffffffu) | 0x10000000000000u));
  }
  void take(double term, double lowest, bool set) noexcept {
    sum_ += term;
    if (lowest < lowest_) lowest_ = lowest, set_ = set;
    const double ulp = f32_ulp(sum_);
    if (lowest_ >= ulp) return;
    // k bits go. Uniform: variance ulp²/12 (1 + 2·4^-k). With the last of them set they are odd multiples of it: ulp²/12 (1 − 4·4^-k), but of
    // a single bit a tie, ulp²/4.
    const double low = lowest_ * lowest_;
    if (!set_) variance_ += (ulp * ulp + 2 * low) / 12;
    else variance_ += 2 * lowest_ == ulp ? ulp * ulp / 4 : (ulp * ulp - 4 * low) / 12;
    lowest_ = ulp;
    set_ = false;
  }

  double sum_ = 0, variance_ = 0;
  double lowest_ = std::numeric_limits<double>::infinity();
  bool set_ = false;  ///< the bit of lowest_ is known to be set
};

}  // namespace stickybit::detail
