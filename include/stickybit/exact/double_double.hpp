#pragma once
#include <compare>

// The arithmetic is compiled in the library, never inlined into a caller: a caller's -ffast-math or contraction would
// break the error terms. It assumes the default floating-point environment: nearest even, subnormals kept.
//
// Bounds are relative to the exact result and hold for normalised operands when operands, partial products and result are
// 0 or between 2^-900 and 2^1000 in magnitude; u = 2^-53. Below, an absolute error of a few 2^-1074 is added (in a quotient,
// that divided by the divisor); a result that is not finite is what IEEE 754 gives for the parts `hi`, with lo = 0.
// @source M. Joldes, J.-M. Muller, V. Popescu, "Tight and rigorous error bounds for basic building blocks of double-word
//         arithmetic", ACM TOMS 44(2), 2017; J.-M. Muller, L. Rideau, ACM TOMS 48(1), 2022 (product: 5u²)
// @checked against 640-bit arithmetic, tests/exact/

namespace stickybit {

/// The number hi + lo, not rounded. Normalised: hi is the sum rounded to double, so |lo| ≤ u·|hi|. Every function here returns
/// normalised numbers; zero has lo = 0, and so have infinities and NaN.
struct double_double {
  double hi = 0;
  double lo = 0;

  [[nodiscard]] constexpr double_double operator-() const noexcept { return {-hi, -lo}; }
  /// By value (of normalised numbers): +0 equals −0; NaN is unordered.
  friend constexpr bool operator==(double_double a, double_double b) noexcept { return a.hi == b.hi && a.lo == b.lo; }
  friend constexpr std::partial_ordering operator<=>(double_double a, double_double b) noexcept {
    const std::partial_ordering order = a.hi <=> b.hi;
    return order == 0 ? a.lo <=> b.lo : order;
  }
};

/// Nearest double: hi, because the number is normalised.
[[nodiscard]] constexpr double to_double(double_double x) noexcept { return x.hi; }

/// a + b without error.
[[nodiscard]] double_double two_sum(double a, double b) noexcept;
/// a + b without error. @pre a is 0 or the exponent of a is not below that of b
[[nodiscard]] double_double quick_two_sum(double a, double b) noexcept;
/// a·b without error, if the result is 0 or between 2^-900 and 2^1000.
[[nodiscard]] double_double two_product(double a, double b) noexcept;

/// Error ≤ 3u² + O(u³), under cancellation too.
[[nodiscard]] double_double operator+(double_double a, double_double b) noexcept;
[[nodiscard]] double_double operator-(double_double a, double_double b) noexcept;
/// Error ≤ 2u².
[[nodiscard]] double_double operator+(double_double a, double b) noexcept;
/// Error ≤ 5u².
[[nodiscard]] double_double operator*(double_double a, double_double b) noexcept;
/// Error ≤ 2u².
[[nodiscard]] double_double operator*(double_double a, double b) noexcept;
/// Error ≤ 16u². Division by zero as IEEE 754 has it.
[[nodiscard]] double_double operator/(double_double a, double_double b) noexcept;

/// e^x. Error ≤ 2^-101 relative plus 2^-1073 absolute (a subnormal result, or one with a subnormal lo); 0 for x < −745.2,
/// +infinity from 2^1024 on, exp(−infinity) = 0, NaN for NaN.
[[nodiscard]] double_double exp(double_double x) noexcept;

/// Natural logarithm. Error ≤ 2^-100 relative, near 1 too. log(0) = −infinity, log(+infinity) = +infinity, NaN for x < 0 or NaN.
[[nodiscard]] double_double log(double_double x) noexcept;

}  // namespace stickybit
