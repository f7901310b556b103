#pragma once
#include <span>

#include "oracle/arithmetic.hpp"
#include "oracle/formats.hpp"

namespace oracle {

/// A tensor core's block operation with FP32 results, as numbers.
struct block_rules {
  int products = 16;          ///< n
  int fraction_bits = 25;     ///< F
  int smallest_exponent = -133;
  direction output = direction::zero;
  bool accumulator_last = false;
  number_format input = bf16_format;
  int result_fraction_bits = 23;
};

namespace detail {

/// An operand's code taken apart, by the numbers of its format.
constexpr parts operand_of(number_format const& f, std::uint32_t code) {
  const bool minus = f.minus(code);
  if (f.is_nan(code)) return {minus, true, false, 0, 0, 0};
  if (f.is_infinite(code)) return {minus, false, true, 0, 0, 0};
  const std::uint32_t magnitude = f.magnitude(code);
  return {minus, false, false, std::uint32_t(f.whole(magnitude)), f.weight(magnitude), f.weight(magnitude) + f.fraction_width};
}

/// The largest multiple of 2^e that is not above x; x ≥ 0.
inline rational cut_down(rational const& x, int e) {
  const rational quantum = times_pow2<rational>(1, e), quotient = x / quantum;
  return rational(integer(mp::numerator(quotient) / mp::denominator(quotient))) * quantum;
}
inline fixed cut_down(fixed const& x, int e) {
  const auto bits = unsigned(e + fixed_scale);
  return fixed(x >> bits) << bits;
}

}  // namespace detail

/// c + Σ a·b as one block of a tensor core gives it.
/// 1. The exponent of a product is the sum of its operands' exponents; a subnormal has that of the smallest normal.
/// 2. E = the largest exponent of a product or c that is not zero, and not below the unit's smallest.
/// 3. Every magnitude is cut down to a multiple of 2^(E − F), then all are added exactly.
/// 4. The sum is rounded once to FP32, or to a number of FP32's exponents with fewer fraction bits; beyond FP32 it is infinity; a zero is +0.
/// NaN, infinity times zero and infinities of both signs give 7fffffff.
/// @source measured on an H200, bf16 → f32, n = 16, F = 25, smallest exponent −133
template <class Number = fixed>
std::uint32_t block(block_rules const& rules, std::span<std::uint16_t const> a, std::span<std::uint16_t const> b, std::uint32_t c) {
  struct term {
    bool minus;
    int exponent;
    Number magnitude;
  };
  term terms[64];
  std::size_t count = 0;
  bool nan = false, plus_infinity = false, minus_infinity = false;
  const auto take = [&](bool minus, int exponent, Number const& magnitude) {
    if (magnitude != 0) terms[count++] = {minus, exponent, magnitude};
  };
  for (std::size_t k = 0; k < std::size_t(rules.products); ++k) {
    const parts x = detail::operand_of(rules.input, a[k]), y = detail::operand_of(rules.input, b[k]);
    const bool minus = x.minus != y.minus;
    if (x.nan || y.nan || (x.infinite && y.zero()) || (x.zero() && y.infinite)) nan = true;
    else if (x.infinite || y.infinite) (minus ? minus_infinity : plus_infinity) = true;
    else take(minus, x.exponent + y.exponent, times_pow2<Number>(std::uint64_t{x.whole} * y.whole, x.weight + y.weight));
  }
  if (!rules.accumulator_last) {
    const parts z = take_apart(f32, c);
    if (z.nan) nan = true;
    else if (z.infinite) (z.minus ? minus_infinity : plus_infinity) = true;
    else take(z.minus, z.exponent, times_pow2<Number>(z.whole, z.weight));
  }
  const auto finish = [&](std::uint32_t result) { return rules.accumulator_last ? add<Number>(result, c, false) : result; };
  if (nan || (plus_infinity && minus_infinity)) return finish(canonical_nan);
  if (plus_infinity || minus_infinity) return finish(minus_infinity ? 0xff800000 : 0x7f800000);

  int largest = rules.smallest_exponent;
  for (std::size_t i = 0; i < count; ++i) largest = terms[i].exponent > largest ? terms[i].exponent : largest;
  Number sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Number cut = detail::cut_down(terms[i].magnitude, largest - rules.fraction_bits);
    sum += terms[i].minus ? Number(-cut) : cut;
  }
  const shape output{f32.exponent_width, rules.result_fraction_bits};
  const std::uint32_t result = round_to<Number>(output, {.toward = rules.output, .always_to_infinity = true}, sum < 0, sum < 0 ? Number(-sum) : sum)
                               << (f32.fraction_width - rules.result_fraction_bits);
  return finish(result % 0x80000000 == 0 ? 0 : result);
}

/// Blocks over ascending k, each result the next one's c; the last block is filled with +0.
template <class Number = fixed>
std::uint32_t chain(block_rules const& rules, std::span<std::uint16_t const> a, std::span<std::uint16_t const> b, std::uint32_t c) {
  const auto n = std::size_t(rules.products);
  for (std::size_t k = 0; k < a.size(); k += n) {
    std::uint16_t x[64] = {}, y[64] = {};
    for (std::size_t i = 0; i < n && k + i < a.size(); ++i) {
      x[i] = a[k + i];
      y[i] = b[k + i];
    }
    c = block<Number>(rules, std::span(x).first(n), std::span(y).first(n), c);
  }
  return c;
}

}  // namespace oracle
