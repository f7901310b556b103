#pragma once
#include <cmath>

#include "stickybit/rounding/bf16_of_double.hpp"

// A kernel's scalar operations on numbers held in doubles, of which some are no FP32 number: the exact result of the operation, found
// in double, rounded to FP32. On FP32 numbers add and mul are those of rounding/arithmetic.hpp, because 53 ≥ 2·24 + 2 bits
// (S. Figueroa, "When is double rounding innocuous?", SIGNUM 30(3), 1995); fma may differ by one ulp, once in about 2^29.

namespace stickybit::detail {

class rounded_doubles {
 public:
  /// @param flushed  `.ftz`: subnormal operands and results are zeros
  explicit rounded_doubles(bool flushed) noexcept : smallest_(flushed ? 0x1p-126 : 0), smallest_result_(flushed ? 0x1p-126 - 0x1p-151 : 0) {}

  [[nodiscard]] double add(double a, double b) const noexcept { return to_f32(operand(a) + operand(b)); }
  [[nodiscard]] double mul(double a, double b) const noexcept { return to_f32(operand(a) * operand(b)); }
  [[nodiscard]] double fma(double a, double b, double c) const noexcept { return to_f32(operand(a) * operand(b) + operand(c)); }
  /// `.ftz` decides on the value rounded to 24 bits: from 2^-126·(1 − 2^-25) on that is 2^-126.
  [[nodiscard]] double to_f32(double x) const noexcept { return std::fabs(x) < smallest_result_ ? std::copysign(0.0, x) : double{static_cast<float>(x)}; }

 private:
  [[nodiscard]] double operand(double x) const noexcept { return std::fabs(x) < smallest_ ? std::copysign(0.0, x) : x; }

  double smallest_, smallest_result_;
};

}  // namespace stickybit::detail
