#include "stickybit/attention/dq_orders.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bitset>
#include <cstdlib>
#include <map>

#include "backward_plan.hpp"
#include "dq_finish.hpp"
#include "head_parts.hpp"
#include "stickybit/softmax/scalars.hpp"
#include "stickybit/rounding/ieee_environment.hpp"

namespace stickybit {
namespace {

using namespace detail;
using addition = f32_code (*)(f32_code, f32_code);

addition addition_with(subnormals s, engine how) {
  const bool flushed = s == subnormals::flushed;
  const auto by = []<class Scalars>(Scalars) -> f32_code (*)(f32_code, f32_code) { return [](f32_code a, f32_code b) { return Scalars::add(a, b); }; };
  if (how == engine::fast && host::is_ieee()) return flushed ? by(host_scalars<subnormals::flushed>{}) : by(host_scalars<subnormals::kept>{});
  return flushed ? by(defined_scalars<subnormals::flushed>{}) : by(defined_scalars<subnormals::kept>{});
}

bool same(bf16_code a, bf16_code b) noexcept { return a == b || (a.is_nan() && b.is_nan()); }

template <class Code>
void keep_distinct(std::vector<Code>& codes) {
  std::sort(codes.begin(), codes.end(), [](Code a, Code b) { return a.to_bits() < b.to_bits(); });
  codes.erase(std::unique(codes.begin(), codes.end()), codes.end());
}

/// From the sum in the one buffer to the stored dQ.
class element_rule {
 public:
  element_rule(backward_plan const& plan, engine how) : rules_(*plan.rules), scale_(plan.scales.scale), add_(addition_with(rules_.dq_additions, how)) {
    const bool flushed = rules_.scalars == subnormals::flushed;
    if (how == engine::fast && host::is_ieee()) finish_ = flushed ? finished_dq<host_scalars<subnormals::flushed>> : finished_dq<host_scalars<subnormals::kept>>;
    else finish_ = flushed ? finished_dq<defined_scalars<subnormals::flushed>> : finished_dq<defined_scalars<subnormals::kept>>;
  }

  [[nodiscard]] addition add() const noexcept { return add_; }
  [[nodiscard]] bf16_code finish(f32_code sum) const { return finish_(rules_, scale_, {&sum, 1}); }
  [[nodiscard]] bf16_code in_order(std::span<f32_code const> parts, std::span<std::uint32_t const> o) const {
    f32_code sum = f32_code::zero();
    for (std::uint32_t i : o) sum = add_(sum, parts[i]);
    return finish(sum);
  }

 private:
  backward_rules const& rules_;
  f32_code scale_;
  addition add_;
  bf16_code (*finish_)(backward_rules const&, f32_code, std::span<f32_code const>);
};

/// reach[m]: the codes that the parts of the set m can give.
///
/// Exact. An addition sees nothing of what was added before but the sum's code, and rounds it in one way. An order of the set m ends
/// with one of its parts i, after some order of m without i. So what the orders of m can give is, over all i in m, exactly the sums
/// x + part i for the x that m without i can give; and the empty set gives +0 only. Sets are taken as ascending numbers, so each
/// smaller set is ready. At most Σ_k C(8,k)·k! = 109601 codes; near sums meet in few.
void reachable_sums(std::span<f32_code const> parts, addition add, std::vector<std::vector<f32_code>>& reach) {
  const std::size_t sets = std::size_t{1} << parts.size();
  if (reach.size() < sets) reach.resize(sets);
  reach[0].assign(1, f32_code::zero());
  for (std::size_t m = 1; m < sets; ++m) {
    reach[m].clear();
    for (std::size_t i = 0; i < parts.size(); ++i)
      if ((m >> i & 1) != 0)
        for (f32_code x : reach[m ^ (std::size_t{1} << i)]) reach[m].push_back(add(x, parts[i]));
    keep_distinct(reach[m]);
  }
}

backward_plan checked_plan(attention_schedule const& schedule, attention_problem const& p, forward_result const& forward, dq_order_options const& options) {
  if (options.tries < 1) throw std::invalid_argument(fmt::format("orders of dQ's parts: expected at least 1 try, found {}", options.tries));
  if (p.d_o.size() != p.q.size()) throw std::invalid_argument("orders of dQ's parts: the problem has no dO: expected a tensor 'do' of q's shape");
  if (forward.o.size() != p.q.size() || forward.lse.size() != std::size_t(p.batch * p.heads * p.queries))
    throw std::invalid_argument(fmt::format("orders of dQ's parts: O has {} elements and lse {}, expected {} and {}", forward.o.size(), forward.lse.size(), p.q.size(),
                                            p.batch * p.heads * p.queries));
  if (schedule.kind != schedule_kind::online || schedule.backward.dq == dq_sum::one_chain)
    throw unsupported_call(fmt::format("schedule {}: its dQ is not a sum of parts that meet in some order", schedule.name));
  if (schedule.backward.mass != row_mass::kept)
    throw unsupported_call(fmt::format("schedule {}: its row mass is restored after the additions, in an order too", schedule.name));
  return plan_backward(schedule, p);
}

/// The parts of each head in turn, given to `take`.
template <class Take>
void for_each_head(attention_schedule const& schedule, attention_problem const& p, forward_result const& forward, backward_plan const& plan,
                   dq_order_options const& options, Take&& take) {
  const std::int64_t heads = p.batch * p.heads;
  for (std::int64_t i = 0; i < heads; ++i) {
    progress report;
    if (options.report) report = [&](std::int64_t done, std::int64_t total) { options.report(i * total + done, heads * total); };
    take(parts_of(schedule, p, forward, plan.key_blocks, i / p.heads, i % p.heads, options.how, report));
  }
}

/// What the codes of one element say.  @param codes  not empty; sorted by it
void note_spread(std::vector<bf16_code>& codes, std::size_t at, dq_spread& spread) {
  keep_distinct(codes);
  spread.distinct[at] = std::int32_t(codes.size());
  bf16_code low = bf16_code::nan(), high = bf16_code::nan();
  for (bf16_code c : codes) {
    if (c.is_nan()) continue;
    if (low.is_nan() || detail::order_of(c) < detail::order_of(low)) low = c;
    if (high.is_nan() || detail::order_of(c) > detail::order_of(high)) high = c;
  }
  spread.lowest[at] = low;
  spread.highest[at] = high;
}

/// The search for one captured code among the orders of one row's blocks.
class explainer {
 public:
  explainer(element_rule const& rule, order const& blocks, std::vector<order> const& searched) : rule_(rule), blocks_(blocks), searched_(searched) {}

  /// @param parts  of all blocks
  order_verdict operator()(std::span<f32_code const> parts, bf16_code captured) {
    seen_.clear();
    // Ascending and descending begin the searched orders: they answer for most elements.
    const bool exact = blocks_.size() <= max_exact_dq_parts;
    for (std::size_t i = 0; i < searched_.size() && (!exact || i < 2); ++i) {
      const bf16_code c = rule_.in_order(parts, searched_[i]);
      if (same(c, captured)) return order_verdict::explained;
      seen_.push_back(c);
    }
    if (!exact) return order_verdict::not_found;
    own_.clear();
    for (std::uint32_t i : blocks_) own_.push_back(parts[i]);
    reachable_sums(own_, rule_.add(), reach_);
    for (f32_code sum : reach_[(std::size_t{1} << own_.size()) - 1]) {
      const bf16_code c = rule_.finish(sum);
      if (same(c, captured)) return order_verdict::explained;
      seen_.push_back(c);
    }
    return order_verdict::impossible;
  }

  /// The codes met by a call that found no explanation.
  [[nodiscard]] std::vector<bf16_code> seen() const {
    std::vector<bf16_code> codes = seen_;
    keep_distinct(codes);
    return codes;
  }

 private:
  element_rule const& rule_;
  order const& blocks_;
  std::vector<order> const& searched_;
  std::vector<f32_code> own_;
  std::vector<std::vector<f32_code>> reach_;
  std::vector<bf16_code> seen_;
};

constexpr std::size_t most_common_orders = 720;  // 6!
using order_set = std::bitset<most_common_orders>;

/// Which of the orders of all blocks give a whole captured row.
order_set orders_of_row(head_parts const& h, element_rule const& rule, std::vector<order> const& orders, std::int64_t row, std::span<bf16_code const> captured) {
  std::vector<f32_code> parts(h.d * h.blocks);  // [d × blocks]
  for (std::size_t j = 0; j < h.d; ++j) h.gather(row, j, std::span(parts).subspan(j * h.blocks, h.blocks));
  std::map<order, bool> known;  // orders that differ only in blocks that the row does not visit are one
  order_set good;
  for (std::size_t i = 0; i < orders.size(); ++i) {
    const order own = h.taken(orders[i], row);
    auto found = known.find(own);
    if (found == known.end()) {
      bool all = true;
      for (std::size_t j = 0; all && j < h.d; ++j) all = same(rule.in_order(std::span(parts).subspan(j * h.blocks, h.blocks), own), captured[j]);
      found = known.emplace(own, all).first;
    }
    good[i] = found->second;
  }
  return good;
}

void count_common(std::vector<order_set> const& rows, std::int64_t tile_rows, common_orders& counts) {
  order_set head, tile;
  head.set();
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const bool begins = std::int64_t(row) % tile_rows == 0, ends = std::int64_t(row + 1) % tile_rows == 0 || row + 1 == rows.size();
    if (begins) tile.set();
    tile &= rows[row];
    head &= rows[row];
    ++counts.rows;
    counts.rows_explained += rows[row].any();
    counts.tiles += ends;
    counts.tiles_explained += ends && tile.any();
  }
  counts.heads += !rows.empty();
  counts.heads_explained += !rows.empty() && head.any();
}

}  // namespace

std::vector<f32_code> reachable_sums(std::span<f32_code const> parts, subnormals s, engine how) {
  if (parts.size() > max_exact_dq_parts)
    throw std::invalid_argument(fmt::format("reachable sums: expected at most {} parts, found {}", max_exact_dq_parts, parts.size()));
  std::vector<std::vector<f32_code>> reach;
  reachable_sums(parts, addition_with(s, how), reach);
  return reach.back();
}

std::int64_t ulps_between(bf16_code low, bf16_code high) noexcept {
  if (low.is_nan() || high.is_nan()) return 0;
  const auto place = [](bf16_code c) { return c.negative() ? -std::int64_t{c.magnitude()} : std::int64_t{c.magnitude()}; };
  return std::abs(place(high) - place(low));
}

dq_spread sample_dq_orders(attention_schedule const& schedule, attention_problem const& p, forward_result const& forward, dq_order_options const& options) {
  const backward_plan plan = checked_plan(schedule, p, forward, options);
  const element_rule rule(plan, options.how);
  const bool shared = options.draw == order_draw::whole_call;
  const std::vector<order> drawn = shared ? drawn_orders(plan.key_blocks, options) : std::vector<order>{};
  dq_spread spread;
  spread.distinct.resize(p.q.size());
  spread.lowest.resize(p.q.size());
  spread.highest.resize(p.q.size());
  for_each_head(schedule, p, forward, plan, options, [&](head_parts const& h) {
#pragma omp parallel for schedule(dynamic, 16)
    for (std::int64_t row = 0; row < p.queries; ++row) {
      const host::ieee_environment ieee;
      const order blocks = h.blocks_of(row);
      const std::vector<order> orders = h.taken(drawn, row);
      std::vector<f32_code> parts(h.blocks);
      std::vector<bf16_code> codes;
      for (std::size_t j = 0; j < h.d; ++j) {
        const std::size_t at = std::size_t(p.query_strides().offset(h.batch, h.head, row)) + j;
        h.gather(row, j, parts);
        codes.clear();
        for (order const& o : orders) codes.push_back(rule.in_order(parts, o));
        if (!shared) {
          random_words random = stream_of(options.seed, at);
          order own = blocks;
          for (std::int64_t i = 0; i < options.tries; ++i) {
            shuffle(own, random);
            codes.push_back(rule.in_order(parts, own));
          }
        }
        note_spread(codes, at, spread);
      }
    }
  });
  for (std::size_t i = 0; i < spread.distinct.size(); ++i) {
    if (spread.distinct[i] < 2) continue;
    ++spread.varying;
    const std::int64_t ulps = ulps_between(spread.lowest[i], spread.highest[i]);
    if (spread.largest_at && ulps <= spread.largest_ulps) continue;
    spread.largest_ulps = ulps;
    spread.largest_at = std::int64_t(i);
  }
  return spread;
}

dq_explanation explain_dq(attention_schedule const& schedule, attention_problem const& p, forward_result const& forward, std::span<bf16_code const> captured,
                          dq_order_options const& options) {
  const backward_plan plan = checked_plan(schedule, p, forward, options);
  if (captured.size() != p.q.size()) throw std::invalid_argument(fmt::format("orders of dQ's parts: the captured dQ has {} elements, expected {}", captured.size(), p.q.size()));
  const element_rule rule(plan, options.how);
  const std::vector<order> searched = searched_orders(plan.key_blocks, options);
  const std::vector<order> common = plan.key_blocks <= max_common_order_blocks ? all_orders(plan.key_blocks) : std::vector<order>{};
  dq_explanation result;
  result.verdicts.resize(captured.size());
  if (!common.empty()) result.common.emplace();
  for_each_head(schedule, p, forward, plan, options, [&](head_parts const& h) {
    std::vector<order_set> row_orders(common.empty() ? 0 : h.rows);
#pragma omp parallel for schedule(dynamic, 16)
    for (std::int64_t row = 0; row < p.queries; ++row) {
      const host::ieee_environment ieee;
      const auto first = std::size_t(p.query_strides().offset(h.batch, h.head, row));
      const order blocks = h.blocks_of(row);
      const std::vector<order> orders = h.taken(searched, row);
      explainer explain(rule, blocks, orders);
      std::vector<f32_code> parts(h.blocks);
      for (std::size_t j = 0; j < h.d; ++j) {
        h.gather(row, j, parts);
        const order_verdict verdict = result.verdicts[first + j] = explain(parts, captured[first + j]);
        if (verdict == order_verdict::explained) continue;
#pragma omp critical(stickybit_dq_orders)
        {
          auto& earliest = verdict == order_verdict::impossible ? result.first_impossible : result.first_not_found;
          if (!earliest || std::int64_t(first + j) < earliest->index) earliest = unexplained_element{std::int64_t(first + j), captured[first + j], explain.seen()};
        }
      }
      if (!common.empty()) row_orders[std::size_t(row)] = orders_of_row(h, rule, common, row, captured.subspan(first, h.d));
    }
    if (!common.empty()) count_common(row_orders, plan.tile.query_rows, *result.common);
  });
  result.explained = std::count(result.verdicts.begin(), result.verdicts.end(), order_verdict::explained);
  result.impossible = std::count(result.verdicts.begin(), result.verdicts.end(), order_verdict::impossible);
  result.not_found = std::count(result.verdicts.begin(), result.verdicts.end(), order_verdict::not_found);
  return result;
}

}  // namespace stickybit
