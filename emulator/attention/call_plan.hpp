#pragma once
#include "stickybit/attention/problem.hpp"
#include "stickybit/machine/machine.hpp"
#include "stickybit/schedule/attention_schedule.hpp"
#include "stickybit/softmax/online_softmax.hpp"

namespace stickybit::detail {

/// What a kernel's host code settles before it starts.
struct call_plan {
  attention_schedule const* schedule;
  forward_rules const* rules;
  machine_unit const* unit;
  special_function_tables const* tables;
  mask_alignment mask;
  attention_tile tile;          ///< key_columns resolved: never 0
  std::int64_t splits;        ///< parts of the keys; 1: not split
  bool second_form;           ///< the second exponent form may apply: see unmasked_blocks
  std::int64_t packed_heads;  ///< query heads of a group that share a tile; 1: not packed
  softmax_scales scales;
  ex2_rows ex2;
};

/// The key blocks that a row's tile visits, begin ≤ block < end.
struct block_range {
  std::int64_t begin, end;
  std::int64_t masked_from;  ///< from here on the kernel runs its masked iterations
};

/// @throws unsupported_call when the schedule has no tile for the head dimension
[[nodiscard]] call_plan plan_call(attention_schedule const& schedule, attention_problem const& problem);

/// May the block be computed with the second exponent form?
[[nodiscard]] bool uses_second_form(call_plan const& plan, attention_problem const& problem, std::int64_t row, std::int64_t block);

/// Do two rows of a head meet the same blocks in the same forms?
[[nodiscard]] bool share_tile(call_plan const& plan, std::int64_t head, std::int64_t row, std::int64_t other) noexcept;

/// The blocks of one part of the keys for one row.
[[nodiscard]] block_range blocks_of(call_plan const& plan, attention_problem const& problem, std::int64_t head, std::int64_t row, std::int64_t part);

}  // namespace stickybit::detail
