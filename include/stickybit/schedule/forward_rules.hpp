#pragma once
#include <cstdint>

#include "stickybit/rounding/round_pack.hpp"

// The rounding points of a forward attention kernel as data: each enumeration is one axis on which kernels differ, and each
// value says what is computed. S: raw scores q·k. s: the scale. L: s·log2(e) in FP32. m: the running maximum. rn: rounded to
// FP32. EX2, LG2, RCP: MUFU.

namespace stickybit {

/// How a score becomes the argument of the exponential, and in which units the maximum is kept.
enum class exponent_form : std::uint8_t {
  fused,               ///< fma(S, L, −rn(m·L)); m over S
  scaled_difference,   ///< rn(rn(S·L) − rn(m·L)); m over S
  difference_scaled,   ///< rn(rn(S − m)·L); m over S
  scaled_scores,       ///< rn(t − m), t = rn(S·L); m over t
  fused_scaled_max,    ///< fma(S, L, −m); m over rn(S·L)
  natural,             ///< rn(t − m), t = rn(S·s); m over t; the exponential is exp, not exp2
  twice_scaled,        ///< rn(t − m), t = rn(u·log2(e)), u = rn(S·s); m over t
  fused_twice_scaled,  ///< fma(u, log2(e), −m), u = rn(S·s); m over rn(u·log2(e))
};

/// Where a kernel has a second exponent form, because the compiler fuses what no mask comes between.
enum class unmasked_blocks : std::uint8_t {
  none,         ///< one form everywhere
  whole_call,   ///< the second form if no score of the call is masked: not causal, and the keys fill their last block
  even_blocks,  ///< the second form in blocks that are visible whole, if both lengths are multiples of 128
};

/// What exp2 is: the compiler's function, which follows the scalars, or a bare EX2 with `.ftz` in any case.
enum class exp2_form : std::uint8_t { with_scalars, bare };

/// The factor for sums and O when the maximum grows. In forms whose maximum is scaled already, all are rn(m_old − m_new).
enum class rescale_form : std::uint8_t {
  difference_scaled,  ///< EX2(rn(rn(m_old − m_new)·L))
  fused,              ///< EX2(fma(m_old, L, −rn(m_new·L)))
  scaled_difference,  ///< EX2(rn(rn(m_old·L) − rn(m_new·L)))
};

enum class block_order : std::uint8_t {
  descending,
  ascending,
  partial_first,  ///< keys in groups of 128: groups that the mask or the end cuts, then whole ones, ascending; plain ascending unless both lengths are multiples of 128
};

/// Where a block's row sum begins. Four lanes share a row; lane q owns the columns with (column mod 8) / 2 = q.
enum class sum_start : std::uint8_t {
  carried,        ///< each lane: rescale·sum + p₀, then the block's further p
  carried_twice,  ///< the same, product and addition rounded apart
  block,          ///< each lane: the block's p alone, then sum·rescale + that
  block_twice,    ///< the same, product and addition rounded apart
  block_row,      ///< the block's lanes are joined first, then one row sum: sum·rescale + that
  block_row_twice,
  slices,  ///< rn(sum·rescale); then for each 32 columns the lanes from 0, joined, added to it
};

/// In which order the four lanes are added.
enum class lane_join : std::uint8_t {
  far_first,   ///< (l₀ + l₂) + (l₁ + l₃): shuffles by 2, then by 1
  near_first,  ///< (l₀ + l₁) + (l₂ + l₃)
};

/// What the row sum adds up.
enum class sum_of : std::uint8_t {
  fp32_weights,
  bf16_weights,
  both,  ///< two sums: O is divided by that of the BF16 weights, lse is formed from that of the FP32 weights
};

/// What becomes of a row's maximum that more than one visible key has: the published remedy moves it away, so that no weight is
/// exactly 1. In a block, m' takes the place of the block's maximum r before max(m, ·) is taken; nothing else changes.
enum class tied_maximum : std::uint8_t {
  kept,
  published,  ///< ties are counted within the block; r > 0: m' = beta·r; r < 0: m' = 0; r = 0: r
  extended,   ///< ties are counted over the blocks taken so far; m' = r + clamp(m'_published − r, least_shift, most_shift)
};

/// The numbers of tied_maximum. Scores are counted as tied with r when rn(r − S), times the scale, is at most `tolerance`.
struct tie_parameters {
  float beta = 2;
  float tolerance = 1e-3f;  ///< in natural units: of s·S

  /// Of tied_maximum::extended, in natural units. least = ln(4/3): the weight is 3/4, whose products with V have more bits than V (a power
  /// of two would leave every tie, a weight that BF16 does not hold would be one constant error). exp(−most) is far from underflow.
  static constexpr float least_shift = 0.28768207f, most_shift = 64;
  friend constexpr bool operator==(tie_parameters const&, tie_parameters const&) noexcept = default;
};

/// How O is divided by the sum.
enum class inverse_form : std::uint8_t {
  mufu,      ///< rn(O·RCP(sum))
  ieee,      ///< rn(O·rn(1/sum))
  division,  ///< rn(O/sum)
};

/// What a sum of 0 or NaN leads to.
enum class empty_sum : std::uint8_t {
  zero_minus_infinity,  ///< inverse 0, lse −inf
  one_plus_infinity,    ///< inverse 1, lse +inf
  one_if_zero,          ///< a sum of 0 has inverse 1; NaN is not tested
  not_tested,           ///< whatever the arithmetic gives
};

enum class lse_form : std::uint8_t {
  base2_times_max,   ///< fma(rn(L·ln2), m, rn(LG2(sum)·ln2))
  scale_times_max,   ///< fma(m, s, rn(LG2(sum)·ln2))
  scaled_max,        ///< fma(m, ln2, rn(LG2(sum)·ln2)), m in units of log2
  scaled_max_twice,  ///< rn(rn(m·ln2) + rn(LG2(sum)·ln2)), m in units of log2
  sum_then_scale,    ///< rn(rn(m + LG2(sum))·ln2), m in units of log2
  natural,           ///< rn(m + logf(sum)), m in natural units
  fused_log,         ///< fma(LG2(sum), ln2, rn(m·ln2)), m in units of log2
  scaled_max_logf,   ///< rn(rn(m·ln2) + logf(sum)), m in units of log2
  divided_max_logf,  ///< rn(m / log2(e) + logf(sum)), the division rounded; m in units of log2
  log2f_then_scale,  ///< rn(rn(m + log2f(sum))·ln2), m in units of log2
};

/// When a maximum of −inf counts as 0, so that a row without scores does not become NaN.
enum class empty_guard : std::uint8_t {
  first_and_causal,  ///< in the first block and in causally masked ones, for weights and rescale alike
  weights_always,    ///< for weights always; for the rescale factor in causally masked blocks
  always,            ///< in every block, for weights and rescale alike
  never,
};

/// Which division of the keys a kernel's host code chooses.
enum class split_rule : std::uint8_t { none, flash_attention_2 };

/// L, as the host code or the compiler forms it.
enum class scale_form : std::uint8_t {
  double_product,  ///< float(double(float(s))·log2(e))
  float_product,   ///< rn(float(s)·float(log2(e)))
  wide_scale,      ///< float(s·log2(e)), s a double
};

/// When O is rounded to BF16.
enum class output_form : std::uint8_t {
  divide_then_round,
  round_then_divide,  ///< BF16(BF16(O)/sum)
};

struct forward_rules {
  exponent_form exponent = exponent_form::fused;
  unmasked_blocks unmasked = unmasked_blocks::none;
  exponent_form unmasked_exponent = exponent_form::fused;  ///< the second form
  exp2_form exp2 = exp2_form::with_scalars;
  rescale_form rescale = rescale_form::difference_scaled;
  block_order order = block_order::descending;
  sum_start start = sum_start::carried;
  lane_join join = lane_join::far_first;
  sum_of summed = sum_of::fp32_weights;
  inverse_form inverse = inverse_form::mufu;
  empty_sum empty = empty_sum::zero_minus_infinity;
  lse_form lse = lse_form::base2_times_max;
  subnormals scalars = subnormals::flushed;  ///< of every scalar operation; exp2 with kept ones is the compiler's expansion
  empty_guard guard = empty_guard::first_and_causal;
  split_rule split = split_rule::none;
  scale_form scale = scale_form::double_product;
  output_form output = output_form::divide_then_round;
  rounding weight_cast = rounding::nearest_even;  ///< of p to BF16, before it meets V
  tied_maximum ties = tied_maximum::kept;
  tie_parameters tie = {};

  friend constexpr bool operator==(forward_rules const&, forward_rules const&) noexcept = default;
};

/// Is m kept in scaled units?
[[nodiscard]] constexpr bool has_scaled_maximum(exponent_form form) noexcept {
  return form != exponent_form::fused && form != exponent_form::scaled_difference && form != exponent_form::difference_scaled;
}

}  // namespace stickybit
