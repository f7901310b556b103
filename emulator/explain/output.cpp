#include "stickybit/explain/output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "stickybit/attention/exact_head.hpp"
#include "stickybit/format/value.hpp"
#include "words.hpp"

namespace stickybit {
namespace {

std::string block_lines(forward_row_trace const& trace, std::size_t column) {
  std::string text = fmt::format("  {:<13} {:>14} {:>12} {:>16} {:>16}\n", "keys from", "maximum of S", "rescale", "sum of the lanes", "O before 1/sum");
  for (std::size_t i = 0; i < trace.blocks.size(); ++i) {
    softmax_block const& block = trace.blocks[i];
    double sum = 0;
    for (f32_code lane : block.lane_sums) sum += to_double(lane);
    text += fmt::format("  {:<13} {:>14} {:>12} {:>16.9g} {:>16}\n", block.first_column, decimal(block.max_after), i == 0 ? "-" : decimal(block.rescale), sum,
                        decimal(trace.outputs[i].accumulated[column]));
  }
  return text;
}

/// A key's weight, and its share of the row: later blocks with a larger maximum take all earlier weights down.
struct weighed_key {
  softmax_weight weight;
  double share;
};

std::vector<weighed_key> weigh_keys(forward_row_trace const& trace) {
  std::vector<weighed_key> keys;
  double later = 1;
  double total = 0;
  std::size_t end = trace.weights.size();
  for (std::size_t block = trace.blocks.size(); block-- > 0;) {
    while (end > 0 && trace.weights[end - 1].column >= trace.blocks[block].first_column && (block == 0 || trace.weights[end - 1].column < trace.blocks[block - 1].first_column)) {
      --end;
      keys.push_back({trace.weights[end], to_double(trace.weights[end].weight) * later});
      total += keys.back().share;
    }
    later *= to_double(trace.blocks[block].rescale);
  }
  for (weighed_key& key : keys) key.share /= total;
  return keys;
}

std::string heaviest_lines(forward_row_trace const& trace, attention_problem const& p, std::int64_t b, std::int64_t key_head, std::int64_t column) {
  std::vector<weighed_key> heaviest = weigh_keys(trace);
  const auto shown = std::min<std::size_t>(4, heaviest.size());
  std::partial_sort(heaviest.begin(), heaviest.begin() + std::ptrdiff_t(shown), heaviest.end(), [](weighed_key const& x, weighed_key const& y) { return x.share > y.share; });
  std::string text;
  for (std::size_t i = 0; i < shown; ++i) {
    softmax_weight const& w = heaviest[i].weight;
    const bf16_code v = p.v[std::size_t(p.key_strides().offset(b, key_head, w.column) + column)];
    const auto cast = convert<format::bf16>(w.weight);
    text += fmt::format("  key {:>5} ({:.2f}% of the row): S = {}, p = 2^({}) = {}, cast to bf16 {} ({} ulp), V = {}\n", w.column, 100 * heaviest[i].share, decimal(w.score),
                        decimal(w.argument), decimal(w.weight), decimal(cast),
                        detail::signed_ulps((to_double(cast) - to_double(w.weight)) / ulp_at<format::bf16>(to_double(w.weight))), decimal(v));
  }
  return text;
}

}  // namespace

std::string explain_output(attention_schedule const& schedule, attention_problem const& p, std::int64_t b, std::int64_t head, std::int64_t row, std::int64_t column) {
  if (column < 0 || column >= p.head_dim) throw std::out_of_range(fmt::format("column {}: expected 0 to {}", column, p.head_dim - 1));
  const forward_row_trace trace = trace_forward_row(schedule, p, b, head, row);
  const auto j = std::size_t(column);
  std::string text = fmt::format("O[batch {}, head {}, row {}, column {}] by {}\n", b, head, row, column, schedule.name);
  if (trace.blocks.empty()) return text + fmt::format("the row's tile sees no key: O = {}, lse = {}\n", decimal(trace.o[j]), decimal(trace.ready.lse));

  text += fmt::format("s = {}, L = s·log2(e) = {}; the blocks of keys in the kernel's order:\n", p.softmax_scale,
                      decimal(f32_code::from_bits(scale_log2_bits(schedule.rules.scale, p.softmax_scale))));
  text += block_lines(trace, j);
  if (trace.parts.empty()) text += "keys that weigh most:\n" + heaviest_lines(trace, p, b, p.key_head_of(head), column);
  for (std::size_t i = 0; i < trace.parts.size(); ++i)
    text += fmt::format("part {} of the keys: lse = {}, its weight {}, its O = {}\n", i, decimal(trace.parts[i].lse), decimal(trace.parts[i].weight), decimal(trace.parts[i].o[j]));

  softmax_finished const& last = trace.finished.back();
  const bool rounded_first = schedule.rules.output == output_form::round_then_divide;
  const f32_code before_cast_code = rounded_first ? trace.outputs.back().accumulated[j] : trace.ready.o[j];
  if (trace.parts.empty()) text += fmt::format("sum of p = {}, O / sum: {} / {}\n", decimal(last.sum), decimal(trace.outputs.back().accumulated[j]), decimal(last.sum));
  text += fmt::format("{} = {}\n", rounded_first ? "O-bar, rounded before the division" : "O before its cast", detail::describe(before_cast_code));
  recorder<rounded> cast_steps;
  const bf16_code cast = convert<format::bf16>(before_cast_code, rounding::nearest_even, cast_steps);
  for (rounded const& e : cast_steps.all<rounded>()) text += "cast to bf16, nearest_even:\n" + detail::describe(e, "  ");
  text += fmt::format("  = {}\n", detail::describe(cast));
  const bf16_code result = trace.o[j];

  const double_double exact = exact_head(p, mask_of(schedule, p), b, head).evaluate(std::size_t(row), 1).o[j];
  if (!result.is_finite() || !std::isfinite(exact.hi)) return text + fmt::format("result {} ({}); exact {}\n", decimal(result), hex_code(result), exact.hi);
  const double error = to_double(double_double{to_double(result), 0} - exact), ulp = ulp_at<format::bf16>(exact.hi);
  const double before_cast = rounded_first ? 0 : to_double(double_double{to_double(before_cast_code), 0} - exact);
  text += fmt::format("result {} ({}); exact {}; error {} ({} ulp)", decimal(result), hex_code(result), exact.hi, error, detail::signed_ulps(error / ulp));
  if (!rounded_first) text += fmt::format(", of which {} ulp before the cast", detail::signed_ulps(before_cast / ulp));
  return text + "\n";
}

}  // namespace stickybit
