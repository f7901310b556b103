#include "stickybit/explain/output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "stickybit/exact/attention.hpp"
#include "stickybit/format/value.hpp"
#include "words.hpp"

namespace stickybit {
namespace {

double_double exact_value(attention_schedule const& schedule, attention_problem const& p, std::int64_t b, std::int64_t head, std::int64_t row, std::int64_t column) {
  const auto rows = [&](std::vector<bf16_code> const& data, row_strides s, std::int64_t h, std::int64_t count) {
    return bf16_rows{data.data() + s.offset(b, h, 0), std::size_t(count), std::size_t(p.head_dim), std::size_t(s.row)};
  };
  const std::int64_t key_head = p.key_head_of(head);
  const exact_attention exact(rows(p.q, p.query_strides(), head, p.queries), rows(p.k, p.key_strides(), key_head, p.keys),
                              rows(p.v, p.key_strides(), key_head, p.keys), p.softmax_scale, p.causal ? schedule.causal_mask : mask_alignment::none);
  return exact.evaluate(std::size_t(row), 1).o[std::size_t(column)];
}

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
  double later = to_double(trace.finished.inverse_sum);
  std::size_t end = trace.weights.size();
  for (std::size_t block = trace.blocks.size(); block-- > 0;) {
    while (end > 0 && trace.weights[end - 1].column >= trace.blocks[block].first_column && (block == 0 || trace.weights[end - 1].column < trace.blocks[block - 1].first_column)) {
      --end;
      keys.push_back({trace.weights[end], to_double(trace.weights[end].weight) * later});
    }
    later *= to_double(trace.blocks[block].rescale);
  }
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
  if (trace.blocks.empty()) return text + "the row's tile sees no key: O = +0, lse = -inf\n";

  text += fmt::format("blocks of {} keys, the last first; S = q·k raw, p = 2^(S·L - m·L), L = {} = {}\n",
                      forward_tile_of(schedule, p.head_dim, p.causal && p.queries != 1)->key_columns, hex_code(scale_log2_of(p.softmax_scale)),
                      decimal(scale_log2_of(p.softmax_scale)));
  text += block_lines(trace, j) + "keys that weigh most:\n" + heaviest_lines(trace, p, b, p.key_head_of(head), column);

  const f32_code accumulated = trace.outputs.back().accumulated[j];
  text += fmt::format("sum of p = {}, 1/sum = {}\n", decimal(trace.finished.sum), decimal(trace.finished.inverse_sum));
  recorder<rounded> product_steps, cast_steps;
  const f32_code product = mul(accumulated, trace.finished.inverse_sum, subnormals::flushed, product_steps);
  const bf16_code result = convert<format::bf16>(product, rounding::nearest_even, cast_steps);
  text += fmt::format("O · 1/sum = {} · {} = {}\n", decimal(accumulated), decimal(trace.finished.inverse_sum), detail::describe(product));
  for (rounded const& e : cast_steps.all<rounded>()) text += "cast to bf16, nearest_even:\n" + detail::describe(e, "  ");
  text += fmt::format("  = {}\n", detail::describe(result));

  const double_double exact = exact_value(schedule, p, b, head, row, column);
  if (!result.is_finite() || !std::isfinite(exact.hi)) return text + fmt::format("result {} ({}); exact {}\n", decimal(result), hex_code(result), exact.hi);
  const double error = to_double(double_double{to_double(result), 0} - exact), ulp = ulp_at<format::bf16>(exact.hi);
  const double before_cast = to_double(double_double{to_double(product), 0} - exact);
  return text + fmt::format("result {} ({}); exact {}; error {} ({} ulp), of which {} ulp before the cast\n", decimal(result), hex_code(result), exact.hi, error,
                            detail::signed_ulps(error / ulp), detail::signed_ulps(before_cast / ulp));
}

}  // namespace stickybit
