// FlashAttention-3 on Hopper, BF16.
// @source Dao-AILab/flash-attention 0251105a: hopper/tile_size.h, mainloop_fwd_sm90_tma_gmma_ws.hpp, softmax.h, mask.h,
//   heuristics.h; fused and unfused places from its machine code
#include <array>

#include "kernels.hpp"

namespace stickybit::kernels {
namespace {

constexpr std::array tiles{
    attention_tile{.head_dim = 64, .causal = false, .query_rows = 192, .key_columns = 192},
    attention_tile{.head_dim = 64, .causal = true, .query_rows = 192, .key_columns = 128},
    attention_tile{.head_dim = 128, .causal = false, .query_rows = 128, .key_columns = 176},
    attention_tile{.head_dim = 128, .causal = true, .query_rows = 128, .key_columns = 128},
};

constexpr std::array backward_tiles{
    attention_tile{.head_dim = 64, .causal = false, .query_rows = 128, .key_columns = 128},
    attention_tile{.head_dim = 64, .causal = true, .query_rows = 128, .key_columns = 128},
    attention_tile{.head_dim = 128, .causal = false, .query_rows = 80, .key_columns = 128},
    attention_tile{.head_dim = 128, .causal = true, .query_rows = 64, .key_columns = 128},
};

constexpr std::array facts{
    fact{"key blocks of 192 (d 64), 128 (d 64 causal, d 128 causal), 176 (d 128) columns, in descending order", evidence::measured, captures_46},
    fact{"S and PV are chains of 16 products in ascending k; PV goes on from the rescaled O", evidence::measured, captures_46},
    fact{"p = EX2(fma(S, L, -rn(m L))), m the maximum of the raw S, L = float(scale log2 e)", evidence::measured, captures_46},
    fact{"a later block rescales by EX2(rn(rn(m_old - m_new) L)): the subtraction first, then the product", evidence::measured, captures_46},
    fact{"row sum of the FP32 p in four lanes (column mod 8, by twos), ascending; the first term of a later block is fma(rescale, sum, p)",
         evidence::measured, captures_46},
    fact{"lanes join as (l0 + l2) + (l1 + l3); O = BF16(rn(O RCP(sum))); lse = fma(rn(L ln 2), m, rn(LG2(sum) ln 2))", evidence::measured, captures_46},
    fact{"every scalar operation is .ftz; the cast to BF16 keeps subnormals", evidence::measured, captures_46},
    fact{"a masked key's V still meets P = 0 where the tile of 192 (d 64) or 128 rows visits its block", evidence::measured, captures_46},
    fact{"a sum of 0 or NaN: 1/sum is taken as 0 and lse is -inf", evidence::measured, captures_46},
    fact{"backward: P = EX2(fma(S, L, -rn(lse log2 e))), lse -inf counts as 0; dS = BF16(rn(P rn(dP - delta))) with the FP32 P; dV from BF16 P", evidence::measured, gradients_46},
    fact{"backward: delta in d/8 lanes of 8 columns, fma, joined by halves, from the BF16 O; delta padded with +0, lse log2 e with +inf", evidence::measured, gradients_46},
    fact{"backward: dK and dV are one chain over ascending rows; dQ a chain for each 128 keys, added ascending (causal: descending); s at the end", evidence::measured, gradients_46},
    fact{"backward: scalars .ftz, additions into dQ keep subnormals; tiles of 128 rows (d 64), 80 or, causal, 64 (d 128), visible through infinities and NaN", evidence::measured, gradients_46},
    fact{"backward, grouped heads: FP32 dK (times s) and dV of the heads are added ascending, then cast", evidence::measured, "H200: 2 captured calls"},
    fact{"a maximum of -inf counts as 0 in the first block and in causally masked ones, not in the others", evidence::source, "hopper/softmax.h"},
    fact{"causal and one query: the call is not causal", evidence::source, "hopper/flash_api.cpp"},
    fact{"grouped heads may be packed into one tile (only infinities and NaN can show it)", evidence::source, "hopper/heuristics.h"},
};

}  // namespace

constinit const attention_schedule fa3{
    .name = "fa3",
    .kernel = "FlashAttention-3 0251105a, Hopper, BF16",
    .unit = "sm90.wgmma.bf16.f32",
    .causal_mask = mask_alignment::bottom_right,
    .rules = {},
    .forward_tiles = tiles,
    .split_tiles = {},
    .small = {},
    .backward = {},
    .backward_tiles = backward_tiles,
    .packs_grouped_heads = true,
    .uncausal_single_query = true,
    .facts = facts,
};

}  // namespace stickybit::kernels
