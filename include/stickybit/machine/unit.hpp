#pragma once
#include <span>
#include <string_view>

#include "stickybit/format/format.hpp"
#include "stickybit/machine/evidence.hpp"
#include "stickybit/rounding/round_pack.hpp"
#include "stickybit/rounding/rounding.hpp"

namespace stickybit {

/// What a unit does with the products of a block and c.
enum class block_arithmetic : std::uint8_t {
  aligned_sum,     ///< NVIDIA: products and c are cut at the largest exponent among them, added exactly, rounded once
  grouped_sum,     ///< NVIDIA's FP4 with scales: a group's products are added exactly and scaled; groups and c then as aligned_sum
  exact_sum,       ///< CDNA1: products and c are added exactly and rounded once
  rounded_tree,    ///< CDNA2: every product and every sum of two is rounded, c is added to the tree's root
  two_stage_sum,   ///< CDNA3: products are cut at their own largest exponent and added exactly; that sum and c are then cut and added
  fma_chain,       ///< FP64: one IEEE FMA a product, in ascending k
};

/// Where the accumulator c joins the products.
enum class accumulator_place : std::uint8_t {
  aligned,     ///< a term like any product: it takes part in the maximum and is cut
  added_last,  ///< the instruction starts from 0; c is added to its result by an ordinary addition in the output format, to nearest even
};

/// Which products of an instruction form its blocks.
enum class product_order : std::uint8_t {
  ascending,  ///< the first block_size, then the next
  pairs,      ///< k mod 4 = 0 or 1 in the first block, 2 or 3 in the second
  even_odd,   ///< one block, in which even k and odd k are added apart
};

/// How an instruction's blocks become one result.
enum class block_join : std::uint8_t {
  chain,       ///< each block's result is the next one's c
  sequential,  ///< every block but the first starts from 0; results are added in order
  tree,        ///< the same, neighbours added first
};

[[nodiscard]] constexpr std::string_view name_of(block_join j) noexcept {
  switch (j) {
    case block_join::chain: return "chain";
    case block_join::sequential: return "sequential";
    case block_join::tree: return "tree";
  }
  return {};
}
[[nodiscard]] constexpr std::string_view name_of(block_arithmetic a) noexcept {
  switch (a) {
    case block_arithmetic::aligned_sum: return "aligned_sum";
    case block_arithmetic::grouped_sum: return "grouped_sum";
    case block_arithmetic::exact_sum: return "exact_sum";
    case block_arithmetic::rounded_tree: return "rounded_tree";
    case block_arithmetic::two_stage_sum: return "two_stage_sum";
    case block_arithmetic::fma_chain: return "fma_chain";
  }
  return {};
}
[[nodiscard]] constexpr std::string_view name_of(accumulator_place p) noexcept { return p == accumulator_place::aligned ? "aligned" : "added_last"; }
[[nodiscard]] constexpr std::string_view name_of(product_order o) noexcept {
  switch (o) {
    case product_order::ascending: return "ascending";
    case product_order::pairs: return "pairs";
    case product_order::even_odd: return "even_odd";
  }
  return {};
}

/// In machine_unit::permutation: a place of a block that no product takes.
inline constexpr std::uint8_t no_product = 255;

/// One instruction's inner product, as numbers. block_fma() and its kin compute what these say.
struct machine_unit {
  std::string_view name;         ///< machine.instruction.input.output
  std::string_view instruction;  ///< the longest form
  format input;                  ///< of A, and of B where input_b says nothing else
  format output;
  int block_size;                ///< n: products that are aligned and added in one step
  int alignment_fraction_bits;   ///< F: terms are cut at 2^(E−F), E the largest exponent among them
  int min_alignment_exponent;    ///< E is at least this
  rounding output_rounding;
  accumulator_place accumulator;
  std::span<fact const> facts;
  int output_fraction_bits = 23;  ///< of an FP32 result, output_rounding cuts the rest; FP16 results have the format's own 10
  format input_b = input;
  int instruction_k = block_size;  ///< products of one instruction: whole blocks, each result the next one's c
  product_order order = product_order::ascending;
  block_arithmetic arithmetic = block_arithmetic::aligned_sum;
  int scale_block = 0;            ///< products that share a scale of A and one of B; 0: no scales
  format scale = format::e8m0;    ///< of the scales. The sign of an E4M3 scale is ignored
  int group_size = 0;             ///< grouped_sum: products that are added before they are scaled
  int sum_fraction_bits = 0;      ///< two_stage_sum: the sum is cut at 2^(E'−this), E' the larger exponent of sum and c; c at 2^(E'−F)
  bool converts_to_f16 = false;   ///< FP8 operands become FP16 first: an E4M3 subnormal takes part with the exponent of its leading bit
  bool flushes_subnormals = false;  ///< operands, c, products, sums and results below the smallest normal number are 0

  // What no known machine has, or all have alike: aligned_sum only. The defaults are what was measured on sm90.
  std::span<std::uint8_t const> permutation = {};        ///< the k of each place, block after block, or no_product; empty: as `order` says
  block_join join = block_join::chain;
  rounding addition_rounding = rounding::nearest_even;   ///< of c added last, and of results added by `join`
  rounding alignment_rounding = rounding::toward_zero;   ///< of a term at 2^(E−F); to_odd keeps a sticky bit there
  rounding tf32_rounding = rounding::toward_zero;        ///< of the low 13 bits of a TF32 operand, in evaluate()
  overflow beyond = overflow::to_infinity;               ///< a result beyond the output format
  bool normalizes_products = false;                      ///< a product's exponent is that of its leading bit, not the operands' sum
  bool zero_products_in_maximum = false;                 ///< a zero operand has its format's smallest exponent there
  bool zero_c_in_maximum = false;                        ///< c = 0 has the output format's smallest exponent there
  bool flushes_operands = false;                         ///< subnormal A and B are +0
  bool flushes_c = false;                                ///< a subnormal c of a block, or of an addition, is the zero of its sign
  bool flushes_results = false;                          ///< subnormal results are zero
  bool shortens_c = false;                               ///< c is first rounded to output_fraction_bits, as a result is
  bool keeps_wide_c = false;                             ///< FP16 results: c is an FP32 term of the first block, not rounded to FP16
  bool negative_cancellation = false;                    ///< a sum of 0 is −0, unless every term is +0
  bool keeps_negative_zero = false;                      ///< every term −0: −0
  bool keeps_underflow_sign = false;                     ///< a negative sum that rounds to zero is −0
  std::uint32_t nan_bits = 0x7fffffff;                   ///< FP32 code of every NaN; an FP16 NaN has its upper fraction bits

  /// Does the definition in block_fma.hpp cover it without scales?
  [[nodiscard]] constexpr bool is_scaled() const noexcept { return scale_block != 0; }
  /// Are blocks consecutive products, each result the next one's c?
  [[nodiscard]] constexpr bool is_plain_chain() const noexcept { return permutation.empty() && join == block_join::chain; }
  /// Are the rules that only some units have those of every known one?
  [[nodiscard]] constexpr bool has_usual_rules() const noexcept {
    const bool roundings = alignment_rounding == rounding::toward_zero && tf32_rounding == rounding::toward_zero && addition_rounding == rounding::nearest_even;
    const bool flushes = flushes_operands || flushes_c || flushes_results || shortens_c || keeps_wide_c;
    const bool zeros = zero_products_in_maximum || zero_c_in_maximum || negative_cancellation || keeps_negative_zero || keeps_underflow_sign;
    return is_plain_chain() && roundings && !flushes && !zeros && !normalizes_products && beyond == overflow::to_infinity && nan_bits == 0x7fffffff;
  }
};

}  // namespace stickybit
