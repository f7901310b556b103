// cuDNN's attention on Hopper, BF16.
// @source none public: found by search over captured outputs
#include <array>

#include "kernels.hpp"

namespace stickybit::kernels {
namespace {

constexpr std::array tiles{
    attention_tile{.head_dim = 64, .causal = false, .query_rows = 128, .key_columns = 128},
    attention_tile{.head_dim = 64, .causal = true, .query_rows = 128, .key_columns = 128},
    attention_tile{.head_dim = 128, .causal = false, .query_rows = 128, .key_columns = 128},
    attention_tile{.head_dim = 128, .causal = true, .query_rows = 128, .key_columns = 128},
};
constexpr std::array one_query_tiles{
    attention_tile{.head_dim = 64, .causal = false, .query_rows = 64, .key_columns = 64},
    attention_tile{.head_dim = 64, .causal = true, .query_rows = 64, .key_columns = 64},
    attention_tile{.head_dim = 128, .causal = false, .query_rows = 64, .key_columns = 64},
    attention_tile{.head_dim = 128, .causal = true, .query_rows = 64, .key_columns = 64},
};
// The kernel's name tells 64 queries to a step (64x64x64, 64x64x128).
constexpr std::array backward_tiles{
    attention_tile{.head_dim = 64, .causal = false, .query_rows = 64, .key_columns = 128},
    attention_tile{.head_dim = 64, .causal = true, .query_rows = 64, .key_columns = 128},
    attention_tile{.head_dim = 128, .causal = false, .query_rows = 64, .key_columns = 128},
    attention_tile{.head_dim = 128, .causal = true, .query_rows = 64, .key_columns = 128},
};

constexpr std::string_view property_tests = "H200 (driver 580.159.04, CUDA 13.0): 1422 calls of property tests, docs/real_kernels.md";

constexpr std::array facts{
    fact{"key blocks of 128 columns, in ascending order", evidence::measured, captures_46},
    fact{"every score is scaled first, t = rn(S L), and the maximum is taken over t; p = EX2(rn(t - m))", evidence::measured, captures_46},
    fact{"each lane sums a block's p, then fma(sum, rescale, that); lanes join as (l0 + l1) + (l2 + l3)", evidence::measured, captures_46},
    fact{"O times RCP(sum); lse = fma(m, ln 2, rn(LG2(sum) ln 2)); a sum of NaN is not tested", evidence::measured, captures_46},
    fact{"a row whose scores are all -inf has O = 0 and lse -inf: a maximum of -inf counts as 0, a sum of 0 is divided by as 1", evidence::measured, property_tests},
    fact{"scalar operations are .ftz", evidence::measured, captures_46},
    fact{"causal is aligned to the first query and the first key", evidence::measured, captures_46},
    fact{"L = rn(float(s) float(log2 e))", evidence::measured, "24 captured calls at six scales of which each tells one of three forms apart"},
    fact{"one query, at most 256 keys: mma.sync, key blocks of 64, t = rn(rn(S s) log2 e), lse = fma(LG2(sum), ln 2, rn(m ln 2))", evidence::measured, "13 captured calls"},
    fact{"2 to 77 queries run the same kernel as more", evidence::measured, "62 captured calls of 1 to 77 queries"},
    fact{"backward: P = EX2(rn(fma(S, s, -lse) log2 e)); dS = BF16(rn(rn(P rn(dP - delta)) s)) with the FP32 P; dV from BF16 P", evidence::measured, gradients_backends},
    fact{"backward: delta in d/8 lanes of 8 columns from the BF16 O: sums of two columns added to the lane, lanes joined by halves", evidence::measured, gradients_backends},
    fact{"backward: dK and dV are one chain over ascending rows; dQ a chain for each 128 keys, added by atomics: ascending where two runs agree", evidence::measured,
         gradients_backends},
    fact{"backward: scalars .ftz, additions into dQ keep subnormals; a lse of -inf counts as 0; 64 rows to a tile", evidence::assumed, "no captured call tells"},
    fact{"backward, grouped heads: dK and dV as in fa3, which property tests on an H200 refute (docs/real_kernels.md)", evidence::assumed, "not yet found what they are"},
};

constexpr forward_rules rules{.exponent = exponent_form::scaled_scores,
                              .order = block_order::ascending,
                              .start = sum_start::block,
                              .join = lane_join::near_first,
                              .empty = empty_sum::one_if_zero,
                              .lse = lse_form::scaled_max,
                              .guard = empty_guard::always,
                              .scale = scale_form::float_product};
constexpr backward_rules gradient_rules{.weight = weight_form::fused_difference,
                                        .delta = delta_sum::pairs_of_eight,
                                        .scaled = scale_place::score_gradients,
                                        .dq = dq_sum::ascending};
constexpr forward_rules one_query_rules{.exponent = exponent_form::twice_scaled,
                                        .order = block_order::ascending,
                                        .start = sum_start::block,
                                        .join = lane_join::near_first,
                                        .empty = empty_sum::one_if_zero,
                                        .lse = lse_form::fused_log,
                                        .guard = empty_guard::always};

}  // namespace

constinit const attention_schedule cudnn{
    .name = "cudnn",
    .kernel = "cuDNN 9.19 scaled dot-product attention, Hopper, BF16",
    .unit = "sm90.wgmma.bf16.f32",
    .causal_mask = mask_alignment::top_left,
    .rules = rules,
    .forward_tiles = tiles,
    .split_tiles = {},
    .small = {.queries = 1, .keys = 256, .tiles = one_query_tiles, .rules = one_query_rules},
    .backward = gradient_rules,
    .backward_tiles = backward_tiles,
    .facts = facts,
};

}  // namespace stickybit::kernels
