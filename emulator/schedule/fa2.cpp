// FlashAttention-2, BF16: as its own build computes it, and as the build inside PyTorch does.
// @source Dao-AILab/flash-attention 0251105a csrc/flash_attn/src: softmax.h, flash_fwd_kernel.h, flash_fwd_launch_template.h; machine
//   code of both builds for what is fused
#include <array>

#include "kernels.hpp"

namespace stickybit::kernels {
namespace {

constexpr std::array tiles{
    attention_tile{.head_dim = 64, .causal = false, .query_rows = 128, .key_columns = 128},
    attention_tile{.head_dim = 64, .causal = true, .query_rows = 128, .key_columns = 128},
    attention_tile{.head_dim = 128, .causal = false, .query_rows = 128, .key_columns = 64},
    attention_tile{.head_dim = 128, .causal = true, .query_rows = 128, .key_columns = 64},
};
constexpr std::array split_tiles{
    attention_tile{.head_dim = 64, .causal = false, .query_rows = 64, .key_columns = 256},
    attention_tile{.head_dim = 64, .causal = true, .query_rows = 64, .key_columns = 256},
    attention_tile{.head_dim = 128, .causal = false, .query_rows = 64, .key_columns = 128},
    attention_tile{.head_dim = 128, .causal = true, .query_rows = 64, .key_columns = 128},
};

// Of GPUs with 144 KiB of shared memory for a block or more.
constexpr std::array backward_tiles{
    attention_tile{.head_dim = 64, .causal = false, .query_rows = 128, .key_columns = 128},
    attention_tile{.head_dim = 64, .causal = true, .query_rows = 128, .key_columns = 128},
    attention_tile{.head_dim = 128, .causal = false, .query_rows = 64, .key_columns = 128},
    attention_tile{.head_dim = 128, .causal = true, .query_rows = 64, .key_columns = 128},
};

constexpr std::string_view source = "source and machine code; not run";

constexpr std::array torch_facts{
    fact{"key blocks of 128 (d 64) or 64 (d 128) columns, in descending order", evidence::measured, captures_46},
    fact{"exponent rn(rn(S L) - rn(m L)): not fused", evidence::measured, captures_46},
    fact{"O times the correctly rounded 1/sum; lse = fma(m, s, rn(LG2(sum) ln 2))", evidence::measured, captures_46},
    fact{"scalar operations keep subnormals; exp2 below -126 is rn(EX2(x/2) squared)", evidence::measured, captures_46},
    fact{"a sum of 0 or NaN: 1/sum is taken as 1 and lse is +inf", evidence::measured, captures_46},
    fact{"few blocks of queries: the keys are split, blocks of 256 (d 64) or 128 (d 128); parts join by expf, logf of CUDA and fma, ascending", evidence::measured, captures_46},
    fact{"backward: P = EX2(rn(rn(S L) - rn(lse log2 e))); dS = BF16(rn(P rn(dP - delta))) with the FP32 P; dV from BF16 P", evidence::measured, gradients_146},
    fact{"backward: delta in 8 lanes of 8 of every 64 columns, fma, joined by halves, from the BF16 O", evidence::measured, gradients_146},
    fact{"backward: dK and dV chains go over blocks of 128 (d 64) or 64 (d 128) rows in descending order, ascending inside", evidence::measured, gradients_146},
    fact{"backward, deterministic: dQ in ceil(SMs / (batch heads)) buffers, key block n of 128 to buffer n mod that; buffers added ascending, s at the end", evidence::measured, gradients_146},
    fact{"backward: scalars keep subnormals, the atomic additions into dQ flush them; not deterministic: any order of the parts", evidence::measured, gradients_146},
    fact{"backward, grouped heads: dK and dV of each head cast, then summed in FP32 by four accumulators, cast again", evidence::measured, gradients_146},
    fact{"a maximum of -inf counts as 0 in the weights; in the rescale factor only in causally masked blocks", evidence::source, source},
};
constexpr std::array own_facts{
    fact{"as the build inside PyTorch, but with fast math: fused exponent, MUFU 1/sum, every scalar operation .ftz", evidence::source, source},
    fact{"few blocks of queries: the keys are split; parts join by EX2 and LG2", evidence::source, source},
    fact{"backward: as the build inside PyTorch, with the fused exponent and every scalar operation .ftz", evidence::source, source},
};

constexpr forward_rules torch_rules{.exponent = exponent_form::scaled_difference,
                                    .inverse = inverse_form::ieee,
                                    .empty = empty_sum::one_plus_infinity,
                                    .lse = lse_form::scale_times_max,
                                    .scalars = subnormals::kept,
                                    .guard = empty_guard::weights_always,
                                    .split = split_rule::flash_attention_2};
constexpr forward_rules own_rules{.empty = empty_sum::one_plus_infinity,
                                  .lse = lse_form::scale_times_max,
                                  .guard = empty_guard::weights_always,
                                  .split = split_rule::flash_attention_2};

constexpr backward_rules torch_backward{.weight = weight_form::scaled_difference,
                                        .delta = delta_sum::eight_lanes,
                                        .queries = query_order::descending,
                                        .dq = dq_sum::flash_attention_2,
                                        .group = group_sum::bf16_outputs,
                                        .scalars = subnormals::kept,
                                        .dq_additions = subnormals::flushed};
constexpr backward_rules own_backward{.delta = delta_sum::eight_lanes,
                                      .queries = query_order::descending,
                                      .dq = dq_sum::flash_attention_2,
                                      .group = group_sum::bf16_outputs,
                                      .dq_additions = subnormals::flushed};

constexpr attention_schedule named(std::string_view name, std::string_view kernel, forward_rules rules, backward_rules backward, std::span<fact const> facts, bool own_heads) {
  return {.name = name,
          .kernel = kernel,
          .unit = "sm90.mma.bf16.f32",
          .causal_mask = mask_alignment::bottom_right,
          .rules = rules,
          .forward_tiles = tiles,
          .split_tiles = split_tiles,
          .small = {},
          .backward = backward,
          .backward_tiles = backward_tiles,
          .uncausal_single_query = true,
          .splits_own_heads = own_heads,
          .facts = facts};
}

}  // namespace

constinit const attention_schedule fa2 = named("fa2", "FlashAttention-2 0251105a, BF16", own_rules, own_backward, own_facts, false);
constinit const attention_schedule fa2_torch = named("fa2-torch", "FlashAttention-2 inside PyTorch 2.11, BF16", torch_rules, torch_backward, torch_facts, false);
constinit const attention_schedule fa2_torch_splitkv =
    named("fa2-torch-splitkv", "the same; the file's own heads decide how the keys are split", torch_rules, torch_backward, torch_facts, true);

}  // namespace stickybit::kernels
