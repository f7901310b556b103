#include "backward_plan.hpp"

#include <fmt/format.h>

#include <bit>
#include <numeric>

#include "stickybit/attention/exact_head.hpp"

namespace stickybit {
namespace detail {
namespace {

std::int64_t round_up(std::int64_t x, std::int64_t to) { return std::max(to, (x + to - 1) / to * to); }

attention_tile tile_for(attention_schedule const& schedule, attention_problem const& p) {
  if (schedule.backward_tiles.empty()) throw unsupported_call(fmt::format("schedule {}: its backward pass is not emulated", schedule.name));
  attention_tile const* found = tile_of(schedule.backward_tiles, p.head_dim, p.causal);
  if (found == nullptr) throw unsupported_call(fmt::format("schedule {} has no backward tile for head dimension {}", schedule.name, p.head_dim));
  attention_tile tile = *found;
  if (tile.key_columns == 0) tile.key_columns = int(round_up(p.keys, 16));
  if (tile.query_rows == 0) tile.query_rows = int(std::max<std::int64_t>(1, p.queries));
  return tile;
}

std::vector<std::int64_t> order_of(backward_plan const& plan, std::vector<std::int64_t> const& asked) {
  std::vector<std::int64_t> order(std::size_t(plan.key_blocks));
  std::iota(order.begin(), order.end(), 0);
  if (!asked.empty()) {
    std::vector<std::int64_t> sorted = asked;
    std::sort(sorted.begin(), sorted.end());
    if (sorted != order) throw std::invalid_argument(fmt::format("order of dQ's parts: expected each of the {} blocks of keys once, 0 to {}", order.size(), plan.key_blocks - 1));
    return asked;
  }
  const dq_sum rule = plan.rules->dq;
  if (rule == dq_sum::descending || (rule == dq_sum::causal_descending && plan.mask != mask_alignment::none)) std::reverse(order.begin(), order.end());
  return order;
}

}  // namespace

backward_plan plan_backward(attention_schedule const& schedule, attention_problem const& p, std::vector<std::int64_t> const& dq_order) {
  const attention_tile tile = tile_for(schedule, p);
  backward_plan plan{.schedule = &schedule,
                     .rules = &schedule.backward,
                     .unit = &unit_named(schedule.unit),
                     .ex2 = ex2_rows(*sm90().special_functions),
                     .mask = mask_of(schedule, p),
                     .tile = tile,
                     .key_blocks = (p.keys + tile.key_columns - 1) / tile.key_columns,
                     .dq_buffers = 1,
                     .order = {},
                     .scales = {f32_code::from_bits(std::bit_cast<std::uint32_t>(static_cast<float>(p.softmax_scale))),
                                f32_code::from_bits(scale_log2_bits(schedule.rules.scale, p.softmax_scale))},
                     .queries = p.queries,
                     .keys = p.keys};
  plan.order = order_of(plan, dq_order);
  if (schedule.backward.dq == dq_sum::flash_attention_2 && dq_order.empty()) {
    const std::int64_t heads = schedule.splits_own_heads || p.call_heads == 0 ? p.heads : p.call_heads;
    plan.dq_buffers = std::clamp<std::int64_t>(flash_attention_2_dq_buffers(p.batch * heads, p.sm_count), 1, std::max<std::int64_t>(1, plan.key_blocks));
  }
  return plan;
}

backward_result room_for(attention_problem const& p, backward_options const& options) {
  backward_result r;
  r.dq.resize(p.q.size());
  r.dk.resize(p.k.size());
  r.dv.resize(p.v.size());
  r.delta.resize(std::size_t(p.batch * p.heads * p.queries));
  r.lse_log2.resize(r.delta.size());
  if (options.keep_f32) {
    r.dq_f32.resize(p.q.size());
    r.dk_f32.resize(p.k.size());
  }
  return r;
}

}  // namespace detail

std::int64_t dq_blocks(attention_schedule const& schedule, attention_problem const& problem) { return detail::plan_backward(schedule, problem).key_blocks; }

std::int64_t padded_rows(attention_schedule const& schedule, attention_problem const& problem) { return detail::plan_backward(schedule, problem).rows_padded(); }

}  // namespace stickybit
