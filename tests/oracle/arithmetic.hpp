#pragma once
#include "oracle/round.hpp"

namespace oracle {

inline constexpr std::uint32_t canonical_nan = 0x7fffffff;

/// a·b + c in FP32, one rounding to nearest even. `ftz`: subnormal operands are zeros of their sign, subnormal results too.
/// @source IEEE 754-2019 §5.4.1, §6.1-6.3, §7.2; PTX ISA fma.rn{.ftz}.f32; every NaN result is 7fffffff
template <class Number = fixed>
std::uint32_t fma(std::uint32_t a, std::uint32_t b, std::uint32_t c, bool ftz) {
  parts x = take_apart(f32, a), y = take_apart(f32, b), z = take_apart(f32, c);
  if (ftz)
    for (parts* p : {&x, &y, &z})
      if (p->whole < 0x800000) p->whole = 0;
  const bool minus = x.minus != y.minus;
  if (x.nan || y.nan || z.nan) return canonical_nan;
  if ((x.infinite && y.zero()) || (x.zero() && y.infinite)) return canonical_nan;
  if (x.infinite || y.infinite) return z.infinite && z.minus != minus ? canonical_nan : (minus ? 0xff800000 : 0x7f800000);
  if (z.infinite) return c;
  const Number product = times_pow2<Number>(std::uint64_t{x.whole} * y.whole, x.weight + y.weight);
  const Number addend = times_pow2<Number>(z.whole, z.weight);
  const Number sum = (minus ? Number(-product) : product) + (z.minus ? Number(-addend) : addend);
  // §6.3: an exact zero sum is +0, except when both addends are zeros (or the sum is of like signs) with a minus.
  if (sum == 0) return minus && z.minus ? 0x80000000 : 0;
  return round_to<Number>(f32, {.flush = ftz}, sum < 0, sum < 0 ? Number(-sum) : sum);
}

template <class Number = fixed>
std::uint32_t add(std::uint32_t a, std::uint32_t b, bool ftz) {
  parts x = take_apart(f32, a), y = take_apart(f32, b);
  if (ftz)
    for (parts* p : {&x, &y})
      if (p->whole < 0x800000) p->whole = 0;
  if (x.nan || y.nan || (x.infinite && y.infinite && x.minus != y.minus)) return canonical_nan;
  if (x.infinite) return a;
  if (y.infinite) return b;
  const Number p = times_pow2<Number>(x.whole, x.weight), q = times_pow2<Number>(y.whole, y.weight);
  const Number sum = (x.minus ? Number(-p) : p) + (y.minus ? Number(-q) : q);
  if (sum == 0) return x.minus && y.minus ? 0x80000000 : 0;
  return round_to<Number>(f32, {.flush = ftz}, sum < 0, sum < 0 ? Number(-sum) : sum);
}

template <class Number = fixed>
std::uint32_t mul(std::uint32_t a, std::uint32_t b, bool ftz) {
  parts x = take_apart(f32, a), y = take_apart(f32, b);
  if (ftz)
    for (parts* p : {&x, &y})
      if (p->whole < 0x800000) p->whole = 0;
  const bool minus = x.minus != y.minus;
  if (x.nan || y.nan || (x.infinite && y.zero()) || (x.zero() && y.infinite)) return canonical_nan;
  if (x.infinite || y.infinite) return minus ? 0xff800000 : 0x7f800000;
  return round_to<Number>(f32, {.flush = ftz}, minus, times_pow2<Number>(std::uint64_t{x.whole} * y.whole, x.weight + y.weight));
}

/// a / b, one rounding to nearest even.  @source IEEE 754-2019 §5.4.1, §7.2, §7.3
inline std::uint32_t div(std::uint32_t a, std::uint32_t b, bool ftz) {
  parts x = take_apart(f32, a), y = take_apart(f32, b);
  if (ftz)
    for (parts* p : {&x, &y})
      if (p->whole < 0x800000) p->whole = 0;
  const bool minus = x.minus != y.minus;
  if (x.nan || y.nan || (x.zero() && y.zero()) || (x.infinite && y.infinite)) return canonical_nan;
  if (x.infinite || y.zero()) return minus ? 0xff800000 : 0x7f800000;
  if (y.infinite || x.zero()) return minus ? 0x80000000 : 0;
  const rational quotient = times_pow2<rational>(x.whole, x.weight) / times_pow2<rational>(y.whole, y.weight);
  return round_to<rational>(f32, {.flush = ftz}, minus, quotient);
}

/// The larger of two: a NaN loses against a number, −0 is below +0.  @source PTX ISA max{.ftz}.f32
inline std::uint32_t max(std::uint32_t a, std::uint32_t b, bool ftz) {
  const auto read = [ftz](std::uint32_t c) { return ftz && (c & 0x7f800000) == 0 ? c & 0x80000000 : c; };
  a = read(a);
  b = read(b);
  const parts x = take_apart(f32, a), y = take_apart(f32, b);
  if (x.nan && y.nan) return canonical_nan;
  if (x.nan || y.nan) return x.nan ? b : a;
  if (x.zero() && y.zero()) return x.minus && y.minus ? 0x80000000 : 0;
  if (x.minus != y.minus) return x.minus ? b : a;
  if (x.infinite || y.infinite) return x.infinite != x.minus ? a : b;
  return value_of<fixed>(f32, a) >= value_of<fixed>(f32, b) ? a : b;
}

/// FP32 to a narrower format. Infinity stays, NaN becomes the format's canonical NaN, subnormals are numbers like any other.
/// @source PTX ISA cvt.rn.bf16x2.f32; subnormals measured on an H200
inline std::uint32_t convert(shape to, std::uint32_t c, direction toward) {
  const parts p = take_apart(f32, c);
  if (p.nan) return to.nan();
  if (p.infinite) return (p.minus ? to.sign() : 0) + to.infinity();
  return round_to<fixed>(to, {.toward = toward}, p.minus, magnitude_of<fixed>(f32, c));
}

}  // namespace oracle
