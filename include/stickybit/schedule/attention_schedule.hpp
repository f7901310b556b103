#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "stickybit/exact/rows.hpp"
#include "stickybit/machine/evidence.hpp"

namespace stickybit {

/// Queries and keys of one step of the forward pass.
struct forward_tile {
  int head_dim;
  bool causal;
  int query_rows;   ///< rows that share their range of key blocks: visible only through infinities and NaN
  int key_columns;  ///< keys between two rescalings: visible in most rows
};

/// An attention kernel's arithmetic as data: what attention() needs beside the law of the online softmax.
struct attention_schedule {
  std::string_view name;
  std::string_view kernel;
  std::string_view unit;  ///< the tensor core it uses; its machine evaluates exp2, log2 and 1/x
  mask_alignment causal_mask;  ///< which keys a causal call shows to a row when there are more keys than queries, or fewer
  std::span<forward_tile const> forward_tiles;
  std::span<fact const> facts;
};

[[nodiscard]] std::span<attention_schedule const> all_attention_schedules() noexcept;

/// @throws unknown_name listing the schedules that there are
[[nodiscard]] attention_schedule const& attention_schedule_named(std::string_view name);

/// Null where the schedule has no tile for this head dimension.
[[nodiscard]] forward_tile const* forward_tile_of(attention_schedule const& schedule, std::int64_t head_dim, bool causal) noexcept;

}  // namespace stickybit
