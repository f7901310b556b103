// Our attention kernels for Ampere and later, BF16: cuda/kernel/sm80/.
#include <array>

#include "kernels.hpp"

namespace stickybit::kernels {
namespace {

constexpr std::array tiles{
    attention_tile{.head_dim = 64, .causal = false, .query_rows = 128, .key_columns = 64},
    attention_tile{.head_dim = 64, .causal = true, .query_rows = 128, .key_columns = 64},
    attention_tile{.head_dim = 128, .causal = false, .query_rows = 128, .key_columns = 64},
    attention_tile{.head_dim = 128, .causal = true, .query_rows = 128, .key_columns = 64},
};

constexpr std::array backward_tiles{
    attention_tile{.head_dim = 64, .causal = false, .query_rows = 64, .key_columns = 128},
    attention_tile{.head_dim = 64, .causal = true, .query_rows = 64, .key_columns = 128},
    attention_tile{.head_dim = 128, .causal = false, .query_rows = 64, .key_columns = 128},
    attention_tile{.head_dim = 128, .causal = true, .query_rows = 64, .key_columns = 128},
};

constexpr std::string_view random_calls = "H200 (driver 580.159.04, CUDA 13.0): random calls, every element of O, O_low, lse, dQ, dK, dV (cuda/check/log/attention_random.txt)";

constexpr std::array facts{
    fact{"tiles of 128 queries; key blocks of 64 columns in descending order; causal aligned to the last query and the last key", evidence::measured, random_calls},
    fact{"p = EX2(fma(S, L, -rn(m L))), m the maximum of the raw S, L = float(double(float(s)) log2 e); a later block rescales by EX2(rn(rn(m_old - m_new) L))", evidence::measured, random_calls},
    fact{"row sum of the FP32 p in four lanes (column mod 8, by twos), ascending; the first term of a later block is fma(rescale, sum, p); lanes join as (l0 + l2) + (l1 + l3)", evidence::measured, random_calls},
    fact{"O = BF16(rn(O RCP(sum))); lse = fma(m, s, rn(LG2(sum) ln 2)); a sum of 0 or NaN: 1/sum is taken as 0 and lse is -inf", evidence::measured, random_calls},
    fact{"every scalar operation is .ftz; the cast to BF16 keeps subnormals", evidence::measured, random_calls},
    fact{"a maximum of -inf counts as 0 in the first block and in causally masked ones, not in the others", evidence::measured, random_calls},
    fact{"backward: P = EX2(fma(S, L, -rn(lse log2 e))), lse -inf counts as 0; dS = BF16(rn(P rn(dP - delta))) with the FP32 P; dV from BF16 P; s at the end of dK and dQ", evidence::measured, random_calls},
    fact{"backward: delta in d/8 lanes of 8 columns, fma, joined by halves, from the BF16 O; delta padded with +0, lse log2 e with +inf", evidence::measured, random_calls},
    fact{"backward: dK and dV are one chain over blocks of 64 queries in descending order, rows ascending in each; dQ a chain for each 128 keys, added ascending; additions into dQ flush subnormals", evidence::measured, random_calls},
    fact{"backward, grouped heads: FP32 dK (times s) and dV of the heads are added ascending, then cast", evidence::measured, random_calls},
    fact{"backward without `deterministic`: dQ's parts are added in any order; dK and dV keep their bits", evidence::source, "cuda/kernel/sm80/backward_kernel.cuh; dK and dV measured in the same calls"},
    fact{"on an A100 the same kernel runs on sm80.mma.bf16.f32: option --unit; not run there", evidence::assumed, "documented behaviour of mma.sync"},
};

}  // namespace

constinit const attention_schedule stickybit_sm80{
    .name = "stickybit-sm80",
    .kernel = "stickybit's own, mma.sync and cp.async, BF16; here on Hopper",
    .unit = "sm90.mma.bf16.f32",
    .causal_mask = mask_alignment::bottom_right,
    .rules = {.lse = lse_form::scale_times_max},
    .forward_tiles = tiles,
    .split_tiles = {},
    .small = {},
    .backward = {.queries = query_order::descending, .dq = dq_sum::ascending, .dq_additions = subnormals::flushed},
    .backward_tiles = backward_tiles,
    .facts = facts,
};

}  // namespace stickybit::kernels
