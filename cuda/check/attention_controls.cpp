// Schedules with one rule changed: a check that cannot tell them from the kernel's own would show nothing.
#include <deque>

#include "attention_check.hpp"

namespace stickybit::gpu {
namespace {

template <class Rule>
Rule other(Rule is, Rule one, Rule two) {
  return is == one ? two : one;
}

/// The same tiles with half the keys in a step.
std::span<attention_tile const> halved(std::span<attention_tile const> tiles) {
  static std::deque<std::vector<attention_tile>> kept;
  kept.emplace_back(tiles.begin(), tiles.end());
  for (attention_tile& tile : kept.back()) tile.key_columns /= 2;
  return kept.back();
}

}  // namespace

std::vector<changed_schedule> changed_schedules(attention_schedule const& s, bool backward) {
  std::vector<changed_schedule> changed;
  const auto add = [&](char const* what, auto change) {
    changed.push_back({what, s});
    change(changed.back().schedule);
  };
  using schedule = attention_schedule;
  if (!backward) {
    add("half the keys in a step", [](schedule& x) { x.forward_tiles = halved(x.forward_tiles); });
    add("blocks in the other order", [](schedule& x) { x.rules.order = other(x.rules.order, block_order::ascending, block_order::descending); });
    add("another exponent's argument", [](schedule& x) {
      using enum exponent_form;
      x.rules.exponent = has_scaled_maximum(x.rules.exponent) ? other(x.rules.exponent, scaled_scores, fused_scaled_max) : other(x.rules.exponent, fused, scaled_difference);
    });
    add("another rescaling", [](schedule& x) { x.rules.rescale = other(x.rules.rescale, rescale_form::difference_scaled, rescale_form::fused); });
    add("block sums carried otherwise", [](schedule& x) { x.rules.start = other(x.rules.start, sum_start::carried, sum_start::block); });
    add("lanes joined otherwise", [](schedule& x) { x.rules.join = other(x.rules.join, lane_join::far_first, lane_join::near_first); });
    add("row sum of the BF16 weights", [](schedule& x) { x.rules.summed = other(x.rules.summed, sum_of::fp32_weights, sum_of::bf16_weights); });
    add("another formula of lse", [](schedule& x) {
      x.rules.lse = has_scaled_maximum(x.rules.exponent) ? other(x.rules.lse, lse_form::scaled_max, lse_form::scaled_max_twice) : other(x.rules.lse, lse_form::base2_times_max, lse_form::scale_times_max);
    });
    return changed;
  }
  add("half the keys in a part of dQ", [](schedule& x) { x.backward_tiles = halved(x.backward_tiles); });
  add("another exponent's argument", [](schedule& x) { x.backward.weight = other(x.backward.weight, weight_form::fused, weight_form::scaled_difference); });
  add("delta in other lanes", [](schedule& x) { x.backward.delta = other(x.backward.delta, delta_sum::lanes_of_eight, delta_sum::serial); });
  add("dS by two products", [](schedule& x) { x.backward.gradient = other(x.backward.gradient, score_gradient::product_of_difference, score_gradient::difference_of_products); });
  add("dS from BF16 weights", [](schedule& x) { x.backward.gradient = other(x.backward.gradient, score_gradient::from_bf16_weights, score_gradient::product_of_difference); });
  add("query blocks in the other order", [](schedule& x) { x.backward.queries = other(x.backward.queries, query_order::ascending, query_order::descending); });
  add("parts of dQ in the other order", [](schedule& x) { x.backward.dq = other(x.backward.dq, dq_sum::descending, dq_sum::ascending); });
  return changed;
}

}  // namespace stickybit::gpu
