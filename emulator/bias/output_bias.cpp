#include "stickybit/bias/output_bias.hpp"

#include <algorithm>
#include <cmath>

#include "stickybit/attention/exact_head.hpp"
#include "stickybit/format/value.hpp"

namespace stickybit {
output_bias bias_of_output(attention_schedule const& schedule, attention_problem const& p, engine how, progress const& report) {
  const std::int64_t all_rows = p.batch * p.heads * p.queries;
  const auto emulating = [&](std::int64_t done, std::int64_t) { report(done, 2 * all_rows); };
  const forward_result emulated = attention_forward(schedule, p, how, report ? progress(emulating) : progress{});

  output_bias result;
  error_samples samples(p.batch * p.heads, p.queries, p.head_dim);
  constexpr std::int64_t rows_at_once = 64;
  std::int64_t done = all_rows;
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t head = 0; head < p.heads; ++head) {
      const exact_attention exact = exact_head(p, mask_of(schedule, p), b, head);
      for (std::int64_t first = 0; first < p.queries; first += rows_at_once) {
        const exact_rows rows = exact.evaluate(std::size_t(first), std::size_t(std::min(rows_at_once, p.queries - first)));
        result.rows_without_keys += std::int64_t(rows.count_without_keys);
        for (std::size_t i = 0; i < rows.rows; ++i)
          for (std::size_t j = 0; j < rows.columns; ++j) {
            const double_double x = rows.o[i * rows.columns + j];
            const std::int64_t row = first + std::int64_t(i);
            const double value = to_double(emulated.o[std::size_t(p.query_strides().offset(b, head, row)) + j]);
            const std::size_t at = samples.at(b * p.heads + head, row, std::int64_t(j));
            samples.exact[at] = x.hi;
            if (std::isfinite(value) && std::isfinite(x.hi) && rows.without_keys[i] == 0) samples.error[at] = to_double(double_double{value, 0} - x);
          }
        done += std::int64_t(rows.rows);
        if (report) report(done, 2 * all_rows);
      }
    }
  result.o = summarize(samples, format::bf16);
  return result;
}

}  // namespace stickybit
