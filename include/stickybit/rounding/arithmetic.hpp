#pragma once
#include <cstdint>

#include "stickybit/format/bit_width.hpp"
#include "stickybit/format/code.hpp"
#include "stickybit/format/decode.hpp"
#include "stickybit/rounding/round_pack.hpp"

// Scalar FP32 arithmetic of a GPU's ordinary (not tensor-core) units, in integers: one rounding, to nearest even, from the
// exact value. This is the definition; host_arithmetic.hpp is the fast form tested equal to it.
//
// Common to all: a NaN result is the canonical 7fffffff. With subnormals::flushed (`.ftz`) subnormal operands are read as
// zeros of the same sign, and subnormal results become zeros of the same sign (decided as round_pack says).
// @source PTX ISA "Floating-Point Instructions"; measured on an H200: 17 operand lines x 7 results, tests/rounding/

namespace stickybit {

/// The 128-bit integer that holds an FP32 product and an addend side by side.
__extension__ using int128 = __int128;
__extension__ using uint128 = unsigned __int128;

/// `.ftz` on an operand: a subnormal becomes the zero of its sign.
[[nodiscard]] constexpr f32_code flush_subnormal(f32_code c) noexcept { return c.is_subnormal() ? f32_code::zero(c.negative()) : c; }

namespace detail {

/// value / 2^n for n ≥ 0; whatever is lost leaves its mark in the lowest bit.
[[nodiscard]] constexpr uint128 shift_right_sticky(uint128 value, int n) noexcept {
  if (n == 0 || value == 0) return value;
  if (n >= 128) return 1;
  const uint128 kept = value >> n;
  return kept | ((kept << n) != value ? 1 : 0);
}

/// A magnitude with its sign and the exponent of its lowest bit.
struct exact_term {
  bool negative;
  int exponent;
  uint128 magnitude;
};

/// x + y rounded once. Terms of at most 48 bits.
/// An exact zero is +0 (−0 when rounding toward negative), unless both terms are zeros of one sign.  @source IEEE 754-2019 §6.3
template <class Sink>
constexpr f32_code round_sum(exact_term x, exact_term y, rounding_rule rule, Sink&& sink) {
  const bool zero_negative = rule.mode == rounding::toward_negative;
  if (x.magnitude == 0 && y.magnitude == 0)
    return round_pack<format::f32>(rule, x.negative == y.negative ? x.negative : zero_negative, 0, 0, sink);
  if (x.magnitude == 0 || (y.magnitude != 0 && y.exponent > x.exponent)) {
    const exact_term swapped = x;
    x = y;
    y = swapped;
  }
  // x has the higher lowest bit. 76 bits below it are more than FP32 can see, so lower bits of y only need to be known
  // not to be zero. 48 + 76 bits and a carry fit into 127.
  constexpr int room = 76;
  const int shift = y.magnitude == 0 ? 0 : x.exponent - y.exponent < room ? x.exponent - y.exponent : room;
  const int base = x.exponent - shift;
  const uint128 lower = y.magnitude == 0 ? 0 : shift_right_sticky(y.magnitude, base - y.exponent);
  const int128 sum = (x.negative ? -int128(x.magnitude << shift) : int128(x.magnitude << shift)) + (y.negative ? -int128(lower) : int128(lower));
  if (sum == 0) return round_pack<format::f32>(rule, zero_negative, 0, 0, sink);
  const uint128 magnitude = sum < 0 ? uint128(-sum) : uint128(sum);
  const auto high = std::uint64_t(magnitude >> 64);
  const int excess = bit_width_of(high);
  return round_pack<format::f32>(rule, sum < 0, base + excess, std::uint64_t(shift_right_sticky(magnitude, excess)), sink);
}

}  // namespace detail

/// a·b + c with one rounding (FFMA), to nearest even or as `mode` says.
template <class Sink = null_sink>
[[nodiscard]] constexpr f32_code fma(f32_code a, f32_code b, f32_code c, subnormals s, Sink&& sink = {}, rounding mode = rounding::nearest_even) {
  if (s == subnormals::flushed) {
    a = flush_subnormal(a);
    b = flush_subnormal(b);
    c = flush_subnormal(c);
  }
  const bool product_negative = a.negative() != b.negative();
  const bool product_infinite = a.is_infinite() || b.is_infinite();
  if (a.is_nan() || b.is_nan() || c.is_nan() || (product_infinite && (a.is_zero() || b.is_zero())) ||
      (product_infinite && c.is_infinite() && product_negative != c.negative()))
    return f32_code::nan();
  if (product_infinite) return f32_code::infinity(product_negative);
  if (c.is_infinite()) return c;
  const decoded da = decode(a), db = decode(b), dc = decode(c);
  constexpr int fraction_bits = traits_of(format::f32).fraction_bits();
  return detail::round_sum({product_negative, da.e + db.e - 2 * fraction_bits, uint128{da.significand} * db.significand},
                           {dc.negative, dc.e - fraction_bits, dc.significand}, {.mode = mode, .subnormal = s}, sink);
}

/// a + b (FADD). Equal to a·1 + b: the product is exact and keeps the sign of a zero.
template <class Sink = null_sink>
[[nodiscard]] constexpr f32_code add(f32_code a, f32_code b, subnormals s, Sink&& sink = {}) {
  return fma(a, f32_code::from_bits(0x3f800000), b, s, sink);
}

/// a·b (FMUL). Equal to a·b + (−0): −0 is the neutral element of addition, for −0 too.
template <class Sink = null_sink>
[[nodiscard]] constexpr f32_code mul(f32_code a, f32_code b, subnormals s, Sink&& sink = {}) {
  return fma(a, b, f32_code::zero(true), s, sink);
}

/// a / b with one rounding (the correctly rounded division, `div.rn`).
/// 0/0 and infinity/infinity are NaN, a number by 0 is infinity.  @source IEEE 754-2019 §5.4.1, §7.3
template <class Sink = null_sink>
[[nodiscard]] constexpr f32_code div(f32_code a, f32_code b, subnormals s, Sink&& sink = {}) {
  if (s == subnormals::flushed) {
    a = flush_subnormal(a);
    b = flush_subnormal(b);
  }
  const bool negative = a.negative() != b.negative();
  if (a.is_nan() || b.is_nan() || (a.is_zero() && b.is_zero()) || (a.is_infinite() && b.is_infinite())) return f32_code::nan();
  if (a.is_infinite() || b.is_zero()) return f32_code::infinity(negative);
  if (b.is_infinite() || a.is_zero()) return f32_code::zero(negative);
  const decoded da = decode(a), db = decode(b);
  // 62 bits of dividend over at most 24 of divisor leave at least 38 bits of quotient, or 15 of a subnormal dividend shifted up.
  const int up = 62 - bit_width_of(da.significand);
  const std::uint64_t dividend = std::uint64_t{da.significand} << up, quotient = dividend / db.significand;
  const bool rest = dividend % db.significand != 0;
  return round_pack<format::f32>({.subnormal = s}, negative, da.e - db.e - up, quotient | (rest ? 1 : 0), sink);
}

/// The larger operand (FMNMX): a NaN loses against a number, −0 against +0; two NaN give the canonical NaN.
/// @source PTX ISA max.f32
[[nodiscard]] constexpr f32_code max(f32_code a, f32_code b, subnormals s) noexcept {
  if (s == subnormals::flushed) {
    a = flush_subnormal(a);
    b = flush_subnormal(b);
  }
  if (a.is_nan()) return b.is_nan() ? f32_code::nan() : b;
  if (b.is_nan()) return a;
  // Sign-magnitude to an order of integers: −0 directly below +0.
  const auto order = [](f32_code c) { return c.negative() ? ~std::int64_t(c.to_bits() & ~f32_code::sign_bit) : std::int64_t(c.to_bits()); };
  return order(a) < order(b) ? b : a;
}

/// FP32 to a narrower (or the same) format, one rounding. Infinity stays, NaN becomes the target's canonical NaN; subnormals are
/// operands and results like any other (cvt.rn.bf16x2.f32 keeps them: measured on an H200).
template <format To, class Sink = null_sink>
[[nodiscard]] constexpr code<To> convert(f32_code c, rounding mode = rounding::nearest_even, Sink&& sink = {}) {
  if (c.is_nan()) return code<To>::nan();
  if (c.is_infinite()) return code<To>::infinity(c.negative());
  const decoded d = decode(c);
  return round_pack<To>({.mode = mode}, d.negative, d.e - traits_of(format::f32).fraction_bits(), d.significand, sink);
}

}  // namespace stickybit
