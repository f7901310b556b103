#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "stickybit/exact/rows.hpp"
#include "stickybit/machine/evidence.hpp"
#include "stickybit/schedule/backward_rules.hpp"
#include "stickybit/schedule/forward_rules.hpp"

namespace stickybit {

/// Queries and keys of one step of a forward or a backward pass.
struct attention_tile {
  int head_dim;
  bool causal;
  int query_rows;   ///< forward: rows that share their range of key blocks, visible only through infinities and NaN; backward: where
                    ///< blocks of queries descend, it decides the order of the chains of dK and dV; 0: all rows at once
  int key_columns;  ///< forward: keys between two rescalings; backward: keys of one part of dQ; 0: all keys at once
};

/// What kind of computation a schedule names.
enum class schedule_kind : std::uint8_t {
  online,       ///< block by block with a running maximum
  eager,        ///< scores and weights as BF16 matrices, weights divided by their sum before the cast
  exact_value,  ///< the mathematical value, rounded once
};

/// Another kernel that a library takes for small calls.
struct small_calls {
  std::int64_t queries = 0;  ///< for at most so many query rows; 0: there is none
  std::int64_t keys = 0;     ///< and at most so many keys; such a call of more keys is not emulated
  std::span<attention_tile const> tiles;
  forward_rules rules;
};

/// An attention kernel's arithmetic as data: what attention() needs beside the law of the softmax.
struct attention_schedule {
  std::string_view name;
  std::string_view kernel;
  schedule_kind kind = schedule_kind::online;
  std::string_view unit;        ///< the tensor core it uses; its machine evaluates exp2, log2 and 1/x
  mask_alignment causal_mask;   ///< which keys a causal call shows to a row when there are more keys than queries, or fewer
  forward_rules rules;
  std::span<attention_tile const> forward_tiles;
  std::span<attention_tile const> split_tiles;      ///< where the keys are split
  small_calls small;
  std::int64_t min_queries = 0;     ///< calls of fewer rows run another kernel, not emulated
  std::int64_t fixed_splits = 0;  ///< parts of the keys, in blocks of forward_tiles, whatever the rule says; 0: as the rule says
  backward_rules backward = {};
  std::span<attention_tile const> backward_tiles = {};  ///< empty: the kernel's backward pass is not emulated
  bool packs_grouped_heads = false;  ///< query heads of one key head may share a tile
  bool uncausal_single_query = false;  ///< a causal call of one query runs as not causal
  bool splits_own_heads = false;     ///< the split is decided by the heads in the file, not by those of a captured call
  bool smooths_keys = false;       ///< K is replaced by BF16(rn(K − mean)), mean over the keys that some row sees, in forward and backward
  bool forward_in_fp32 = false;    ///< S and PV by FP32 fused multiply-adds in ascending order, P not cast
  bool backward_in_fp32 = false;   ///< likewise every product of the backward pass; neither P nor dS is cast
  std::span<fact const> facts;
};

[[nodiscard]] std::span<attention_schedule const> all_attention_schedules() noexcept;

/// @throws unknown_name listing the schedules that there are
[[nodiscard]] attention_schedule const& attention_schedule_named(std::string_view name);

/// The tile for this head dimension; a tile of all keys at once fits every one. Null where there is none.
[[nodiscard]] attention_tile const* tile_of(std::span<attention_tile const> tiles, std::int64_t head_dim, bool causal) noexcept;

/// In how many buffers FlashAttention-2's deterministic backward pass gathers dQ.
/// @source flash-attention 0251105a csrc/flash_attn/flash_bwd_launch_template.h
[[nodiscard]] constexpr std::int64_t flash_attention_2_dq_buffers(std::int64_t batch_times_heads, std::int64_t sm_count) noexcept {
  return (sm_count + batch_times_heads - 1) / batch_times_heads;
}

/// L in FP32, as the form says.
[[nodiscard]] std::uint32_t scale_log2_bits(scale_form form, double softmax_scale) noexcept;

/// How many parts FlashAttention-2 cuts the keys into.
/// @param rows_of_tiles  batch · heads · ceil(queries / 64)
/// @source flash-attention 0251105a csrc/flash_attn/flash_api.cpp, num_splits_heuristic
/// @checked H200: every captured call of PyTorch's kernel
[[nodiscard]] std::int64_t flash_attention_2_splits(std::int64_t rows_of_tiles, std::int64_t key_blocks, std::int64_t sm_count) noexcept;

}  // namespace stickybit
