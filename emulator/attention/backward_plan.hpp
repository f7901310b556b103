#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "stickybit/attention/backward.hpp"
#include "stickybit/machine/machine.hpp"
#include "stickybit/softmax/online_softmax.hpp"

namespace stickybit::detail {

/// What a backward kernel's host code settles before it starts.
struct backward_plan {
  attention_schedule const* schedule;
  backward_rules const* rules;
  machine_unit const* unit;
  ex2_rows ex2;
  mask_alignment mask;
  attention_tile tile;      ///< both sides resolved: never 0
  std::int64_t key_blocks;
  std::int64_t dq_buffers;  ///< 1: every part of dQ is added to one sum
  std::vector<std::int64_t> order;  ///< of the key blocks
  softmax_scales scales;
  std::int64_t queries, keys;
  std::span<std::int64_t const> visible_rows = {};  ///< keys that each row sees, instead of what the mask says; the mask is then none

  [[nodiscard]] std::int64_t rows_padded() const noexcept { return (queries + tile.query_rows - 1) / tile.query_rows * tile.query_rows; }
  [[nodiscard]] std::int64_t columns_of(std::int64_t block) const noexcept { return std::min<std::int64_t>(tile.key_columns, keys - block * tile.key_columns); }

  /// The first row of the first tile of queries that visits the block; rows_padded() or more when none does.
  /// @source flash-attention 0251105a hopper/block.h, csrc/flash_attn/src/flash_bwd_kernel.h
  [[nodiscard]] std::int64_t first_row_of(std::int64_t block) const noexcept {
    if (mask == mask_alignment::none) return 0;
    const std::int64_t shift = mask == mask_alignment::bottom_right ? queries - keys : 0;
    return std::max<std::int64_t>(0, block * tile.key_columns + shift) / tile.query_rows * tile.query_rows;
  }
  /// Keys that a row sees: the first so many.
  [[nodiscard]] std::int64_t visible(std::int64_t row) const noexcept {
    return visible_rows.empty() ? std::int64_t(visible_keys(mask, std::size_t(row), std::size_t(queries), std::size_t(keys))) : visible_rows[std::size_t(row)];
  }
  [[nodiscard]] bool visits(std::int64_t row, std::int64_t block) const noexcept { return row >= first_row_of(block); }
};

/// @throws unsupported_call, std::invalid_argument: see attention_backward
[[nodiscard]] backward_plan plan_backward(attention_schedule const& schedule, attention_problem const& problem, std::vector<std::int64_t> const& dq_order = {});

/// A result with room for everything that the options ask for.
[[nodiscard]] backward_result room_for(attention_problem const& problem, backward_options const& options);

}  // namespace stickybit::detail
