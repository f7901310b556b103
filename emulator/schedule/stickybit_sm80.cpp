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

constexpr std::string_view forward_calls = "H200 (driver 580.159.04, CUDA 13.0): 139 calls, every element of O and LSE (cuda/kernel/log/sm80_forward.md)";

constexpr std::array facts{
    fact{"tiles of 128 queries; key blocks of 64 columns in descending order; causal aligned to the last query and the last key", evidence::measured, forward_calls},
    fact{"p = EX2(fma(S, L, -rn(m L))), m the maximum of the raw S, L = float(double(float(s)) log2 e); a later block rescales by EX2(rn(rn(m_old - m_new) L))", evidence::measured, forward_calls},
    fact{"row sum of the FP32 p in four lanes (column mod 8, by twos), ascending; the first term of a later block is fma(rescale, sum, p); lanes join as (l0 + l2) + (l1 + l3)", evidence::measured, forward_calls},
    fact{"O = BF16(rn(O RCP(sum))); lse = fma(m, s, rn(LG2(sum) ln 2)); a sum of 0 or NaN: 1/sum is taken as 0 and lse is -inf", evidence::measured, forward_calls},
    fact{"every scalar operation is .ftz; the cast to BF16 keeps subnormals", evidence::measured, forward_calls},
    fact{"a maximum of -inf counts as 0 in the first block and in causally masked ones, not in the others", evidence::measured, forward_calls},
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
    .facts = facts,
};

}  // namespace stickybit::kernels
