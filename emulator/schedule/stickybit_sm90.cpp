// Our own forward kernel on Hopper, BF16.
// @source cuda/kernel/sm90/forward.cuh
#include <array>

#include "kernels.hpp"

namespace stickybit::kernels {
namespace {

constexpr std::array tiles{
    attention_tile{.head_dim = 64, .causal = false, .query_rows = 64, .key_columns = 128},
    attention_tile{.head_dim = 64, .causal = true, .query_rows = 64, .key_columns = 128},
    attention_tile{.head_dim = 128, .causal = false, .query_rows = 64, .key_columns = 128},
    attention_tile{.head_dim = 128, .causal = true, .query_rows = 64, .key_columns = 128},
};

// As in fa3, but subnormals are kept and a row without scores so far is guarded in every block.
constexpr forward_rules rules{.exp2 = exp2_form::bare, .scalars = subnormals::kept, .guard = empty_guard::always};

constexpr std::string_view random_calls = "H200 (driver 580.159.04, CUDA 13.0): random calls, every element of O, O_low, lse (cuda/check/log/attention_random.txt)";

constexpr std::array facts{
    fact{"key blocks of 128 columns, in descending order", evidence::measured, random_calls},
    fact{"S and PV are chains of 16 products in ascending k; PV goes on from the rescaled O", evidence::measured, random_calls},
    fact{"p = EX2(fma(S, L, -rn(m L))), m the maximum of the raw S, L = float(scale log2 e); a later block rescales by EX2(rn(rn(m_old - m_new) L))",
         evidence::measured, random_calls},
    fact{"a maximum of -inf counts as 0, for weights and rescale, in every block", evidence::measured, random_calls},
    fact{"row sum of the FP32 p in four lanes (column mod 8, by twos), ascending; the first term of a later block is fma(rescale, sum, p)", evidence::measured, random_calls},
    fact{"lanes join as (l0 + l2) + (l1 + l3); O = BF16(rn(O RCP(sum))); lse = fma(rn(L ln 2), m, rn(LG2(sum) ln 2))", evidence::measured, random_calls},
    fact{"scalar operations keep subnormals; EX2, RCP and LG2 are .ftz", evidence::measured, random_calls},
    fact{"a masked key's V still meets P = 0 where the 64 rows of its warpgroup visit its block", evidence::measured, random_calls},
    fact{"a sum of 0 or NaN: 1/sum is taken as 0 and lse is -inf", evidence::measured, random_calls},
};

}  // namespace

constinit const attention_schedule stickybit_sm90{
    .name = "stickybit-sm90",
    .kernel = "stickybit's forward kernel for Hopper, BF16",
    .unit = "sm90.wgmma.bf16.f32",
    .causal_mask = mask_alignment::bottom_right,
    .rules = rules,
    .forward_tiles = tiles,
    .split_tiles = {},
    .small = {},
    .facts = facts,
};

}  // namespace stickybit::kernels
