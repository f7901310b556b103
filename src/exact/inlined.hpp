#pragma once
// Private to the stage: the arithmetic of double_double.hpp for inlining into this stage's own files. Operands and
// results must be finite here; what happens otherwise is the public functions' business.
#include <bit>
#include <cstdint>

#include "stickybit/exact/double_double.hpp"

namespace stickybit::inlined {

/// a + b = hi + lo exactly, whatever a and b.  @source Knuth; Møller 1965
inline double_double two_sum(double a, double b) noexcept {
  const double sum = a + b;
  const double b_part = sum - a;
  return {sum, (a - (sum - b_part)) + (b - b_part)};
}

/// a + b = hi + lo exactly if a = 0 or exponent(a) ≥ exponent(b).  @source Dekker 1971
inline double_double quick_two_sum(double a, double b) noexcept {
  const double sum = a + b;
  return {sum, b - (sum - a)};
}

/// a = hi + lo exactly: hi is a rounded to 26 bits (ties away), lo has at most 26 bits and |lo| ≤ 2^-26·2^e.
/// Rounding the code instead of multiplying by 2^27 + 1 (Veltkamp) cannot overflow below 2^1024·(1 − 2^-27).
inline double_double split(double a) noexcept {
  constexpr std::uint64_t low_27_bits = (std::uint64_t{1} << 27) - 1;
  const double high = std::bit_cast<double>((std::bit_cast<std::uint64_t>(a) + (std::uint64_t{1} << 26)) & ~low_27_bits);
  return {high, a - high};
}

/// a·b = hi + lo exactly. The four partial products have at most 52 bits, so each is exact; no hardware FMA is needed.
/// @source Dekker 1971
inline double_double two_product(double a, double b) noexcept {
  const double product = a * b;
  const double_double x = split(a), y = split(b);
  return {product, ((x.hi * y.hi - product) + x.hi * y.lo + x.lo * y.hi) + x.lo * y.lo};
}

/// 3u² + O(u³), under cancellation too.  @source Joldes et al., Algorithm 6
inline double_double add(double_double x, double_double y) noexcept {
  const double_double s = two_sum(x.hi, y.hi);
  const double_double t = two_sum(x.lo, y.lo);
  const double_double v = quick_two_sum(s.hi, s.lo + t.hi);
  return quick_two_sum(v.hi, t.lo + v.lo);
}

/// 2u².  @source Joldes et al., Algorithm 4
inline double_double add(double_double x, double y) noexcept {
  const double_double s = two_sum(x.hi, y);
  return quick_two_sum(s.hi, x.lo + s.lo);
}

/// 5u².  @source Joldes et al., Algorithm 10
inline double_double multiply(double_double x, double_double y) noexcept {
  const double_double c = two_product(x.hi, y.hi);
  return quick_two_sum(c.hi, c.lo + (x.hi * y.lo + x.lo * y.hi));
}

/// 1.5u² + 4u³.  @source Joldes et al., Algorithm 7
inline double_double multiply(double_double x, double y) noexcept {
  const double_double c = two_product(x.hi, y);
  const double_double t = quick_two_sum(c.hi, x.lo * y);
  return quick_two_sum(t.hi, t.lo + c.lo);
}

/// 15u² + 56u³.  @source Joldes et al., Algorithm 17
inline double_double divide(double_double x, double_double y) noexcept {
  const double quotient = x.hi / y.hi;
  const double_double r = multiply(y, quotient);
  const double rest = (x.hi - r.hi) + (x.lo - r.lo);
  return quick_two_sum(quotient, rest / y.hi);
}

}  // namespace stickybit::inlined
