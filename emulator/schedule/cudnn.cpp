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

constexpr std::array facts{
    fact{"key blocks of 128 columns, in ascending order", evidence::measured, captures_46},
    fact{"every score is scaled first, t = rn(S L), and the maximum is taken over t; p = EX2(rn(t - m))", evidence::measured, captures_46},
    fact{"each lane sums a block's p, then fma(sum, rescale, that); lanes join as (l0 + l1) + (l2 + l3)", evidence::measured, captures_46},
    fact{"O times RCP(sum); lse = fma(m, ln 2, rn(LG2(sum) ln 2)); no test of the sum", evidence::measured, captures_46},
    fact{"scalar operations are .ftz", evidence::measured, captures_46},
    fact{"causal is aligned to the first query and the first key", evidence::measured, captures_46},
    fact{"L = rn(float(s) float(log2 e))", evidence::measured, "24 captured calls at six scales of which each tells one of three forms apart"},
    fact{"one query, at most 256 keys: mma.sync, key blocks of 64, t = rn(rn(S s) log2 e), lse = fma(LG2(sum), ln 2, rn(m ln 2))", evidence::measured, "13 captured calls"},
    fact{"2 to 77 queries run the same kernel as more", evidence::measured, "62 captured calls of 1 to 77 queries"},
};

constexpr forward_rules rules{.exponent = exponent_form::scaled_scores,
                              .order = block_order::ascending,
                              .start = sum_start::block,
                              .join = lane_join::near_first,
                              .empty = empty_sum::not_tested,
                              .lse = lse_form::scaled_max,
                              .guard = empty_guard::never,
                              .scale = scale_form::float_product};
constexpr forward_rules one_query_rules{.exponent = exponent_form::twice_scaled,
                                        .order = block_order::ascending,
                                        .start = sum_start::block,
                                        .join = lane_join::near_first,
                                        .empty = empty_sum::not_tested,
                                        .lse = lse_form::fused_log,
                                        .guard = empty_guard::never};

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
    .facts = facts,
};

}  // namespace stickybit::kernels
