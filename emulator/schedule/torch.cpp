// Attention kernels that come with PyTorch 2.11 beside FlashAttention-2 and cuDNN, and our own Triton kernel, on Hopper, BF16.
#include <array>

#include "kernels.hpp"

namespace stickybit::kernels {
namespace {

/// The same tile whether causal or not.
template <std::size_t N>
constexpr std::array<attention_tile, 2 * N> both(std::array<attention_tile, N> tiles) {
  std::array<attention_tile, 2 * N> all{};
  for (std::size_t i = 0; i < N; ++i) {
    all[2 * i] = tiles[i];
    all[2 * i + 1] = tiles[i];
    all[2 * i].causal = false;
    all[2 * i + 1].causal = true;
  }
  return all;
}
constexpr attention_tile tile(int head_dim, int rows, int keys) { return {.head_dim = head_dim, .causal = false, .query_rows = rows, .key_columns = keys}; }

constexpr auto efficient_tiles = both(std::array{tile(64, 64, 64), tile(128, 64, 128)});
constexpr auto efficient_backward_tiles = both(std::array{tile(64, 64, 64), tile(128, 128, 128)});
constexpr auto flex_tiles = both(std::array{tile(64, 128, 128), tile(128, 128, 64)});
constexpr auto m64_n64 = both(std::array{tile(64, 64, 64), tile(128, 64, 64)});
constexpr auto m64_n32 = both(std::array{tile(64, 64, 32), tile(128, 64, 32)});
constexpr auto m128_n64 = both(std::array{tile(64, 128, 64), tile(128, 128, 64)});

constexpr std::string_view ten = "H200 (driver 580.159.04, CUDA 13.0): 10 captured calls, every element of O and LSE";
constexpr std::string_view eight = "H200 (driver 580.159.04, CUDA 13.0): 8 captured calls, every element of O and LSE";

constexpr std::array efficient_facts{
    fact{"mma.sync m16n8k8; key blocks of 64 (d 64) or 128 (d 128), ascending; causal aligned to the first query and key", evidence::measured, ten},
    fact{"t = rn(rn(S s) log2 e), the maximum over t, p = exp2(rn(t - m)); subnormals kept", evidence::measured, ten},
    fact{"row sum in slices of 32 columns: four lanes from 0, joined (l0 + l1) + (l2 + l3), added to rn(sum rescale) one by one", evidence::measured, ten},
    fact{"O times the correctly rounded 1/sum; lse = rn(m / log2 e + logf(sum))", evidence::measured, ten},
    fact{"backward: P = BF16(expf(rn(rn(S s) - lse))); dS = BF16(rn(rn(P rn(dP - delta)) s)) with the BF16 P; one chain for each of dQ, dK, dV", evidence::measured,
         gradients_backends},
    fact{"backward: delta in d/32 lanes (2 or 4), lane t owns 8 columns of every 16 or 32, joined nearest first; scalars keep subnormals", evidence::measured, gradients_backends},
    fact{"backward: keys ascending in one block, as in deterministic mode; tiles of 64 (d 64) or 128 rows; a lse of -inf counts as 0", evidence::source,
         "PyTorch mem_eff_attention/kernel_backward.h"},
};
constexpr std::array flex_facts{
    fact{"key blocks of 128 (d 64) or 64 (d 128), ascending; causal: first the groups of 128 that the mask cuts, then the whole ones", evidence::measured, eight},
    fact{"u = rn(S s), the maximum over rn(u log2 e); exponent fma(u, log2 e, -m) in whole blocks of even lengths, else rn(rn(u log2 e) - m)", evidence::measured, eight},
    fact{"a block's lanes are joined, then fma(sum, rescale, that); lse = rn(rn(m + log2f(sum)) ln 2)", evidence::measured, eight},
    fact{"a sum of 0 is divided by as 1: a row whose scores are all -inf has O = 0 and lse -inf", evidence::measured, "H200 (driver 580.159.04, CUDA 13.0): property tests, docs/real_kernels.md"},
    fact{"fewer than 128 queries run another kernel, whose order of sums may be chosen by measuring: not emulated", evidence::measured, "one captured call"},
};
constexpr std::array triton_facts{
    fact{"L = float(s log2 e); the maximum over rn(S L); exponent fma(S, L, -m) where no score of the call is masked, else rn(rn(S L) - m)", evidence::measured, ten},
    fact{"EX2 with .ftz, every other scalar operation keeps subnormals", evidence::measured, ten},
    fact{"a block's lanes are joined, then fma(sum, rescale, that); O times RCP(sum); lse = rn(rn(m ln 2) + logf(sum))", evidence::measured, ten},
    fact{"a sum of 0 is divided by as 1: a row without a key has O = 0 and lse -inf", evidence::measured, "H200 (driver 580.159.04, CUDA 13.0): property tests, docs/real_kernels.md"},
};

constexpr forward_rules efficient_rules{.exponent = exponent_form::twice_scaled,
                                        .order = block_order::ascending,
                                        .start = sum_start::slices,
                                        .join = lane_join::near_first,
                                        .inverse = inverse_form::ieee,
                                        .empty = empty_sum::one_if_zero,
                                        .lse = lse_form::divided_max_logf,
                                        .scalars = subnormals::kept,
                                        .guard = empty_guard::weights_always};
constexpr backward_rules efficient_backward{.weight = weight_form::natural,
                                            .delta = delta_sum::few_lanes,
                                            .gradient = score_gradient::from_bf16_weights,
                                            .scaled = scale_place::score_gradients,
                                            .dq = dq_sum::one_chain,
                                            .scalars = subnormals::kept};
constexpr forward_rules flex_rules{.exponent = exponent_form::twice_scaled,
                                   .unmasked = unmasked_blocks::even_blocks,
                                   .unmasked_exponent = exponent_form::fused_twice_scaled,
                                   .exp2 = exp2_form::bare,
                                   .order = block_order::partial_first,
                                   .start = sum_start::block_row,
                                   .empty = empty_sum::one_if_zero,
                                   .lse = lse_form::log2f_then_scale,
                                   .scalars = subnormals::kept,
                                   .guard = empty_guard::weights_always};
constexpr forward_rules triton_rules{.exponent = exponent_form::scaled_scores,
                                     .unmasked = unmasked_blocks::whole_call,
                                     .unmasked_exponent = exponent_form::fused_scaled_max,
                                     .exp2 = exp2_form::bare,
                                     .order = block_order::ascending,
                                     .start = sum_start::block_row,
                                     .empty = empty_sum::one_if_zero,
                                     .lse = lse_form::scaled_max_logf,
                                     .scalars = subnormals::kept,
                                     .guard = empty_guard::weights_always,
                                     .scale = scale_form::wide_scale};

constexpr attention_schedule triton(std::string_view name, std::span<attention_tile const> tiles) {
  return {.name = name,
          .kernel = "our Triton 3.6 kernel, cuda/record/torch/triton_attention.py, rows and keys of a tile in its name",
          .unit = "sm90.wgmma.bf16.f32",
          .causal_mask = mask_alignment::bottom_right,
          .rules = triton_rules,
          .forward_tiles = tiles,
          .split_tiles = {},
          .small = {},
          .facts = triton_facts};
}

constexpr attention_schedule flex_attention(std::string_view name, std::string_view kernel, std::int64_t min_queries) {
  return {.name = name,
          .kernel = kernel,
          .unit = "sm90.wgmma.bf16.f32",
          .causal_mask = mask_alignment::top_left,
          .rules = flex_rules,
          .forward_tiles = flex_tiles,
          .split_tiles = {},
          .small = {},
          .min_queries = min_queries,
          .facts = flex_facts};
}

}  // namespace

constinit const attention_schedule efficient{.name = "efficient",
                                             .kernel = "PyTorch 2.11 memory-efficient attention, BF16",
                                             .unit = "sm90.mma.bf16k8.f32",
                                             .causal_mask = mask_alignment::top_left,
                                             .rules = efficient_rules,
                                             .forward_tiles = efficient_tiles,
                                             .split_tiles = {},
                                             .small = {},
                                             .backward = efficient_backward,
                                             .backward_tiles = efficient_backward_tiles,
                                             .facts = efficient_facts};
constinit const attention_schedule flex = flex_attention("flex", "PyTorch 2.11 flex attention, compiled, BF16", 128);
constinit const attention_schedule flex_long = flex_attention("flex-long", "the same, told to use its ordinary kernel for few queries too", 0);
constinit const attention_schedule triton_m64_n64 = triton("triton-m64-n64", m64_n64);
constinit const attention_schedule triton_m64_n32 = triton("triton-m64-n32", m64_n32);
constinit const attention_schedule triton_m128_n64 = triton("triton-m128-n64", m128_n64);

}  // namespace stickybit::kernels
