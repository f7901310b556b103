// cuDNN's attention on Hopper, BF16.
// @source none public: found by search over captured outputs
#include <array>

#include "kernels.hpp"

namespace stickybit::kernels {
namespace {

constexpr std::array tiles{
    forward_tile{.head_dim = 64, .causal = false, .query_rows = 128, .key_columns = 128},
    forward_tile{.head_dim = 64, .causal = true, .query_rows = 128, .key_columns = 128},
    forward_tile{.head_dim = 128, .causal = false, .query_rows = 128, .key_columns = 128},
    forward_tile{.head_dim = 128, .causal = true, .query_rows = 128, .key_columns = 128},
};
constexpr std::array one_query_tiles{
    forward_tile{.head_dim = 64, .causal = false, .query_rows = 64, .key_columns = 64},
    forward_tile{.head_dim = 64, .causal = true, .query_rows = 64, .key_columns = 64},
    forward_tile{.head_dim = 128, .causal = false, .query_rows = 64, .key_columns = 64},
    forward_tile{.head_dim = 128, .causal = true, .query_rows = 64, .key_columns = 64},
};

constexpr std::array facts{
    fact{"key blocks of 128 columns, in ascending order", evidence::measured, captures_46},
    fact{"every score is scaled first, t = rn(S L), and the maximum is taken over t; p = EX2(rn(t - m))", evidence::measured, captures_46},
    fact{"each lane sums a block's p, then fma(sum, rescale, that); lanes join as (l0 + l1) + (l2 + l3)", evidence::measured, captures_46},
    fact{"O times RCP(sum); lse = fma(m, ln 2, rn(LG2(sum) ln 2)); no test of the sum", evidence::measured, captures_46},
    fact{"scalar operations are .ftz", evidence::measured, captures_46},
    fact{"causal is aligned to the first query and the first key", evidence::measured, captures_46},
    fact{"one query: key blocks of 64", evidence::measured, "one captured call"},
};

}  // namespace

constinit const attention_schedule cudnn{
    .name = "cudnn",
    .kernel = "cuDNN 9.19 scaled dot-product attention, Hopper, BF16",
    .unit = "sm90.wgmma.bf16.f32",
    .causal_mask = mask_alignment::top_left,
    .rules = {.exponent = exponent_form::scaled_scores,
              .order = block_order::ascending,
              .start = sum_start::block,
              .join = lane_join::near_first,
              .empty = empty_sum::not_tested,
              .lse = lse_form::scaled_max,
              .guard = empty_guard::never},
    .forward_tiles = tiles,
    .split_tiles = {},
    .few_query_tiles = one_query_tiles,
    .few_queries = 1,
    .facts = facts,
};

}  // namespace stickybit::kernels
