#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <stdexcept>

#include "stickybit/format/code.hpp"
#include "stickybit/format/decode.hpp"
#include "stickybit/machine/unit.hpp"
#include "stickybit/rounding/arithmetic.hpp"
#include "stickybit/rounding/round_pack.hpp"
#include "stickybit/trace/sink.hpp"

namespace stickybit {

/// The most products a unit may align in one step.
inline constexpr int max_block_size = 32;

/// Operands whose sizes do not go together.
class shape_error : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// Event: one product, or c, cut to the block's quantum. value = ± significand · 2^(exponent − scale_bits).
struct term_aligned {
  static constexpr int accumulator = -1;
  int index;                  ///< k of the product, or `accumulator`
  bool negative;
  int exponent;               ///< as it takes part in the maximum; meaningless when significand is 0
  int scale_bits;             ///< fraction bits of significand
  std::uint64_t significand;  ///< 0: the term does not take part
  int shift;                  ///< left shift to the quantum; negative: right, and bits are lost
  std::uint64_t kept;         ///< magnitude in quanta
  std::uint64_t dropped;      ///< low bits of significand that were lost
};

/// Event: all terms added. value = sum · 2^quantum_exponent.
struct block_summed {
  int max_exponent;  ///< E
  bool clamped;      ///< E is the unit's smallest alignment exponent, not that of a term
  int quantum_exponent;
  std::int64_t sum;
};

/// Event: the sum has more bits than the unit's FP32 results keep. value = significand · 2^quantum_exponent, of which `drop` low bits go.
struct sum_shortened {
  int fraction_bits;  ///< that are kept
  rounding mode;
  int quantum_exponent;
  std::uint64_t significand;
  int drop;               ///< ≥ 1
  std::uint64_t dropped;  ///< low bits of significand that were lost
};

/// Event: the block's result was decided by an infinity or a NaN.
struct block_special {
  bool nan;
  bool negative;
};

namespace detail {

/// A term on its way into the sum; significand 0 takes no part in the alignment.
struct block_term {
  bool negative;
  int exponent;
  int scale_bits;
  std::uint64_t significand;
};

/// NaN wins, then infinities: of both signs NaN, else that infinity.
struct special_state {
  bool nan = false, positive_infinity = false, negative_infinity = false;

  constexpr void see_infinity(bool negative) noexcept { (negative ? negative_infinity : positive_infinity) = true; }
  [[nodiscard]] constexpr bool any() const noexcept { return nan || positive_infinity || negative_infinity; }
  [[nodiscard]] constexpr bool is_nan() const noexcept { return nan || (positive_infinity && negative_infinity); }
};

constexpr block_term product_term(decoded a, decoded b, int fraction_bits, special_state& special) noexcept {
  const bool negative = a.negative != b.negative;
  const auto is = [&](number_class c) { return a.kind == c || b.kind == c; };
  if (is(number_class::nan) || (is(number_class::infinite) && is(number_class::zero))) special.nan = true;
  else if (is(number_class::infinite)) special.see_infinity(negative);
  return {negative, a.e + b.e, 2 * fraction_bits, std::uint64_t{a.significand} * b.significand};
}

/// c as a term: a number of the output format, so an FP16 unit first rounds it to that.
template <format Out>
constexpr block_term accumulator_term(f32_code c, special_state& special) {
  const decoded d = decode(convert<Out>(c));
  if (d.kind == number_class::nan) special.nan = true;
  if (d.kind == number_class::infinite) special.see_infinity(d.negative);
  constexpr int fraction_bits = traits_of(Out).fraction_bits();
  return {d.negative, d.e, fraction_bits, d.significand};
}

/// A magnitude rounded to the fraction bits that the unit's FP32 results have, where those are fewer than FP32's: packing it is exact then.
/// @pre 1 + unit.output_fraction_bits ≤ 24; magnitude < 2^63
template <class Sink>
constexpr std::uint64_t shorten(machine_unit const& unit, bool negative, std::uint64_t magnitude, int quantum_exponent, Sink&& sink) {
  constexpr format_traits f32 = traits_of(format::f32);
  const int top = quantum_exponent + bit_width_of(magnitude) - 1;
  const int drop = (top < f32.e_min() ? f32.e_min() : top) - unit.output_fraction_bits - quantum_exponent;
  if (unit.output_fraction_bits >= f32.fraction_bits() || magnitude == 0 || drop <= 0) return magnitude;
  const std::uint64_t kept = round_shift(unit.output_rounding, magnitude, drop, negative);
  const std::uint64_t dropped = drop < 64 ? magnitude & ((std::uint64_t{1} << drop) - 1) : magnitude;
  sink(sum_shortened{unit.output_fraction_bits, unit.output_rounding, quantum_exponent, magnitude, drop, dropped});
  return drop < 64 ? kept << drop : 0;
}

/// The sum rounded once to the output format, as an FP32 code; a zero is +0.
template <format Out, class Sink>
constexpr f32_code pack_sum(machine_unit const& unit, std::int64_t sum, int quantum_exponent, Sink&& sink) {
  const bool negative = sum < 0;
  std::uint64_t magnitude = negative ? std::uint64_t(-sum) : std::uint64_t(sum);
  if constexpr (Out == format::f32) magnitude = shorten(unit, negative, magnitude, quantum_exponent, sink);
  const code<Out> result = round_pack<Out>({.mode = unit.output_rounding, .beyond = overflow::to_infinity}, negative, quantum_exponent, magnitude, sink);
  return result.is_zero() ? f32_code::zero() : convert<format::f32>(result);
}

/// The term in units of 2^quantum_exponent, cut toward zero.
template <class Sink>
constexpr std::int64_t align(block_term t, int index, int quantum_exponent, Sink&& sink) {
  const int shift = t.significand == 0 ? 0 : t.exponent - t.scale_bits - quantum_exponent;
  const std::uint64_t kept = shift >= 0 ? t.significand << shift : -shift < 64 ? t.significand >> -shift : 0;
  const std::uint64_t dropped = shift >= 0 ? 0 : -shift < 64 ? t.significand & ((std::uint64_t{1} << -shift) - 1) : t.significand;
  sink(term_aligned{index, t.negative, t.exponent, t.scale_bits, t.significand, shift, kept, dropped});
  return t.negative ? -std::int64_t(kept) : std::int64_t(kept);
}

}  // namespace detail

/// One tensor-core step, c + Σ_{k<K} a[k]·b[k]: the exact products and c are aligned at their largest exponent E, each cut
/// toward zero at 2^(E − F), added exactly, and packed once.
/// @param unit  machine unit to imitate: K = unit.block_size, F = unit.alignment_fraction_bits
/// @param a, b  codes of the unit's input format, shape {K}: a row of A and a column of B
/// @param c  FP32 code; a unit with FP16 output takes it rounded to FP16, to nearest even
/// @param sink  gets term_aligned for each product and c, block_summed, sum_shortened where a unit's results are shorter than FP32,
///              then rounded; or one block_special
/// @returns     FP32 code, also of an FP16 result; a zero result is +0. NaN and infinity are results, never exceptions
/// @throws      shape_error unless a.size() == b.size() == K; and unless the unit's input is In and its output FP32 or FP16
/// @source      MMA-Sim c785138 simulator/nv_ptx.py, MATLAB-tensor-core b12b5a7 models/; clamp, zeros and NaN measured on an H200
/// @checked     tests/block_fma: an oracle on exact rationals, 13 generators; H100 and H200 vectors; every capture. FP8: the oracle, and Ada, H100 and H200 vectors
template <format In, class Sink = null_sink>
constexpr f32_code block_fma(machine_unit const& unit, std::span<code<In> const> a, std::span<code<In> const> b, f32_code c, Sink&& sink = {}) {
  const auto n = std::size_t(unit.block_size);
  if (a.size() != n || b.size() != n || n > std::size_t(max_block_size)) throw shape_error("block_fma: a and b must have the unit's block_size elements each");
  const bool half_output = unit.output == format::f16;
  if (unit.input != In || (!half_output && unit.output != format::f32)) throw shape_error("block_fma: the unit must take the operands' format and give FP32 or FP16");
  const bool aligned = unit.accumulator == accumulator_place::aligned;

  constexpr int fraction_bits = traits_of(In).fraction_bits();
  detail::special_state special;
  std::array<detail::block_term, max_block_size + 1> terms{};
  for (std::size_t k = 0; k < n; ++k)
    terms[k] = detail::product_term(decode(a[k]), decode(b[k]), fraction_bits, special);
  const f32_code inside = aligned ? c : f32_code::zero();
  terms[n] = half_output ? detail::accumulator_term<format::f16>(inside, special) : detail::accumulator_term<format::f32>(inside, special);
  if (special.any()) {
    sink(block_special{special.is_nan(), special.negative_infinity});
    const f32_code result = special.is_nan() ? f32_code::nan() : f32_code::infinity(special.negative_infinity);
    return aligned ? result : add(result, c, subnormals::kept, sink);
  }

  int max_exponent = unit.min_alignment_exponent;
  bool clamped = true;
  for (std::size_t i = 0; i <= n; ++i)
    if (terms[i].significand != 0 && terms[i].exponent >= max_exponent) {
      max_exponent = terms[i].exponent;
      clamped = false;
    }
  const int quantum_exponent = max_exponent - unit.alignment_fraction_bits;
  std::int64_t sum = 0;
  for (std::size_t i = 0; i <= n; ++i) sum += detail::align(terms[i], i == n ? term_aligned::accumulator : int(i), quantum_exponent, sink);
  sink(block_summed{max_exponent, clamped, quantum_exponent, sum});

  const f32_code result = half_output ? detail::pack_sum<format::f16>(unit, sum, quantum_exponent, sink) : detail::pack_sum<format::f32>(unit, sum, quantum_exponent, sink);
  return aligned ? result : add(result, c, subnormals::kept, sink);
}

/// c + a·b over any length: blocks in ascending k, each result the next one's c, the last block filled with +0.
/// @param sink gets each block's events in order.  @throws shape_error unless a.size() == b.size()
template <format In, class Sink = null_sink>
constexpr f32_code inner_product(machine_unit const& unit, std::span<code<In> const> a, std::span<code<In> const> b, f32_code c, Sink&& sink = {}) {
  if (a.size() != b.size()) throw shape_error("inner_product: a and b must have the same length");
  const auto n = std::size_t(unit.block_size);
  std::size_t k = 0;
  for (; k + n <= a.size(); k += n) c = block_fma<In>(unit, a.subspan(k, n), b.subspan(k, n), c, sink);
  if (k < a.size()) {
    std::array<code<In>, max_block_size> tail_a{}, tail_b{};
    std::copy(a.begin() + std::ptrdiff_t(k), a.end(), tail_a.begin());
    std::copy(b.begin() + std::ptrdiff_t(k), b.end(), tail_b.begin());
    c = block_fma<In>(unit, std::span<code<In> const>(tail_a).first(n), std::span<code<In> const>(tail_b).first(n), c, sink);
  }
  return c;
}

}  // namespace stickybit
