#include "stickybit/attention/exact_head.hpp"

#include <algorithm>

#include "reference_rows.hpp"
#include "stickybit/exact/round_to.hpp"

namespace stickybit {

mask_alignment mask_of(attention_schedule const& schedule, attention_problem const& problem) noexcept {
  return problem.causal ? schedule.causal_mask : mask_alignment::none;
}

exact_attention exact_head(attention_problem const& p, mask_alignment mask, std::int64_t batch, std::int64_t head) {
  const auto rows = [&](std::vector<bf16_code> const& data, row_strides s, std::int64_t h, std::int64_t count) {
    return bf16_rows{data.data() + s.offset(batch, h, 0), std::size_t(count), std::size_t(p.head_dim), std::size_t(s.row)};
  };
  const std::int64_t key_head = p.key_head_of(head);
  return {rows(p.q, p.query_strides(), head, p.queries), rows(p.k, p.key_strides(), key_head, p.keys), rows(p.v, p.key_strides(), key_head, p.keys), p.softmax_scale, mask};
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
