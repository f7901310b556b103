#include "element_tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "stickybit/format/text.hpp"
#include "stickybit/format/value.hpp"
#include "words.hpp"

namespace stickybit::detail {
namespace {

constexpr std::size_t most_lines = 6;

std::string six_digits(double x) { return fmt::format("{:.6g}", x); }

/// Every step of one name, by its first index.
std::map<std::int32_t, std::size_t> steps_named(account const& a, std::string_view symbol) {
  std::map<std::int32_t, std::size_t> found;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].name.symbol == symbol) found[a[i].name.i] = i;
  return found;
}

bool of_key(std::string_view tensor) { return tensor == "dk" || tensor == "dv"; }

std::int64_t visible_of(told_element const& e) {
  return std::int64_t(visible_keys(e.problem.causal ? e.schedule.causal_mask : mask_alignment::none, std::size_t(e.at.row), std::size_t(e.problem.queries), std::size_t(e.problem.keys)));
}

std::string block_table(account const& a) {
  if (a.find({"weight", -1, 0})) return {};  // split keys: every part has blocks
  std::string text = fmt::format("blocks of keys in the kernel's order, the maximum after each, O's element before its division:\n  {:>5} {:>12} {:>14} {:>16} {:>16} {:>12}\n", "block", "maximum",
                                 "rescaled by", "O so far", "exact", "error (ulp)");
  std::size_t left_out = 0;
  const auto blocks = steps_named(a, "A");
  const auto maxima = steps_named(a, "m"), rescales = steps_named(a, "r");
  for (auto const& [block, step] : blocks) {
    if (blocks.size() > 2 * most_lines && std::size_t(block) >= most_lines && std::size_t(block) + most_lines < blocks.size()) {
      ++left_out;
      continue;
    }
    if (left_out != 0) text += fmt::format("  {:>5} {} blocks more\n", "…", std::exchange(left_out, 0));
    const auto value = [&](std::map<std::int32_t, std::size_t> const& of) { return of.contains(block) ? six_digits(a.value_of(of.at(block))) : std::string("-"); };
    text += fmt::format("  {:>5} {:>12} {:>14} {:>16} {:>16} {:>12}\n", block, value(maxima), value(rescales), six_digits(a.value_of(step)), six_digits(a[step].exact.hi), signed_ulps(a.error_in_ulp(step)));
  }
  return blocks.empty() ? std::string() : text;
}

/// The shares of one key (or row): of its own S, x, p, P, dP, dS and what leads to them.
std::map<std::int32_t, double> shares_by_key(account const& a, error_shares const& shares) {
  std::map<std::int32_t, double> sums;
  const std::vector<std::size_t> owner = owners(a);
  for (std::size_t i = 0; i < shares.steps.size(); ++i) {
    const std::string_view symbol = a[owner[i]].name.symbol;
    const bool of_one = symbol == "S" || symbol == "x" || symbol == "p" || symbol == "P" || symbol == "dP" || symbol == "dS" || symbol == "dS^";
    if (of_one) sums[a[owner[i]].name.i] += shares.steps[i];
  }
  return sums;
}

std::string cast_error(account const& a, std::size_t step) { return a[step].op == operation::cast ? signed_ulps(a.own_error_in_ulp(step)) : std::string("-"); }

std::string weight_table(told_element const& e, error_shares const& shares) {
  account const& a = e.steps;
  const std::vector<weighed_key> keys = weigh_keys(a);
  if (keys.empty()) return {};
  const auto scores = steps_named(a, "S"), casts = steps_named(a, "P"), arguments = steps_named(a, "x");
  const std::map<std::int32_t, double> by_key = shares_by_key(a, shares);
  std::string text = fmt::format("keys that weigh most:\n  {:>6} {:>8} {:>13} {:>14} {:>12} {:>10} {:>12} {:>16}\n", "key", "weight", "S", "argument", "p", "cast (ulp)", "V", "error made (ulp)");
  for (std::size_t i = 0; i < std::min(most_lines, keys.size()); ++i) {
    const std::int32_t key = keys[i].key;
    const auto value = [&](std::map<std::int32_t, std::size_t> const& of) { return of.contains(key) ? six_digits(a.value_of(of.at(key))) : std::string("-"); };
    const std::string v = e.tensor == "o" ? six_digits(to_double(e.problem.v[std::size_t(e.problem.key_strides().offset(e.at.batch, e.problem.key_head_of(e.at.head), key) + e.at.column)])) : std::string("-");
    text += fmt::format("  {:>6} {:>7.3g}% {:>13} {:>14} {:>12} {:>10} {:>12} {:>16}\n", key, 100 * keys[i].share, value(scores), value(arguments), six_digits(a.value_of(keys[i].step)),
                        casts.contains(key) ? cast_error(a, casts.at(key)) : "-", v, by_key.contains(key) ? signed_ulps(by_key.at(key)) : "-");
  }
  return text;
}

/// Keys of dQ's row, or rows of dK's or dV's key: largest dS (of dV: P) first.
std::string gradient_table(told_element const& e, error_shares const& shares) {
  account const& a = e.steps;
  const auto p = steps_named(a, "p"), dp = steps_named(a, "dP"), ds = steps_named(a, "dS"), cast = steps_named(a, "dS^"), scores = steps_named(a, "S");
  auto const& by = !cast.empty() ? cast : !ds.empty() ? ds : p;
  if (by.empty()) return {};
  std::vector<std::pair<std::int32_t, std::size_t>> order(by.begin(), by.end());
  std::ranges::stable_sort(order, [&](auto const& x, auto const& y) { return std::fabs(a.value_of(x.second)) > std::fabs(a.value_of(y.second)); });
  const std::map<std::int32_t, double> by_key = shares_by_key(a, shares);
  const char* what = of_key(e.tensor) ? "row" : "key";
  std::string text = fmt::format("{}s that matter most:\n  {:>6} {:>12} {:>12} {:>13} {:>13} {:>13} {:>10} {:>16}\n", what, what, "S", "p", "dP", "dS", "exact dS", "cast (ulp)", "error made (ulp)");
  for (std::size_t i = 0; i < std::min(most_lines, order.size()); ++i) {
    const std::int32_t key = order[i].first;
    const auto value = [&](std::map<std::int32_t, std::size_t> const& of) { return of.contains(key) ? six_digits(a.value_of(of.at(key))) : std::string("-"); };
    const auto exact = cast.contains(key) ? six_digits(a[cast.at(key)].exact.hi) : ds.contains(key) ? six_digits(a[ds.at(key)].exact.hi) : std::string("-");
    text += fmt::format("  {:>6} {:>12} {:>12} {:>13} {:>13} {:>13} {:>10} {:>16}\n", key, value(scores), value(p), value(dp), value(cast.empty() ? ds : cast), exact,
                        cast.contains(key) ? cast_error(a, cast.at(key)) : "-", by_key.contains(key) ? signed_ulps(by_key.at(key)) : "-");
  }
  return text;
}

std::string part_table(told_element const& e) {
  account const& a = e.steps;
  const auto parts = steps_named(a, "part");
  if (parts.size() < 2) return {};
  std::string text = of_key(e.tensor) ? "query heads' parts:" : "parts of the blocks of keys:";
  std::size_t shown = 0;
  for (auto const& [i, step] : parts) {
    if (++shown > 2 * most_lines) return text + fmt::format(" and {} more\n", parts.size() - 2 * most_lines);
    text += fmt::format(" {}: {}", i, six_digits(a.value_of(step)));
  }
  return text + "\n";
}

std::string preprocessing(account const& a) {
  std::string text;
  for (const char* symbol : {"lse", "delta"})
    if (const auto step = a.find({symbol}))
      text += fmt::format("  {:<6} {:>16}  exact {:>16}  error {} ulp\n", symbol, six_digits(a.value_of(*step)), six_digits(a[*step].exact.hi), signed_ulps(a.error_in_ulp(*step)));
  return text.empty() ? text : "of the row:\n" + text;
}

std::string describe_forward(told_element const& e) {
  account const& a = e.steps;
  const std::vector<weighed_key> keys = weigh_keys(a);
  if (a.find({"weight", -1, 0}))
    return fmt::format("The row sees {} key{}, split into {} parts, each with a maximum and a sum of its own; the parts' O are joined by their lse.", visible_of(e), visible_of(e) == 1 ? "" : "s",
                       std::ranges::count_if(a.steps(), [](account_step const& s) { return s.name.symbol == "weight"; }));
  const std::size_t blocks = steps_named(a, "m").size();
  std::string text = fmt::format("The row sees {} key{}", visible_of(e), visible_of(e) == 1 ? "" : "s");
  if (visible_of(e) == 0) return text + ": 0/0 in mathematics; what kernels give is a convention.";
  if (blocks > 0) text += fmt::format(", taken in {} block{}", blocks, blocks == 1 ? "" : "s");
  if (keys.empty()) return text + ".";
  text += fmt::format("; key {} has {:.3g}% of the weight", keys[0].key, 100 * keys[0].share);
  std::size_t most = 0;
  double sum = 0;
  while (most < keys.size() && sum < 0.9) sum += keys[most++].share;
  if (most > 1) text += fmt::format(", {} keys have 90%", most);
  const auto ones = std::ranges::count_if(keys, [&](weighed_key const& k) { return a.value_of(k.step) == 1; });
  if (ones > 1 && e.tensor == "o") text += fmt::format(". {} weights are exactly 1: their products with V are V itself, and sums of few-bit numbers lie half-way between two BF16 numbers often", ones);
  return text + ".";
}

/// On a nearly one-hot row dP of the winner and delta are two sums of the same products: what their difference should be, and what it is.
std::string winner_words(account const& a) {
  const auto weights = steps_named(a, "p");
  const auto winner = std::ranges::find_if(weights, [&](auto const& p) { return a.value_of(p.second) > 0.999 && a.value_of(p.second) < 2; });
  const auto delta = a.find({"delta"});
  if (winner == weights.end() || !delta) return {};
  const auto dp = a.find({"dP", winner->first});
  if (!dp) return {};
  const double is = a.value_of(*dp) - a.value_of(*delta), should = to_double(a[*dp].exact - a[*delta].exact);
  if (!(std::fabs(is - should) > std::fabs(should))) return {};
  return fmt::format(" Key {} has all the weight, so its dP and delta are nearly one number, summed in two ways: their difference is {:.4g}, exactly {:.4g}.", winner->first, is, should);
}

std::string describe_backward(told_element const& e) {
  account const& a = e.steps;
  if (of_key(e.tensor)) {
    const std::size_t rows = std::max(steps_named(a, "P").size(), steps_named(a, "dS^").size());
    return fmt::format("{} to it, from the lse and delta that were stored for them.", rows == 1 ? "1 query row adds" : fmt::format("{} query rows add", rows));
  }
  std::string text;
  double mass = 0, size = 0;
  const auto cast = steps_named(a, "dS^");
  for (auto const& [key, step] : cast) {
    mass += a.value_of(step);
    size += std::fabs(a.value_of(step));
  }
  if (e.tensor == "dq" && cast.size() > 1)
    text = fmt::format("The row of dS, as the product takes it, sums to {:.4g}, which is 0 in mathematics (the absolute values sum to {:.4g}); dQ gets that times the keys' common part. ", mass, size);
  if (const auto delta = a.find({"delta"}); delta && e.tensor != "delta")
    text += fmt::format("Its delta is {:.6g}, off by {:.3g}.", a.value_of(*delta), to_double(double_double{a.value_of(*delta), 0} - a[*delta].exact));
  return text + winner_words(a);
}

}  // namespace

std::vector<weighed_key> weigh_keys(account const& a) {
  std::vector<weighed_key> keys;
  if (a.find({"weight", -1, 0})) return keys;  // split keys: parts have weights of their own
  double total = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].name.symbol == "r") {
      const double rescale = a.value_of(i);
      for (weighed_key& key : keys) key.share *= rescale;
    } else if (a[i].name.symbol == "p") {
      keys.push_back({a[i].name.i, i, a.value_of(i)});
    }
  }
  for (weighed_key const& key : keys) total += key.share;
  for (weighed_key& key : keys) key.share /= total;
  std::erase_if(keys, [](weighed_key const& key) { return !(key.share > 0); });
  std::ranges::stable_sort(keys, [](weighed_key const& x, weighed_key const& y) { return x.share > y.share; });
  return keys;
}

std::string describe_row(told_element const& e) { return is_forward_tensor(e.tensor) ? describe_forward(e) : describe_backward(e); }

std::string tables_of(told_element const& e, error_shares const& shares) {
  if (e.tensor == "o") return block_table(e.steps) + weight_table(e, shares);
  if (e.tensor == "lse") return weight_table(e, shares);
  return preprocessing(e.steps) + gradient_table(e, shares) + part_table(e);
}

}  // namespace stickybit::detail
