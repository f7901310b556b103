#include <algorithm>
#include <numeric>
#include <ranges>

#include "unit_search.hpp"

// Which products are added in one step, and in which order the steps follow, from answers alone.

namespace stickybit::detail {
namespace {

constexpr int trials_a_batch = 12;
constexpr std::size_t most_orders_of = 4;  // blocks

/// A large product at `large` that one of `partners`, or c, cancels, and one at `small` that the same step would lose: the two places count.
unit_case vanishing_case(case_maker& maker, std::size_t large, std::size_t small, std::vector<int> const& partners) {
  unit_case x = maker.blank();
  const int top = std::min(maker.highest_product() - 1, maker.formats().output == format::f16 ? 13 : 30);
  const bool known = maker.one_in(2);
  const std::size_t partner = known ? std::size_t(partners[std::size_t(maker.between(0, int(partners.size()) - 1))]) : std::size_t(maker.between(0, maker.formats().k - 1));
  maker.put_power(x, large, false, top);
  if (partner == large || partner == small) maker.put_c_power(x, true, top);
  else maker.put_power(x, partner, true, top);
  maker.put_power(x, small, maker.one_in(2), std::max(maker.lowest_normal_product(), top - (maker.one_in(3) ? maker.between(6, 44) : 44)));
  return x;
}

/// Does exchanging product k and the first of a block ever change the result?
bool are_exchangeable(probe_log& log, case_maker& maker, std::vector<int> const& block, std::size_t k, int trials) {
  const auto first = std::size_t(block[0]);
  for (int done = 0; done < trials; done += trials_a_batch) {
    std::vector<unit_case> cases;
    for (int t = 0; t < trials_a_batch; ++t) {
      const bool vanishing = t % 3 != 0;
      unit_case x = !vanishing ? maker.make(ordinary_kinds) : maker.one_in(2) ? vanishing_case(maker, first, k, block) : vanishing_case(maker, k, first, block);
      if (!vanishing && maker.one_in(2)) x.c = 0;
      unit_case exchanged = x;
      std::swap(exchanged.a[first], exchanged.a[k]);
      std::swap(exchanged.b[first], exchanged.b[k]);
      cases.push_back(std::move(x));
      cases.push_back(std::move(exchanged));
    }
    const std::span<std::uint64_t const> d = log.ask(std::move(cases));
    for (std::size_t t = 0; t < d.size(); t += 2)
      if (!agrees(maker.formats().output, d[t], d[t + 1], agreement::loosely)) return false;
  }
  return true;
}

std::vector<std::vector<int>> group_products(probe_log& log, case_maker& maker, int trials) {
  std::vector<std::vector<int>> blocks;
  for (int k = 0; k < maker.formats().k; ++k) {
    const auto same = std::ranges::find_if(blocks, [&](auto const& block) { return are_exchangeable(log, maker, block, std::size_t(k), trials); });
    if (same == blocks.end()) blocks.push_back({k});
    else same->push_back(k);
  }
  return blocks;
}

/// The highest and the lowest power of two for a case in which one product is to vanish beside another.
struct span_of_powers {
  int high, low;
};
span_of_powers widest_span(case_maker const& maker) {
  const bool half = maker.formats().output == format::f16;
  const int high = std::min(maker.highest_product() - 1, half ? 14 : 40);
  return {high, std::max({maker.lowest_normal_product(), half ? -14 : -60, high - 50})};
}

/// 2^high at i and −2^high at j (c where that is i), 2^low at l: is 2^low the result?
bool survives(probe_log& log, case_maker& maker, int i, int j, int l) {
  const span_of_powers span = widest_span(maker);
  unit_case x = maker.blank();
  maker.put_power(x, std::size_t(i), false, span.high);
  if (i == j) maker.put_c_power(x, true, span.high);
  else maker.put_power(x, std::size_t(j), true, span.high);
  maker.put_power(x, std::size_t(l), false, span.low);
  return log.ask_one(std::move(x)) == power_bits(format::f32, false, span.low);
}

std::vector<std::vector<int>> all_orders(std::size_t blocks) {
  std::vector<int> order(blocks);
  std::iota(order.begin(), order.end(), 0);
  std::vector<std::vector<int>> orders{order};
  if (blocks > most_orders_of) {
    std::ranges::reverse(order);
    orders.push_back(order);
    return orders;
  }
  while (std::ranges::next_permutation(order).found) orders.push_back(order);
  return orders;
}

/// A chain's later block keeps what an earlier one would lose, and not the other way round.
std::vector<std::vector<int>> order_blocks(probe_log& log, case_maker& maker, std::vector<std::vector<int>> const& blocks) {
  const std::size_t count = blocks.size();
  std::vector<int> earlier(count, 0);
  bool decided = true;
  for (std::size_t x = 0; x < count; ++x)
    for (std::size_t y = x + 1; y < count; ++y) {
      const auto follows = [&](std::size_t first, std::size_t second) { return survives(log, maker, blocks[first][0], blocks[first].back(), blocks[second][0]); };
      const bool forward = follows(x, y), backward = follows(y, x);
      decided = decided && forward != backward;
      ++earlier[forward ? y : x];
    }
  std::vector<int> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, {}, [&](int b) { return earlier[std::size_t(b)]; });
  for (std::size_t i = 0; i < count; ++i) decided = decided && earlier[std::size_t(order[i])] == int(i);
  return decided ? std::vector<std::vector<int>>{order} : all_orders(count);
}

/// 2^high + 2^(high − t) − 2^high in one block is exact up to t = F.
std::vector<int> measure_fraction_bits(probe_log& log, case_maker& maker, std::vector<int> const& block) {
  if (block.size() < 3) return {};
  const span_of_powers span = widest_span(maker);
  std::vector<unit_case> cases;
  for (int t = 0; t <= span.high - span.low; ++t) {
    unit_case x = maker.blank();
    maker.put_power(x, std::size_t(block[0]), false, span.high);
    maker.put_power(x, std::size_t(block[1]), true, span.high);
    maker.put_power(x, std::size_t(block[2]), false, span.high - t);
    cases.push_back(std::move(x));
  }
  const std::span<std::uint64_t const> d = log.ask(std::move(cases));
  int exact = 0;
  while (exact < std::ssize(d) && d[std::size_t(exact)] == power_bits(format::f32, false, span.high - exact)) ++exact;
  if (exact == 0) return {};
  if (exact < std::ssize(d)) return {exact - 1};
  std::vector<int> at_least;
  for (int f = exact - 1; f <= 50; ++f) at_least.push_back(f);
  return at_least;
}

bool is_consecutive(std::vector<std::vector<int>> const& blocks) {
  int next = 0;
  for (auto const& block : blocks)
    for (int k : block)
      if (k != next++) return false;
  return std::ranges::all_of(blocks, [&](auto const& block) { return block.size() == blocks[0].size(); });
}

}  // namespace

block_structure find_blocks(probe_log& log, case_maker& maker, int trials) {
  block_structure found;
  found.blocks = group_products(log, maker, trials);
  found.orders = found.blocks.size() == 1 ? std::vector<std::vector<int>>{{0}} : order_blocks(log, maker, found.blocks);
  found.fraction_bits = measure_fraction_bits(log, maker, *std::ranges::max_element(found.blocks, {}, [](auto const& b) { return b.size(); }));
  return found;
}

machine_unit with_blocks(machine_unit unit, std::vector<std::vector<int>> const& blocks, std::vector<int> const& order, permutation_store& store) {
  std::vector<std::vector<int>> ordered;
  for (int b : order) ordered.push_back(blocks[std::size_t(b)]);
  std::size_t longest = 0;
  for (auto const& block : ordered) longest = std::max(longest, block.size());
  unit.block_size = int(longest);
  unit.permutation = {};
  unit.order = product_order::ascending;
  if (is_consecutive(ordered)) return unit;
  machine_unit pairs = unit;
  pairs.order = product_order::pairs;
  if (ordered.size() == 2 && longest % 2 == 0 && unit.instruction_k == 2 * unit.block_size && blocks_in(pairs) == ordered) return pairs;
  std::vector<std::uint8_t>& places = store.emplace_back();
  for (auto const& block : ordered) {
    for (int k : block) places.push_back(std::uint8_t(k));
    places.resize(places.size() + longest - block.size(), no_product);
  }
  unit.permutation = places;
  return unit;
}

}  // namespace stickybit::detail
