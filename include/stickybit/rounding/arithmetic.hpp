#pragma once
#include <cstdint>

#include "stickybit/format/bit_width.hpp"
#include "stickybit/format/code.hpp"
#include "stickybit/format/decode.hpp"
#include "stickybit/rounding/convert.hpp"
#include "stickybit/rounding/round_pack.hpp"

// Scalar arithmetic of every format, in integers: one rounding from the exact value, never by way of a wider format. In FP32 to
// nearest even it is that of a GPU's ordinary (not tensor-core) units. This is the definition; host_arithmetic.hpp is FP32's fast form tested equal to it.
//
// Common to all: a NaN result is the canonical one (FP32 7fffffff). With subnormals::flushed (`.ftz`) subnormal operands are read
// as zeros of the same sign, and subnormal results become zeros of the same sign (decided as round_pack says). A sink gets one event
// an operation: rounded, or special_result where NaN or infinity is the answer. What a format cannot say (infinity, NaN, −0, or in
// E8M0 zero and what is below) becomes what round_pack, infinite_result and nan_result say.
// @source PTX ISA "Floating-Point Instructions"; measured on an H200: 17 operand lines x 7 results, tests/rounding/

namespace stickybit {

/// The 128-bit integer that holds an FP32 product and an addend side by side.
__extension__ using int128 = __int128;
__extension__ using uint128 = unsigned __int128;

/// `.ftz` on an operand: a subnormal becomes the zero of its sign.
template <format F>
[[nodiscard]] constexpr code<F> flush_subnormal(code<F> c) noexcept {
  if constexpr (traits_of(F).has_subnormals())
    if (c.is_subnormal()) return code<F>::zero(c.negative());
  return c;
}

namespace detail {

template <format F>
[[nodiscard]] constexpr code<F> operand(code<F> c, subnormals s) noexcept {
  return s == subnormals::flushed ? flush_subnormal(c) : c;
}

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
template <format F>
[[nodiscard]] constexpr exact_term term_of(code<F> c, bool flip_sign = false) noexcept {
  const decoded d = decode(c);
  return {d.negative != flip_sign, d.e - traits_of(F).fraction_bits(), d.significand};
}
template <format F>
[[nodiscard]] constexpr exact_term product_of(code<F> a, code<F> b) noexcept {
  const decoded da = decode(a), db = decode(b);
  return {da.negative != db.negative, da.e + db.e - 2 * traits_of(F).fraction_bits(), uint128{da.significand} * db.significand};
}

/// x + y rounded once. Terms of at most 48 bits.
/// An exact zero is +0 (−0 when rounding toward negative), unless both terms are zeros of one sign.  @source IEEE 754-2019 §6.3
template <format F, class Sink>
constexpr code<F> round_sum(exact_term x, exact_term y, rounding_rule rule, Sink&& sink) {
  const bool zero_negative = rule.mode == rounding::toward_negative;
  if (x.magnitude == 0 && y.magnitude == 0) return round_pack<F>(rule, x.negative == y.negative ? x.negative : zero_negative, 0, 0, sink);
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
  if (sum == 0) return round_pack<F>(rule, zero_negative, 0, 0, sink);
  const uint128 magnitude = sum < 0 ? uint128(-sum) : uint128(sum);
  const auto high = std::uint64_t(magnitude >> 64);
  const int excess = bit_width_of(high);
  return round_pack<F>(rule, sum < 0, base + excess, std::uint64_t(shift_right_sticky(magnitude, excess)), sink);
}

/// a + b, or a − b with b's sign flipped.
template <format F, class Sink>
constexpr code<F> add_or_subtract(code<F> a, code<F> b, bool flip_b, rounding_rule rule, Sink& sink) {
  a = operand(a, rule.subnormal);
  b = operand(b, rule.subnormal);
  if (a.is_nan() || b.is_nan()) return finish_special(nan_result<F>(), {}, sink);
  const bool b_negative = b.negative() != flip_b;
  if (a.is_infinite() && b.is_infinite() && a.negative() != b_negative) return finish_special(nan_result<F>(), {.invalid = true}, sink);
  if (a.is_infinite()) return finish_special(a, {}, sink);
  if (b.is_infinite()) return finish_special(infinite_result<F>(overflow::by_mode, b_negative), {}, sink);
  return round_sum<F>(term_of(a), term_of(b, flip_b), rule, sink);
}

/// Sign-magnitude to an order of integers: −0 directly below +0.
template <format F>
[[nodiscard]] constexpr std::int64_t order_of(code<F> c) noexcept {
  return c.negative() ? ~std::int64_t{c.magnitude()} : std::int64_t{c.magnitude()};
}

}  // namespace detail

/// a·b + c with one rounding (FFMA).
template <format F, class Sink = null_sink>
[[nodiscard]] constexpr code<F> fma(code<F> a, code<F> b, code<F> c, rounding_rule rule, Sink&& sink = {}) {
  a = detail::operand(a, rule.subnormal);
  b = detail::operand(b, rule.subnormal);
  c = detail::operand(c, rule.subnormal);
  const bool product_negative = a.negative() != b.negative();
  const bool product_infinite = a.is_infinite() || b.is_infinite();
  const bool zero_by_infinity = product_infinite && (a.is_zero() || b.is_zero());
  if (a.is_nan() || b.is_nan() || c.is_nan()) return detail::finish_special(nan_result<F>(), {}, sink);
  if (zero_by_infinity || (product_infinite && c.is_infinite() && product_negative != c.negative()))
    return detail::finish_special(nan_result<F>(), {.invalid = true}, sink);
  if (product_infinite) return detail::finish_special(infinite_result<F>(overflow::by_mode, product_negative), {}, sink);
  if (c.is_infinite()) return detail::finish_special(c, {}, sink);
  return detail::round_sum<F>(detail::product_of(a, b), detail::term_of(c), rule, sink);
}

/// a + b (FADD).
template <format F, class Sink = null_sink>
[[nodiscard]] constexpr code<F> add(code<F> a, code<F> b, rounding_rule rule, Sink&& sink = {}) {
  return detail::add_or_subtract(a, b, false, rule, sink);
}

/// a − b.
template <format F, class Sink = null_sink>
[[nodiscard]] constexpr code<F> sub(code<F> a, code<F> b, rounding_rule rule, Sink&& sink = {}) {
  return detail::add_or_subtract(a, b, true, rule, sink);
}

/// a·b (FMUL).
template <format F, class Sink = null_sink>
[[nodiscard]] constexpr code<F> mul(code<F> a, code<F> b, rounding_rule rule, Sink&& sink = {}) {
  a = detail::operand(a, rule.subnormal);
  b = detail::operand(b, rule.subnormal);
  const bool negative = a.negative() != b.negative();
  if (a.is_nan() || b.is_nan()) return detail::finish_special(nan_result<F>(), {}, sink);
  if ((a.is_infinite() && b.is_zero()) || (a.is_zero() && b.is_infinite())) return detail::finish_special(nan_result<F>(), {.invalid = true}, sink);
  if (a.is_infinite() || b.is_infinite()) return detail::finish_special(infinite_result<F>(overflow::by_mode, negative), {}, sink);
  return detail::round_sum<F>(detail::product_of(a, b), {negative, 0, 0}, rule, sink);
}

/// a / b with one rounding (the correctly rounded division, `div.rn`).
/// 0/0 and infinity/infinity are NaN, a number by 0 is infinity.  @source IEEE 754-2019 §5.4.1, §7.3
template <format F, class Sink = null_sink>
[[nodiscard]] constexpr code<F> div(code<F> a, code<F> b, rounding_rule rule, Sink&& sink = {}) {
  a = detail::operand(a, rule.subnormal);
  b = detail::operand(b, rule.subnormal);
  const bool negative = a.negative() != b.negative();
  if (a.is_nan() || b.is_nan()) return detail::finish_special(nan_result<F>(), {}, sink);
  if ((a.is_zero() && b.is_zero()) || (a.is_infinite() && b.is_infinite())) return detail::finish_special(nan_result<F>(), {.invalid = true}, sink);
  if (a.is_infinite()) return detail::finish_special(infinite_result<F>(overflow::by_mode, negative), {}, sink);
  if (b.is_zero()) return detail::finish_special(infinite_result<F>(rule.beyond, negative), {.divide_by_zero = true}, sink);
  if (b.is_infinite() || a.is_zero()) return round_pack<F>(rule, negative, 0, 0, sink);
  const decoded da = decode(a), db = decode(b);
  // 62 bits of dividend over at most 24 of divisor leave at least 38 bits of quotient, whatever was subnormal.
  const int up = 62 - bit_width_of(da.significand);
  const std::uint64_t dividend = std::uint64_t{da.significand} << up, quotient = dividend / db.significand;
  const bool rest = dividend % db.significand != 0;
  return round_pack<F>(rule, negative, da.e - db.e - up, quotient | (rest ? 1 : 0), sink);
}

/// The same with GPU subnormal rules and nothing else to choose.
template <format F, class Sink = null_sink>
[[nodiscard]] constexpr code<F> fma(code<F> a, code<F> b, code<F> c, subnormals s, Sink&& sink = {}, rounding mode = rounding::nearest_even) {
  return fma(a, b, c, rounding_rule{.mode = mode, .subnormal = s}, sink);
}
template <format F, class Sink = null_sink>
[[nodiscard]] constexpr code<F> add(code<F> a, code<F> b, subnormals s, Sink&& sink = {}) {
  return add(a, b, rounding_rule{.subnormal = s}, sink);
}
template <format F, class Sink = null_sink>
[[nodiscard]] constexpr code<F> sub(code<F> a, code<F> b, subnormals s, Sink&& sink = {}) {
  return sub(a, b, rounding_rule{.subnormal = s}, sink);
}
template <format F, class Sink = null_sink>
[[nodiscard]] constexpr code<F> mul(code<F> a, code<F> b, subnormals s, Sink&& sink = {}) {
  return mul(a, b, rounding_rule{.subnormal = s}, sink);
}
template <format F, class Sink = null_sink>
[[nodiscard]] constexpr code<F> div(code<F> a, code<F> b, subnormals s, Sink&& sink = {}) {
  return div(a, b, rounding_rule{.subnormal = s}, sink);
}

/// The larger operand (FMNMX): a NaN loses against a number, −0 against +0; two NaN give the canonical NaN. No flags.
/// @source PTX ISA max.f32
template <format F>
[[nodiscard]] constexpr code<F> max(code<F> a, code<F> b, subnormals s) noexcept {
  a = detail::operand(a, s);
  b = detail::operand(b, s);
  if (a.is_nan()) return b.is_nan() ? nan_result<F>() : b;
  if (b.is_nan()) return a;
  return detail::order_of(a) < detail::order_of(b) ? b : a;
}

/// The smaller operand, with the same rules: −0 wins against +0.  @source PTX ISA min.f32
template <format F>
[[nodiscard]] constexpr code<F> min(code<F> a, code<F> b, subnormals s) noexcept {
  a = detail::operand(a, s);
  b = detail::operand(b, s);
  if (a.is_nan()) return b.is_nan() ? nan_result<F>() : b;
  if (b.is_nan()) return a;
  return detail::order_of(b) < detail::order_of(a) ? b : a;
}

}  // namespace stickybit
