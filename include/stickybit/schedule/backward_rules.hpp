#pragma once
#include <cstdint>

#include "stickybit/rounding/round_pack.hpp"
#include "stickybit/schedule/forward_rules.hpp"

// The rounding points of a backward attention kernel as data, as forward_rules.hpp has them for the forward pass. The kernel
// computes S and P again from Q, K and the stored lse; delta = rowsum(dO ∘ O) from the stored O; then dP = dO Vᵀ,
// dS = P ∘ (dP − delta), dV = Pᵀ dO, dK = s dSᵀ Q, dQ = s dS K. rn: rounded to FP32.

namespace stickybit {

/// How a score and the stored lse become the argument of the exponential. lse2 = rn(lse·log2(e)); a lse of −inf counts as 0.
enum class weight_form : std::uint8_t {
  fused,              ///< EX2(fma(S, L, −lse2))
  scaled_difference,  ///< EX2(rn(rn(S·L) − lse2))
  natural,            ///< expf(rn(rn(S·s) − lse))
  difference_scaled,  ///< EX2(rn(rn(rn(S·s) − lse)·log2(e)))
  fused_difference,   ///< EX2(rn(fma(S, s, −lse)·log2(e)))
};

/// In which order the columns of dO ∘ O are added to delta. A lane's sum begins fma(dO₀, O₀, rn(dO₁·O₁)), then goes on by fma.
enum class delta_sum : std::uint8_t {
  lanes_of_eight,  ///< d/8 lanes of 8 consecutive columns; lanes joined by halves, farthest first
  eight_lanes,     ///< 8 lanes, lane t owns the columns 8t … 8t + 7 of every 64; joined likewise
  pairs_of_eight,  ///< as lanes_of_eight, but two columns are added first, then their sum to the lane
  few_lanes,       ///< d/32 lanes, lane t owns the columns 8t … 8t + 7 of every d/4; joined nearest first
  serial,          ///< one lane
  tensor_core,     ///< the unit's own chain over the columns, as for dP
  weighted_dp,     ///< not from O: rowsum(P ∘ dP) / rowsum(P), in the four lanes of a forward row sum, fma(P, dP, lane)
};

/// Which O delta is formed from.
enum class delta_source : std::uint8_t {
  bf16_output,   ///< the stored O
  fp32_output,   ///< O before its cast
  high_and_low,  ///< two sums, of the stored O and of BF16(O − BF16(O)), added
};

/// How dS is formed from P (FP32), dP and delta.
enum class score_gradient : std::uint8_t {
  product_of_difference,  ///< rn(P·rn(dP − delta))
  difference_of_products, ///< rn(rn(P·dP) − rn(P·delta))
  fused_products,         ///< fma(P, dP, −rn(P·delta))
  from_bf16_weights,      ///< rn(BF16(P)·rn(dP − delta))
};

/// Where the scale s enters dQ and dK.
enum class scale_place : std::uint8_t {
  outputs,         ///< rn(sum·s), before the cast
  score_gradients, ///< dS = rn(dS·s), before its cast
};

/// In which order blocks of queries follow each other in the chains of dK and dV; rows are ascending inside a block.
enum class query_order : std::uint8_t { ascending, descending };

/// How the key blocks' parts of dQ, each a chain of its own from +0, meet.
enum class dq_sum : std::uint8_t {
  ascending,                ///< added one by one to +0
  descending,
  causal_descending,        ///< descending where the call is causal, else ascending
  flash_attention_2,        ///< n buffers, n = ceil(SMs / (batch·heads)); buffer i takes the blocks i, i + n, …; then the buffers ascending
  one_chain,                ///< no parts: one chain over all keys, ascending
};

/// How the query heads of one key head share dK and dV.
enum class group_sum : std::uint8_t {
  fp32_outputs,  ///< each head's FP32 result (times s) is added, heads ascending, then rounded to BF16
  bf16_outputs,  ///< each head's result is rounded to BF16; these are added in FP32 by four accumulators (head mod 4), joined ascending
};

/// The zero row sum of dS, restored after its cast: dQ loses e·(wK), dK loses wᵀ(e ∘ Q); e = row sum of the BF16 dS in four lanes.
enum class row_mass : std::uint8_t {
  kept,
  by_weights,  ///< w = BF16 P over its own row sum
  uniform,     ///< w = 1 / number of visible keys
};

struct backward_rules {
  weight_form weight = weight_form::fused;
  delta_sum delta = delta_sum::lanes_of_eight;
  delta_source delta_from = delta_source::bf16_output;
  score_gradient gradient = score_gradient::product_of_difference;
  scale_place scaled = scale_place::outputs;
  query_order queries = query_order::ascending;
  dq_sum dq = dq_sum::causal_descending;
  group_sum group = group_sum::fp32_outputs;
  subnormals scalars = subnormals::flushed;  ///< of every scalar operation but the additions into dQ; exp2 with kept ones is the compiler's expansion
  subnormals dq_additions = subnormals::kept;  ///< of the additions of dQ's parts (and, with group_sum::fp32_outputs, of the heads' dK and dV)
  row_mass mass = row_mass::kept;
  bool mass_in_dk = false;  ///< the correction is made in dK too

  friend constexpr bool operator==(backward_rules const&, backward_rules const&) noexcept = default;
};

}  // namespace stickybit
