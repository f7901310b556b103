#pragma once
#include <cstdint>

#include "stickybit/format/bit_width.hpp"
#include "stickybit/format/code.hpp"
#include "stickybit/machine/special_functions.hpp"

// MUFU: ex2, rcp, rsqrt and lg2 `.approx.ftz.f32` as a GPU's special-function unit computes them, in integers.
//
// The unit splits the fraction into high bits, which pick a row (a, b, c), and low bits x, and evaluates
//     P(x) = a·2^i + b·x + c·SQ(x)·2^j + rounding constant,
// where SQ is a square with its low columns left out. Each function below says how its operand becomes (row, x) and how P
// becomes a result. Common to all: a subnormal operand is a zero of its sign; a NaN result is 7fffffff.
//
// @source structure of the evaluator: envytools nvhw/sfu.c, f102b823 (G80), after Oberman and Siu, ARITH 2005; that Hopper
//   still computes exactly this is our measurement
// @checked H200: all 2^32 inputs of each function (cuda/check/sfu_all_inputs.cu); dumps of 21 binades

namespace stickybit {

namespace detail {

/// The unit's square of a 17-bit x, in units of 2^19: columns of weight below 2^19 are never formed.
[[nodiscard]] constexpr std::int64_t truncated_square(std::uint32_t x) noexcept {
  const std::uint32_t high = x >> 9, low = x & 0x1ff;
  std::uint32_t sum = high * high >> 1;
  for (int k = 1; k <= 7; ++k)
    if ((high >> k & 1) != 0) sum += low >> (9 - k);
  return sum;
}

[[nodiscard]] constexpr std::int64_t interpolate(interpolation_row row, int a_shift, int c_shift, std::uint32_t x, std::uint32_t square_of) noexcept {
  return (std::int64_t{row.a} << a_shift) + std::int64_t{row.b} * x + ((row.c * truncated_square(square_of)) * (std::int64_t{1} << c_shift));
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
[[nodiscard]] constexpr f32_code ex2(special_function_tables const& tables, f32_code x) noexcept {
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
  const std::int64_t p = detail::interpolate(tables.ex2[f >> 17], 13, 0, low, low);
  return n + 127 <= 0 ? f32_code::zero() : detail::packed(false, n + 127, (p + 0x77e2) >> 15);
}

/// 1/x. Relative error below 2^-23.2; powers of two exact. ±0 gives ±inf, ±inf gives ±0, and so does |x| > 2^126.
[[nodiscard]] constexpr f32_code rcp(special_function_tables const& tables, f32_code x) noexcept {
  if (x.is_nan()) return f32_code::nan();
  const int biased_e = detail::biased_exponent_of(x);
  if (biased_e == 0) return f32_code::infinity(x.negative());
  if (x.is_infinite()) return f32_code::zero(x.negative());
  const std::uint32_t f = detail::fraction_of(x), low = f & 0xffff;
  const std::int64_t p = detail::interpolate(tables.rcp[f >> 16], 13, 0, low, low << 1);
  return detail::packed(x.negative(), 253 - biased_e, (p + 0x47e7) >> 15);
}

/// 1/√x. Relative error below 2^-22.9; powers of four exact. ±0 gives ±inf, negative numbers NaN, +inf gives +0.
[[nodiscard]] constexpr f32_code rsqrt(special_function_tables const& tables, f32_code x) noexcept {
  if (x.is_nan()) return f32_code::nan();
  const int biased_e = detail::biased_exponent_of(x);
  if (biased_e == 0) return f32_code::infinity(x.negative());
  if (x.negative()) return f32_code::nan();
  if (x.is_infinite()) return f32_code::zero();
  const int k = biased_e - 127, parity = k & 1, half = (k - parity) / 2;
  const std::uint32_t f = detail::fraction_of(x), low = f & 0x1ffff;
  if (parity == 0 && f == 0) return f32_code::from_bits(std::uint32_t(127 - half) << 23);
  const std::int64_t p = detail::interpolate(tables.rsqrt[std::uint32_t(parity) << 6 | f >> 17], 14, 2, low, low);
  return detail::packed(false, 126 - half, (p + 0x7fff) >> 16);
}

/// log2 x. Absolute error below 2^-22.1 next to 1, below 2.3 ulp elsewhere; lg2(1) = +0 is the only exact special case.
/// ±0 gives −inf, negative numbers NaN, +inf gives +inf.
[[nodiscard]] constexpr f32_code lg2(special_function_tables const& tables, f32_code x) noexcept {
  if (x.is_nan()) return f32_code::nan();
  const int biased_e = detail::biased_exponent_of(x);
  if (biased_e == 0) return f32_code::infinity(true);
  if (x.negative()) return f32_code::nan();
  if (x.is_infinite()) return f32_code::infinity();
  if (x.to_bits() == 0x3f800000) return f32_code::zero();
  const std::uint32_t f = detail::fraction_of(x), low = f & 0x1ffff;
  const std::int64_t p = detail::interpolate(tables.lg2[f >> 17], 12, 1, low, low);
  // log2 x in fixed point with 36 fraction bits; a negative value loses one unit (one's complement), then all is truncated.
  const std::int64_t fixed = ((p + 0x3345) >> 2) + (std::int64_t{biased_e - 127} << 36);
  const bool negative = fixed < 0;
  const auto magnitude = std::uint64_t(negative ? ~fixed : fixed);
  if (magnitude == 0) return f32_code::zero(negative);
  const int top = bit_width_of(magnitude) - 1;
  const std::uint64_t significand = top >= 23 ? magnitude >> (top - 23) : magnitude << (23 - top);
  return detail::packed(negative, top - 36 + 127, std::int64_t(significand));
}

}  // namespace stickybit
