#include "stickybit/attention/exact_head.hpp"

#include <algorithm>

#include "reference_rows.hpp"
#include "stickybit/exact/round_to.hpp"

namespace stickybit {

mask_alignment mask_of(attention_schedule const& schedule, attention_problem const& problem) noexcept {
  return problem.causal ? schedule.causal_mask : mask_alignment::none;
}

head_rows rows_of_head(attention_problem const& p, std::int64_t batch, std::int64_t head) {
  const auto rows = [&](std::vector<bf16_code> const& data, row_strides s, std::int64_t h, std::int64_t count) {
    return bf16_rows{data.data() + s.offset(batch, h, 0), std::size_t(count), std::size_t(p.head_dim), std::size_t(s.row)};
  };
  const std::int64_t key_head = p.key_head_of(head);
  return {rows(p.q, p.query_strides(), head, p.queries), rows(p.k, p.key_strides(), key_head, p.keys), rows(p.v, p.key_strides(), key_head, p.keys),
          p.d_o.empty() ? bf16_rows{} : rows(p.d_o, p.query_strides(), head, p.queries)};
}

exact_attention exact_head(attention_problem const& p, mask_alignment mask, std::int64_t batch, std::int64_t head) {
  const head_rows rows = rows_of_head(p, batch, head);
  return {rows.q, rows.k, rows.v, p.softmax_scale, mask};
}

exact_gradients exact_gradients_of_head(attention_problem const& p, mask_alignment mask, std::int64_t batch, std::int64_t head) {
  const head_rows rows = rows_of_head(p, batch, head);
  return {rows.q, rows.k, rows.v, rows.d_o, p.softmax_scale, mask};
}

std::vector<double_double> sum_over_group(attention_problem const& p, std::vector<head_gradients> const& heads, std::vector<double_double> head_gradients::*gradient,
                                          std::int64_t batch, std::int64_t key_head) {
  const std::int64_t group = p.heads / p.key_heads, first = batch * p.heads + key_head * group;
  std::vector<double_double> sum = heads[std::size_t(first)].*gradient;
  for (std::int64_t head = first + 1; head < first + group; ++head) {
    std::vector<double_double> const& one = heads[std::size_t(head)].*gradient;
    std::transform(sum.begin(), sum.end(), one.begin(), sum.begin(), [](double_double x, double_double y) { return x + y; });
  }
  return sum;
}

namespace detail {

forward_result exact_forward(attention_schedule const& schedule, attention_problem const& p, progress const& report) {
  forward_result result;
  result.o.resize(p.q.size());
  result.lse.resize(std::size_t(p.batch * p.heads * p.queries));
  const std::int64_t total = p.batch * p.heads * p.queries;
  constexpr std::int64_t rows_at_once = 64;
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t head = 0; head < p.heads; ++head) {
      const exact_attention exact = exact_head(p, mask_of(schedule, p), b, head);
      for (std::int64_t first = 0; first < p.queries; first += rows_at_once) {
        const exact_rows rows = exact.evaluate(std::size_t(first), std::size_t(std::min(rows_at_once, p.queries - first)));
        for (std::size_t i = 0; i < rows.rows; ++i) {
          const std::int64_t row = first + std::int64_t(i), at = (b * p.heads + head) * p.queries + row;
          bf16_code* o = result.o.data() + p.query_strides().offset(b, head, row);
          for (std::size_t j = 0; j < rows.columns; ++j) o[j] = round_to<format::bf16>(rows.o[i * rows.columns + j]);
          result.lse[std::size_t(at)] = round_to<format::f32>(rows.lse[i]);
          if (report) report(at + 1, total);
        }
      }
    }
  return result;
}

}  // namespace detail
}  // namespace stickybit
