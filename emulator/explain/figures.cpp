#include "stickybit/explain/figures.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "stickybit/explain/block_figure.hpp"
#include "stickybit/explain/teller.hpp"
#include "stickybit/figure/aligned_bits.hpp"
#include "stickybit/figure/bar_chart.hpp"
#include "stickybit/figure/number_line.hpp"
#include "stickybit/figure/softmax_life.hpp"
#include "stickybit/figure/step_chart.hpp"
#include "words.hpp"

namespace stickybit {
namespace {

step_events events_of(account const& a, std::size_t step) {
  step_events events;
  static_cast<void>(a.carry_out(step, &events));
  return events;
}

/// "3: 1.5 × 0.25" of every product.
std::vector<std::string> product_labels(account const& a, std::size_t step) {
  std::vector<std::string> labels;
  for (std::size_t k = 0; k + 1 < a[step].operands; k += 2) labels.push_back(fmt::format("{}: {:.4g} × {:.4g}", k / 2, a.value_of(step, k), a.value_of(step, k + 1)));
  return labels;
}

/// Of the keys of one block, by the block's place in the order taken.
struct block_keys {
  std::int64_t first = std::numeric_limits<std::int64_t>::max(), count = 0;
  double heaviest = 0;
};

std::map<std::int32_t, block_keys> keys_by_block(account const& a) {
  std::map<std::int32_t, block_keys> blocks;
  std::int32_t block = -1;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].name.symbol == "m") block = a[i].name.i;
    if (a[i].name.symbol != "p" || block < 0) continue;
    block_keys& keys = blocks[block];
    keys.first = std::min<std::int64_t>(keys.first, a[i].name.i);
    ++keys.count;
    keys.heaviest = std::max(keys.heaviest, a.value_of(i));
  }
  return blocks;
}

}  // namespace

std::optional<figure::scene> rounding_picture(account const& a, std::size_t step) {
  const auto roundings = events_of(a, step).all<rounded>();
  if (roundings.empty()) return std::nullopt;
  figure::scene picture = figure::number_line(roundings.back());
  picture.title = fmt::format("{} on the number line", label_of(a, step));
  return picture;
}

std::optional<figure::scene> block_picture(account const& a, std::size_t step) {
  if (a[step].op != operation::block_fma) return std::nullopt;
  const step_events events = events_of(a, step);
  const auto sums = events.all<block_summed>();
  if (sums.empty()) return std::nullopt;
  const auto roundings = events.all<rounded>();
  figure::aligned_bits_data data = block_figure(events.all<term_aligned>(), sums.front(), roundings.empty() ? std::nullopt : std::optional(roundings.front()), product_labels(a, step),
                                                fmt::format("c: {:.4g}", a.value_of(step, a[step].operands - 1)));
  const std::vector<std::size_t> owner = owners(a);
  data.title = owner[step] == step ? fmt::format("The tensor-core step that gives {}, bit by bit", label_of(a, step)) : fmt::format("A tensor-core step on the way to {}, bit by bit", label_of(a, owner[step]));
  return figure::aligned_bits(data);
}

std::optional<std::size_t> block_to_show(account const& a, error_shares const& shares) {
  std::optional<std::size_t> chosen;
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].op != operation::block_fma) continue;
    const double share = !shares.finite ? 0 : std::fabs(shares.steps[i]);
    if (chosen && share < largest) continue;
    chosen = i;
    largest = share;
  }
  return chosen;
}

std::optional<figure::scene> shares_picture(std::vector<error_group> const& groups, error_shares const& shares, std::string (*name_of)(std::string_view, std::string_view), std::string_view tensor) {
  if (groups.empty() || !shares.finite) return std::nullopt;
  figure::bar_chart_data data{.title = "Where the error comes from", .value_name = "share of the error", .unit = "ulp", .bars = {}};
  constexpr std::size_t most = 12;
  double rest = shares.not_linear;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (i < most) data.bars.push_back({.name = name_of(groups[i].symbol, tensor), .value = groups[i].sum});
    else rest += groups[i].sum;
  }
  if (std::fabs(rest) > 1e-3 * std::fabs(shares.total)) data.bars.push_back({.name = "all else, and products of errors", .value = rest});
  data.bars.push_back({.name = "in all", .value = shares.total, .total = true});
  return figure::bar_chart(data);
}

std::optional<figure::scene> error_picture(account const& a, error_shares const& shares) {
  if (!shares.finite || shares.steps.size() < 2) return std::nullopt;
  figure::step_chart_data data{.title = "The error, step by step", .step_name = "step", .value_name = "error so far", .unit = "ulp of the result", .values = {}, .marks = {}, .symlog = true};
  double sum = shares.of_constants();
  std::vector<std::size_t> order(shares.steps.size());
  for (std::size_t i = 0; i < shares.steps.size(); ++i) {
    data.values.push_back(sum += shares.steps[i]);
    order[i] = i;
  }
  constexpr std::size_t named = 8;
  std::ranges::stable_sort(order, [&](std::size_t x, std::size_t y) { return std::fabs(shares.steps[x]) > std::fabs(shares.steps[y]); });
  for (std::size_t n = 0; n < std::min(named, order.size()); ++n)
    if (shares.steps[order[n]] != 0) data.marks.push_back({std::int64_t(order[n]), label_of(a, order[n])});
  std::ranges::sort(data.marks, {}, &figure::step_mark::step);
  return figure::step_chart(data);
}

std::string name_of_group(std::string_view symbol, std::string_view) { return symbol.empty() ? std::string("steps without a name") : text_of({symbol}); }

std::optional<figure::scene> picture_named(account const& a, std::string_view picture, std::string (*name_of)(std::string_view, std::string_view), std::string_view tensor) {
  if (picture == "rounding") return rounding_picture(a, a.size() - 1);
  if (picture == "row") return row_picture(a);
  const error_shares shares = share_error(a);
  if (picture == "error") return error_picture(a, shares);
  if (picture == "shares") return shares_picture(group_shares(a, shares), shares, name_of, tensor);
  const std::optional<std::size_t> block = picture == "block" ? block_to_show(a, shares) : std::nullopt;
  return block ? block_picture(a, *block) : std::nullopt;
}

std::optional<figure::scene> row_picture(account const& a) {
  if (a.find({"weight", -1, 0})) return std::nullopt;  // split keys: rows of their own
  figure::softmax_life_data data{.title = "The row's life, block of keys by block", .blocks = {}};
  double before = -std::numeric_limits<double>::infinity();
  for (auto const& [block, keys] : keys_by_block(a)) {
    const auto value = [&](quantity q, double otherwise) {
      const auto step = a.find(q);
      return step ? a.value_of(*step) : otherwise;
    };
    double sum = 0;
    for (std::int32_t lane = 0; lane < 4; ++lane) sum += value({"l", block, lane}, 0);
    const double after = value({"m", block}, before);
    data.blocks.push_back({keys.first, keys.count, before, after, value({"r", block}, 1), sum, value({"A", block}, 0), keys.heaviest});
    before = after;
  }
  if (data.blocks.empty()) return std::nullopt;
  return figure::softmax_life(data);
}

}  // namespace stickybit
