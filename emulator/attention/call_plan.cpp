#include "call_plan.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "stickybit/attention/forward.hpp"

namespace stickybit::detail {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }

/// @source flash-attention 0251105a hopper/heuristics.h: packed when it fills tiles clearly better
std::int64_t packed_heads(attention_problem const& p, int query_rows) {
  const std::int64_t group = p.heads / p.key_heads;
  if (group == 1) return 1;
  const auto filled = [&](std::int64_t rows) { return float(rows) / float(ceil_div(rows, query_rows) * query_rows); };
  return filled(p.queries) < 0.9 * filled(p.queries * group) ? group : 1;
}

std::string head_dims(std::span<attention_tile const> tiles) {
  std::string list;
  for (attention_tile const& t : tiles)
    if (!t.causal) list += fmt::format("{}{}", list.empty() ? "" : " or ", t.head_dim);
  return list;
}

attention_tile const& required_tile(attention_schedule const& schedule, std::span<attention_tile const> tiles, std::int64_t head_dim, bool causal) {
  if (attention_tile const* tile = tile_of(tiles, head_dim, causal)) return *tile;
  throw unsupported_call(fmt::format("schedule {} has no tile for head dimension {}: expected {}", schedule.name, head_dim, head_dims(tiles)));
}

/// Parts of the keys, by FlashAttention-2's rule. One query of grouped heads without a mask runs as that many queries of one head.
/// @source flash-attention 0251105a csrc/flash_attn/flash_api.cpp (seqlenq_ngroups_swapped)
std::int64_t splits_of(attention_schedule const& schedule, attention_problem const& p, bool causal) {
  if (schedule.fixed_splits > 0) return schedule.fixed_splits;
  if (schedule.rules.split == split_rule::none) return 1;
  attention_tile const& tile = required_tile(schedule, schedule.split_tiles, p.head_dim, causal);
  std::int64_t heads = schedule.splits_own_heads || p.call_heads == 0 ? p.heads : p.call_heads, queries = p.queries;
  const std::int64_t group = p.heads / p.key_heads;
  if (queries == 1 && group > 1) {
    queries = group;
    heads /= group;
  }
  return flash_attention_2_splits(p.batch * heads * ceil_div(queries, tile.query_rows), ceil_div(p.keys, tile.key_columns), p.sm_count);
}

}  // namespace

call_plan plan_call(attention_schedule const& schedule, attention_problem const& p) {
  const bool causal = p.causal && !(schedule.uncausal_single_query && p.queries == 1);
  machine_unit const& unit = unit_named(schedule.unit);
  if (unit.input != format::bf16) throw unsupported_call(fmt::format("schedule {}: unit {} takes {}; expected one that takes bf16", schedule.name, unit.name, traits_of(unit.input).name));
  const bool small = schedule.small.queries > 0 && p.queries <= schedule.small.queries && p.queries > 0;
  if (small && p.keys > schedule.small.keys)
    throw unsupported_call(fmt::format("schedule {}: {} queries and {} keys run a kernel that is not emulated; expected at most {} keys", schedule.name, p.queries, p.keys, schedule.small.keys));
  if (p.queries < schedule.min_queries)
    throw unsupported_call(fmt::format("schedule {}: {} queries run a kernel that is not emulated; expected at least {}", schedule.name, p.queries, schedule.min_queries));
  forward_rules const& rules = small ? schedule.small.rules : schedule.rules;
  call_plan plan{.schedule = &schedule,
                 .rules = &rules,
                 .unit = &unit,
                 .tables = sm90().special_functions,
                 .mask = causal ? schedule.causal_mask : mask_alignment::none,
                 .tile = required_tile(schedule, small ? schedule.small.tiles : schedule.forward_tiles, p.head_dim, causal),
                 .splits = splits_of(schedule, p, causal),
                 .second_form = false,
                 .packed_heads = 1,
                 .scales = {f32_code::from_bits(std::bit_cast<std::uint32_t>(static_cast<float>(p.softmax_scale))),
                            f32_code::from_bits(scale_log2_bits(rules.scale, p.softmax_scale))},
                 .ex2 = ex2_rows(*sm90().special_functions)};
  if (plan.splits > 1 && schedule.fixed_splits == 0) plan.tile = required_tile(schedule, schedule.split_tiles, p.head_dim, causal);
  if (plan.tile.key_columns == 0) plan.tile.key_columns = int(std::max<std::int64_t>(16, ceil_div(p.keys, 16) * 16));
  if (rules.unmasked == unmasked_blocks::whole_call) plan.second_form = !causal && p.keys % plan.tile.key_columns == 0;
  if (rules.unmasked == unmasked_blocks::even_blocks) plan.second_form = p.keys % 128 == 0 && p.queries % 128 == 0;
  if (schedule.packs_grouped_heads) plan.packed_heads = packed_heads(p, plan.tile.query_rows);
  return plan;
}

bool uses_second_form(call_plan const& plan, attention_problem const& p, std::int64_t row, std::int64_t block) {
  if (!plan.second_form || plan.rules->unmasked == unmasked_blocks::whole_call || plan.mask == mask_alignment::none) return plan.second_form;
  const std::int64_t first_row = row / plan.tile.query_rows * plan.tile.query_rows;
  const std::size_t visible_to_all = visible_keys(plan.mask, std::size_t(first_row), std::size_t(p.queries), std::size_t(p.keys));
  return (block * plan.tile.key_columns / 128 + 1) * 128 <= std::int64_t(visible_to_all);
}

bool share_tile(call_plan const& plan, std::int64_t head, std::int64_t row, std::int64_t other) noexcept {
  const auto packed = [&](std::int64_t r) { return (r * plan.packed_heads + head % plan.packed_heads) / plan.tile.query_rows; };
  return packed(row) == packed(other) && row / plan.tile.query_rows == other / plan.tile.query_rows;
}

block_range blocks_of(call_plan const& plan, attention_problem const& p, std::int64_t head, std::int64_t row, std::int64_t part) {
  const std::int64_t width = plan.tile.key_columns, all = ceil_div(p.keys, width), each = ceil_div(all, plan.splits);
  block_range range{part * each, std::min(all, (part + 1) * each), all};
  if (plan.mask != mask_alignment::none) {
    const std::int64_t packed_row = row * plan.packed_heads + head % plan.packed_heads, rows = plan.tile.query_rows, tile = packed_row / rows;
    const std::int64_t first_row = tile * rows / plan.packed_heads, end_row = ((tile + 1) * rows - 1) / plan.packed_heads + 1;
    const std::int64_t shift = plan.mask == mask_alignment::bottom_right ? p.keys - p.queries : 0;
    range.end = std::min(range.end, ceil_div(end_row + shift, width));
    range.masked_from = std::max<std::int64_t>(0, first_row + shift) / width;
  }
  range.end = std::max(range.begin, range.end);
  // FlashAttention-2 counts its masked iterations from the top of the range instead.
  // @source flash-attention 0251105a csrc/flash_attn/src/flash_fwd_kernel.h, n_masking_steps
  if (plan.mask != mask_alignment::none && plan.rules->guard == empty_guard::weights_always) {
    const bool even = p.queries % plan.tile.query_rows == 0 && p.keys % width == 0;
    range.masked_from = range.end - ceil_div(plan.tile.query_rows, width) - (even ? 0 : 1);
  }
  return range;
}

}  // namespace stickybit::detail
