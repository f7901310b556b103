#pragma once
#include <cstdint>

#include "stickybit/format/bit_width.hpp"
#include "stickybit/format/code.hpp"
#include "stickybit/machine/special_functions.hpp"
#include "stickybit/trace/sink.hpp"

// MUFU: ex2, rcp, rsqrt and lg2 `.approx.ftz.f32` as a GPU's special-function unit computes them, in integers.
//
// The unit splits the fraction into high bits, which pick a row (a, b, c), and low bits x, and evaluates
//     P(x) = a·2^i + b·x + c·SQ(x)·2^j + rounding constant,
// where SQ is a square with its low columns left out. Each function below says how its operand becomes (row, x) and how P
// becomes a result. Common to all: a subnormal operand is a zero of its sign; a NaN result is 7fffffff. A sink gets `interpolated`
// where P was evaluated, nothing where the class or the size of the operand decides.
//
// @source structure of the evaluator: envytools nvhw/sfu.c, f102b823 (G80), after Oberman and Siu, ARITH 2005; that Hopper
//   still computes exactly this is our measurement
// @checked H200: all 2^32 inputs of each function (cuda/check/sfu_all_inputs.cu); dumps of 21 binades

namespace stickybit {

/// Event: one evaluation of P. sum = constant_term + linear_term + square_term + rounding_constant; its low `cut_bits` bits are lost.
struct interpolated {
  int exponent;               ///< of the reduced operand: ex2 the n of x = n + f, else that of x
  std::uint32_t fraction;     ///< 23 bits: ex2 f, else the fraction of x
  int segment;                ///< row of the table
  interpolation_row row;
  std::uint32_t x;            ///< low bits of the fraction
  int a_shift, c_shift;       ///< i and j
  std::int64_t constant_term, linear_term, square_term, rounding_constant;
  int cut_bits;
  int result_exponent;        ///< of the packed result before a carry out of its 24 bits; lg2: of the integer part that is added
};

namespace detail {

/// The unit's square of a 17-bit x, in units of 2^19: columns of weight below 2^19 are never formed.
[[nodiscard]] constexpr std::int64_t truncated_square(std::uint32_t x) noexcept {
  const std::uint32_t high = x >> 9, low = x & 0x1ff;
  std::uint32_t sum = high * high >> 1;
  for (int k = 1; k <= 7; ++k)
    if ((high >> k & 1) != 0) sum += low >> (9 - k);
  return sum;
}

/// How a function takes P: where its terms stand, and how the sum is rounded.
struct interpolation_form {
  int a_shift, c_shift;
  std::int64_t rounding_constant;
  int cut_bits;
};

/// What P is evaluated at; the last is only told.
struct interpolation_point {
  int exponent;
  std::uint32_t fraction;
  int segment;
  std::uint32_t x, square_of;
  int result_exponent;
};

/// (P(x) + rounding constant) / 2^cut_bits, rounded down.
template <class Sink>
[[nodiscard]] constexpr std::int64_t interpolate(interpolation_row row, interpolation_form form, interpolation_point at, Sink& sink) {
  const std::int64_t constant = std::int64_t{row.a} << form.a_shift, linear = std::int64_t{row.b} * at.x;
  const std::int64_t square = (row.c * truncated_square(at.square_of)) * (std::int64_t{1} << form.c_shift);
  sink(interpolated{at.exponent, at.fraction, at.segment, row, at.x, form.a_shift, form.c_shift, constant, linear, square, form.rounding_constant, form.cut_bits, at.result_exponent});
  return (constant + linear + square + form.rounding_constant) >> form.cut_bits;
}

[[nodiscard]] constexpr std::uint32_t fraction_of(f32_code c) noexcept { return c.to_bits() & f32_code::fraction_mask; }
[[nodiscard]] constexpr int biased_exponent_of(f32_code c) noexcept { return int(c.to_bits() >> 23 & 0xff); }
/// 24 bits with the hidden one, and an exponent field for them; below the normal range the zero of that sign.
[[nodiscard]] constexpr f32_code packed(bool negative, int biased_e, std::int64_t significand) noexcept {
  const std::int64_t bits = (std::int64_t{biased_e} << 23) + significand - (std::int64_t{1} << 23);
  if (bits < 0x00800000) return f32_code::zero(negative);
  return f32_code::from_bits(std::uint32_t(bits) | f32_code::zero(negative).to_bits());
}

}  // namespace detail

/// 2^x. Relative error below 2^-22.7. Exactly 1 at ±0; x ≥ 128 gives +inf, x < −126 gives +0 (2^-126 is the smallest result).
template <class Sink>
[[nodiscard]] constexpr f32_code ex2(special_function_tables const& tables, f32_code x, Sink&& sink) {
  if (x.is_nan()) return f32_code::nan();
  const bool negative = x.negative();
  const int e = detail::biased_exponent_of(x) - 127;
  if (e >= 7) return negative ? f32_code::zero() : f32_code::infinity();
  // |x| in fixed point, 23 fraction bits, truncated. A subnormal x has nothing left there.
  const std::uint32_t significand = detail::fraction_of(x) | 0x800000;
  const std::uint32_t fixed = e >= 0 ? significand << e : e > -24 ? significand >> -e : 0;
  int n = int(fixed >> 23);
  std::uint32_t f = fixed & 0x7fffff;
  if (negative) {  // −(n + f) = (−n − 1) + (1 − f), with one's complement for 1 − f
    n = f != 0 ? -n - 1 : -n;
    f = f != 0 ? ~f & 0x7fffff : 0;
  }
  const std::uint32_t low = f & 0x1ffff;
  const std::int64_t p = detail::interpolate(tables.ex2[f >> 17], {13, 0, 0x77e2, 15}, {n, f, int(f >> 17), low, low, n}, sink);
  return n + 127 <= 0 ? f32_code::zero() : detail::packed(false, n + 127, p);
}
[[nodiscard]] constexpr f32_code ex2(special_function_tables const& tables, f32_code x) noexcept { return ex2(tables, x, null_sink{}); }

/// 1/x. Relative error below 2^-23.2; powers of two exact. ±0 gives ±inf, ±inf gives ±0, and so does |x| > 2^126.
template <class Sink>
[[nodiscard]] constexpr f32_code rcp(special_function_tables const& tables, f32_code x, Sink&& sink) {
  if (x.is_nan()) return f32_code::nan();
  const int biased_e = detail::biased_exponent_of(x);
  if (biased_e == 0) return f32_code::infinity(x.negative());
  if (x.is_infinite()) return f32_code::zero(x.negative());
  const std::uint32_t f = detail::fraction_of(x), low = f & 0xffff;
  const int e = biased_e - 127;
  const std::int64_t p = detail::interpolate(tables.rcp[f >> 16], {13, 0, 0x47e7, 15}, {e, f, int(f >> 16), low, low << 1, -1 - e}, sink);
  return detail::packed(x.negative(), 126 - e, p);
}
[[nodiscard]] constexpr f32_code rcp(special_function_tables const& tables, f32_code x) noexcept { return rcp(tables, x, null_sink{}); }

/// 1/√x. Relative error below 2^-22.9; powers of four exact. ±0 gives ±inf, negative numbers NaN, +inf gives +0.
template <class Sink>
[[nodiscard]] constexpr f32_code rsqrt(special_function_tables const& tables, f32_code x, Sink&& sink) {
  if (x.is_nan()) return f32_code::nan();
  const int biased_e = detail::biased_exponent_of(x);
  if (biased_e == 0) return f32_code::infinity(x.negative());
  if (x.negative()) return f32_code::nan();
  if (x.is_infinite()) return f32_code::zero();
  const int k = biased_e - 127, parity = k & 1, half = (k - parity) / 2;
  const std::uint32_t f = detail::fraction_of(x), low = f & 0x1ffff;
  if (parity == 0 && f == 0) return f32_code::from_bits(std::uint32_t(127 - half) << 23);
  const std::uint32_t segment = std::uint32_t(parity) << 6 | f >> 17;
  const std::int64_t p = detail::interpolate(tables.rsqrt[segment], {14, 2, 0x7fff, 16}, {k, f, int(segment), low, low, -1 - half}, sink);
  return detail::packed(false, 126 - half, p);
}
[[nodiscard]] constexpr f32_code rsqrt(special_function_tables const& tables, f32_code x) noexcept { return rsqrt(tables, x, null_sink{}); }

/// log2 x. Absolute error below 2^-22.1 next to 1, below 2.3 ulp elsewhere; lg2(1) = +0 is the only exact special case.
/// ±0 gives −inf, negative numbers NaN, +inf gives +inf.
template <class Sink>
[[nodiscard]] constexpr f32_code lg2(special_function_tables const& tables, f32_code x, Sink&& sink) {
  if (x.is_nan()) return f32_code::nan();
  const int biased_e = detail::biased_exponent_of(x);
  if (biased_e == 0) return f32_code::infinity(true);
  if (x.negative()) return f32_code::nan();
  if (x.is_infinite()) return f32_code::infinity();
  if (x.to_bits() == 0x3f800000) return f32_code::zero();
  const std::uint32_t f = detail::fraction_of(x), low = f & 0x1ffff;
  const int e = biased_e - 127;
  const std::int64_t p = detail::interpolate(tables.lg2[f >> 17], {12, 1, 0x3345, 2}, {e, f, int(f >> 17), low, low, e}, sink);
  // log2 x in fixed point with 36 fraction bits; a negative value loses one unit (one's complement), then all is truncated.
  const std::int64_t fixed = p + (std::int64_t{e} << 36);
  const bool negative = fixed < 0;
  const auto magnitude = std::uint64_t(negative ? ~fixed : fixed);
  if (magnitude == 0) return f32_code::zero(negative);
  const int top = bit_width_of(magnitude) - 1;
  const std::uint64_t significand = top >= 23 ? magnitude >> (top - 23) : magnitude << (23 - top);
  return detail::packed(negative, top - 36 + 127, std::int64_t(significand));
}
[[nodiscard]] constexpr f32_code lg2(special_function_tables const& tables, f32_code x) noexcept { return lg2(tables, x, null_sink{}); }

}  // namespace stickybit
