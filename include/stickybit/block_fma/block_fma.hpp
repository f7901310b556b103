#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <type_traits>

#include "stickybit/block_fma/block_terms.hpp"
#include "stickybit/block_fma/matrix_core.hpp"
#include "stickybit/format/code.hpp"
#include "stickybit/format/decode.hpp"
#include "stickybit/machine/unit.hpp"
#include "stickybit/rounding/arithmetic.hpp"
#include "stickybit/rounding/round_pack.hpp"
#include "stickybit/trace/sink.hpp"

namespace stickybit {

/// Operands whose sizes do not go together.
class shape_error : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// Event: one product, or c, cut to the block's quantum. value = ± significand · 2^(exponent − scale_bits).
struct term_aligned {
  static constexpr int accumulator = -1;
  int index;                  ///< of the product in its block, or `accumulator`
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

/// The sum rounded once to the output format, as an FP32 code. `negative_zero`: what an exact zero is.
template <format Out, class Sink>
constexpr f32_code pack_sum(machine_unit const& unit, std::int64_t sum, int quantum_exponent, bool negative_zero, Sink&& sink) {
  const bool negative = sum < 0;
  std::uint64_t magnitude = negative ? std::uint64_t(-sum) : std::uint64_t(sum);
  if constexpr (Out == format::f32) magnitude = shorten(unit, negative, magnitude, quantum_exponent, sink);
  const code<Out> result = round_pack<Out>({.mode = unit.output_rounding, .subnormal = unit.flushes_results ? subnormals::flushed : subnormals::kept, .beyond = unit.beyond}, negative,
                                           quantum_exponent, magnitude, sink);
  if (result.is_zero()) return f32_code::zero(sum == 0 ? negative_zero : negative && unit.keeps_underflow_sign);
  return convert<format::f32>(result);
}

/// The exponent with which a term takes part in the maximum.
constexpr int alignment_exponent(machine_unit const& unit, block_term const& t) noexcept {
  return unit.normalizes_products && t.significand != 0 ? t.exponent - t.scale_bits + bit_width_of(t.significand) - 1 : t.exponent;
}

/// c as a term, with what the unit does to it first.
constexpr block_term accumulator_of(machine_unit const& unit, f32_code c, special_state& special) {
  const bool half = unit.output == format::f16 && !unit.keeps_wide_c;
  block_term t = half ? accumulator_term<format::f16>(c, special) : accumulator_term<format::f32>(c, special);
  const bool subnormal = t.significand >> t.scale_bits == 0;
  if (unit.flushes_c && subnormal) t.significand = 0;
  if (unit.shortens_c) t.significand = shorten(unit, t.negative, t.significand, t.exponent - t.scale_bits, null_sink{});
  return t;
}

/// Is a sum of 0 of these terms −0?
constexpr bool is_negative_zero(machine_unit const& unit, std::span<block_term const> products, block_term const& c) noexcept {
  bool all_negative_zeros = c.significand == 0 && c.negative, all_positive_zeros = c.significand == 0 && !c.negative;
  for (block_term const& t : products) {
    all_negative_zeros = all_negative_zeros && t.significand == 0 && t.negative;
    all_positive_zeros = all_positive_zeros && t.significand == 0 && !t.negative;
  }
  return all_negative_zeros ? unit.keeps_negative_zero : !all_positive_zeros && unit.negative_cancellation;
}

/// The term in units of 2^quantum_exponent, rounded as the unit aligns.
template <class Sink>
constexpr std::int64_t align(machine_unit const& unit, block_term t, int index, int quantum_exponent, Sink&& sink) {
  const int shift = t.significand == 0 ? 0 : t.exponent - t.scale_bits - quantum_exponent;
  const std::uint64_t kept = shift >= 0 ? t.significand << shift : round_shift(unit.alignment_rounding, t.significand, -shift, t.negative);
  const std::uint64_t dropped = shift >= 0 ? 0 : -shift < 64 ? t.significand & ((std::uint64_t{1} << -shift) - 1) : t.significand;
  sink(term_aligned{index, t.negative, t.exponent, t.scale_bits, t.significand, shift, kept, dropped});
  return t.negative ? -std::int64_t(kept) : std::int64_t(kept);
}

/// Products and c cut at their largest exponent, added exactly, packed once: block_arithmetic::aligned_sum, and grouped_sum's end.
/// @pre products.size() ≤ max_block_size
template <class Sink>
constexpr f32_code aligned_sum(machine_unit const& unit, std::span<block_term const> products, special_state special, f32_code c, Sink&& sink) {
  const bool half_output = unit.output == format::f16;
  const block_term accumulator = accumulator_of(unit, c, special);
  if (special.any()) {
    sink(block_special{special.is_nan(), special.negative_infinity});
    return special.is_nan() ? f32_code::from_bits(unit.nan_bits) : special.result();
  }
  int max_exponent = unit.min_alignment_exponent;
  bool clamped = true;
  const auto see = [&](block_term const& t, bool zero_counts) {
    const int exponent = alignment_exponent(unit, t);
    if ((t.significand == 0 && !zero_counts) || exponent < max_exponent) return;
    max_exponent = exponent;
    clamped = false;
  };
  for (block_term const& t : products) see(t, unit.zero_products_in_maximum);
  see(accumulator, unit.zero_c_in_maximum);
  const int quantum_exponent = max_exponent - unit.alignment_fraction_bits;
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < products.size(); ++i) sum += align(unit, products[i], int(i), quantum_exponent, sink);
  sum += align(unit, accumulator, term_aligned::accumulator, quantum_exponent, sink);
  sink(block_summed{max_exponent, clamped, quantum_exponent, sum});
  const bool negative_zero = sum == 0 && is_negative_zero(unit, products, accumulator);
  return half_output ? pack_sum<format::f16>(unit, sum, quantum_exponent, negative_zero, sink) : pack_sum<format::f32>(unit, sum, quantum_exponent, negative_zero, sink);
}

/// One block, c a term of it.
template <class Sink>
constexpr f32_code block_of_terms(machine_unit const& unit, std::span<block_term const> products, special_state special, f32_code c, Sink&& sink) {
  switch (unit.arithmetic) {
    case block_arithmetic::exact_sum: return exact_sum(unit, products, special, c);
    case block_arithmetic::rounded_tree: return rounded_tree(unit, products, special, c);
    case block_arithmetic::two_stage_sum: return two_stage_sum(unit, products, special, c);
    case block_arithmetic::aligned_sum:
    case block_arithmetic::grouped_sum:
    case block_arithmetic::fma_chain: break;
  }
  return aligned_sum(unit, products, special, c, sink);
}

/// Two results, or a result and c, added in the output format.
template <class Sink>
constexpr f32_code add_results(machine_unit const& unit, f32_code x, f32_code y, Sink&& sink) {
  const rounding_rule rule{.mode = unit.addition_rounding, .subnormal = unit.flushes_results ? subnormals::flushed : subnormals::kept};
  const f32_code sum = unit.output != format::f16 ? add(x, y, rule, sink) : convert<format::f32>(add(convert<format::f16>(x), convert<format::f16>(y), rule, sink));
  return sum.is_nan() ? f32_code::from_bits(unit.nan_bits) : sum;
}

/// c added to an instruction's result.
template <class Sink>
constexpr f32_code add_last(machine_unit const& unit, f32_code result, f32_code c, Sink&& sink) {
  const bool subnormal = unit.output == format::f16 ? convert<format::f16>(c).is_subnormal() : c.is_subnormal();
  return add_results(unit, result, unit.flushes_c && subnormal ? f32_code::zero(c.negative()) : c, sink);
}

inline constexpr std::size_t max_blocks = 64;
constexpr std::size_t blocks_of(machine_unit const& unit) noexcept {
  return (unit.permutation.empty() ? std::size_t(unit.instruction_k) : unit.permutation.size()) / std::size_t(unit.block_size);
}

/// Results of blocks that started apart, added.
template <class Sink>
constexpr f32_code join_results(machine_unit const& unit, std::array<f32_code, max_blocks> results, std::size_t count, Sink&& sink) {
  if (unit.join == block_join::sequential) {
    for (std::size_t i = 1; i < count; ++i) results[0] = add_results(unit, results[0], results[i], sink);
    return results[0];
  }
  for (; count > 1; count = (count + 1) / 2)
    for (std::size_t i = 0; i < (count + 1) / 2; ++i) results[i] = 2 * i + 1 < count ? add_results(unit, results[2 * i], results[2 * i + 1], sink) : results[2 * i];
  return results[0];
}

/// Where product i of a block stands in its instruction; no_product where none does.
constexpr std::size_t place_in_instruction(machine_unit const& unit, std::size_t block, std::size_t i) noexcept {
  if (!unit.permutation.empty()) return unit.permutation[block * std::size_t(unit.block_size) + i];
  return unit.order == product_order::pairs ? i / 2 * 4 + i % 2 + 2 * block : block * std::size_t(unit.block_size) + i;
}

/// `blocks` blocks from the beginning of an instruction. Product: k within it → its term; it notes what is special.
/// @pre aligned_sum, or an arithmetic of AMD's: no scales
template <class Product, class Sink>
constexpr f32_code chain_of_blocks(machine_unit const& unit, std::size_t blocks, Product&& product, f32_code c, Sink&& sink) {
  const auto n = std::size_t(unit.block_size);
  const bool last = unit.accumulator == accumulator_place::added_last;
  std::array<block_term, max_block_size> terms;  // of one block; what is not taken is not read
  const auto block_from = [&](std::size_t block, f32_code start) {
    special_state special;
    std::size_t taken = 0;
    for (std::size_t i = 0; i < n; ++i)
      if (const std::size_t k = place_in_instruction(unit, block, i); unit.permutation.empty() || k != no_product) terms[taken++] = product(k, special);
    return block_of_terms(unit, std::span<block_term const>(terms).first(taken), special, start, sink);
  };
  f32_code sum = last ? f32_code::zero() : c;
  if (unit.join == block_join::chain) {
    for (std::size_t block = 0; block < blocks; ++block) sum = block_from(block, sum);
  } else {
    std::array<f32_code, max_blocks> apart{};
    for (std::size_t block = 0; block < blocks; ++block) apart[block] = block_from(block, block == 0 ? sum : f32_code::zero());
    sum = join_results(unit, apart, blocks, sink);
  }
  return last ? add_last(unit, sum, c, sink) : sum;
}

/// Instructions in ascending k over `count` products; Product as for one, with k from the beginning of all.
template <class Product, class Sink>
constexpr f32_code chain_of_instructions(machine_unit const& unit, std::size_t count, Product&& product, f32_code c, Sink&& sink) {
  const auto length = std::size_t(unit.instruction_k), n = std::size_t(unit.block_size);
  const bool whole = unit.accumulator == accumulator_place::added_last || unit.order == product_order::pairs || !unit.permutation.empty() || unit.join != block_join::chain;
  const block_term zero{false, traits_of(unit.input).e_min() + traits_of(unit.input_b).e_min(), 0, 0};
  for (std::size_t first = 0; first < count; first += length) {
    const std::size_t given = count - first < length ? count - first : length;
    const auto filled = [&](std::size_t k, special_state& special) { return k < given ? product(first + k, special) : zero; };
    c = chain_of_blocks(unit, whole ? blocks_of(unit) : (given + n - 1) / n, filled, c, sink);
  }
  return c;
}

/// @throws shape_error unless the unit's numbers are ones that blocks can be made of
constexpr void require_blocks(machine_unit const& unit) {
  const int n = unit.block_size;
  if (!unit.permutation.empty()) {
    if (n < 1 || n > max_block_size || unit.permutation.size() % std::size_t(n) != 0) throw shape_error("inner_product: a unit's blocks have 1 to 32 products");
    for (std::uint8_t k : unit.permutation)
      if (k != no_product && k >= unit.instruction_k) throw shape_error("inner_product: a permutation holds places of the instruction");
  }
  if (unit.join != block_join::chain && blocks_of(unit) > max_blocks) throw shape_error("inner_product: at most 64 blocks start apart");
  if (!unit.permutation.empty()) return;
  if (n < 1 || n > max_block_size || unit.instruction_k < n || unit.instruction_k % n != 0) throw shape_error("inner_product: a unit's blocks have 1 to 32 products and divide its instruction");
  if (unit.order == product_order::pairs && (unit.instruction_k != 2 * n || n % 2 != 0)) throw shape_error("inner_product: pairs come in two blocks");
}
/// @throws shape_error unless the unit is one that inner_product() can compute from these formats
template <format A, format B>
constexpr void require_unit(machine_unit const& unit) {
  if (unit.input != A || unit.input_b != B || (unit.output != format::f16 && unit.output != format::f32))
    throw shape_error("inner_product: the unit must take the operands' formats and give FP32 or FP16");
  if (unit.is_scaled() || unit.arithmetic == block_arithmetic::grouped_sum) throw shape_error("inner_product: this unit takes scales; evaluate() has them");
  require_blocks(unit);
}

}  // namespace detail

/// One block of a tensor core, c + Σ_{k<n} a[k]·b[k]: the exact products and c are aligned at their largest exponent E, each cut
/// toward zero at 2^(E − F), added exactly, and packed once. A unit of another arithmetic does what that says.
/// @param unit  machine unit to imitate: n = unit.block_size, F = unit.alignment_fraction_bits
/// @param a, b  codes of the unit's input formats, shape {n}: a row of A and a column of B
/// @param c  FP32 code; a unit with FP16 output takes it rounded to FP16, to nearest even
/// @param sink  gets term_aligned for each product and c, block_summed, sum_shortened where a unit's results are shorter than FP32,
///              then rounded; or one block_special. AMD's arithmetics have no events
/// @returns     FP32 code, also of an FP16 result; a zero result is +0. NaN and infinity are results, never exceptions
/// @throws      shape_error unless a.size() == b.size() == n, the unit's inputs are A and B and its output FP32 or FP16, without scales
/// @source      MMA-Sim c785138 simulator/nv_ptx.py, MATLAB-tensor-core b12b5a7 models/; clamp, zeros and NaN measured on an H200
/// @checked     tests/block_fma: an oracle on exact rationals, 13 generators; every published vector; every capture; recorded vectors
template <format A, format B = A, class Sink = null_sink>
constexpr f32_code block_fma(machine_unit const& unit, std::span<code<A> const> a, std::type_identity_t<std::span<code<B> const>> b, f32_code c, Sink&& sink = {}) {
  const auto n = std::size_t(unit.block_size);
  if (a.size() != n || b.size() != n || n > std::size_t(max_block_size)) throw shape_error("block_fma: a and b must have the unit's block_size elements each");
  detail::require_unit<A, B>(unit);
  constexpr int scale_bits = traits_of(A).fraction_bits() + traits_of(B).fraction_bits();
  machine_unit one_block = unit;
  one_block.instruction_k = unit.block_size;
  one_block.order = product_order::ascending;
  one_block.permutation = {};
  const auto product = [&](std::size_t k, detail::special_state& special) {
    return detail::product_term(detail::operand_of(unit, decode(a[k]), traits_of(A).fraction_bits()), detail::operand_of(unit, decode(b[k]), traits_of(B).fraction_bits()), scale_bits, special);
  };
  return detail::chain_of_blocks(one_block, 1, product, c, sink);
}

/// c + a·b over any length: instructions in ascending k, each result the next one's c; the last one is filled with +0, and blocks
/// of it that would hold nothing else are left out where c is aligned in each.
/// @param sink gets each block's events in order.  @throws shape_error unless a.size() == b.size()
template <format A, format B = A, class Sink = null_sink>
constexpr f32_code inner_product(machine_unit const& unit, std::span<code<A> const> a, std::type_identity_t<std::span<code<B> const>> b, f32_code c, Sink&& sink = {}) {
  if (a.size() != b.size()) throw shape_error("inner_product: a and b must have the same length");
  detail::require_unit<A, B>(unit);
  constexpr int scale_bits = traits_of(A).fraction_bits() + traits_of(B).fraction_bits();
  const auto product = [&](std::size_t k, detail::special_state& special) {
    return detail::product_term(detail::operand_of(unit, decode(a[k]), traits_of(A).fraction_bits()), detail::operand_of(unit, decode(b[k]), traits_of(B).fraction_bits()), scale_bits, special);
  };
  return detail::chain_of_instructions(unit, a.size(), product, c, sink);
}

}  // namespace stickybit
