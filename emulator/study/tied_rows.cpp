#include "stickybit/study/tied_rows.hpp"

#include <cmath>

#include "stickybit/attention/exact_head.hpp"
#include "stickybit/exact/dot_products.hpp"
#include "stickybit/format/value.hpp"

namespace stickybit {

tied_rows::tied_rows(attention_problem const& p, mask_alignment mask) : exact(p.batch * p.heads, p.queries, p.head_dim) {
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t head = 0; head < p.heads; ++head) {
      const dot_products products(rows_of_head(p, b, head).k);
      const exact_rows rows = exact_head(p, mask, b, head).evaluate();
      std::vector<double_double> below(std::size_t(p.keys));
      for (std::int64_t i = 0; i < p.queries; ++i) {
        const auto q = std::span(p.q).subspan(std::size_t(p.query_strides().offset(b, head, i)), std::size_t(p.head_dim));
        const auto visible = std::span(below).first(visible_keys(mask, std::size_t(i), std::size_t(p.queries), std::size_t(p.keys)));
        products.evaluate_below_largest(q, visible);
        const auto largest = std::count_if(visible.begin(), visible.end(), [](double_double x) { return x.hi == 0; });
        tied.push_back(largest > 1);
        count += largest > 1;
        for (std::int64_t j = 0; j < p.head_dim; ++j) exact.exact[exact.at(b * p.heads + head, i, j)] = rows.o[std::size_t(i * p.head_dim + j)].hi;
      }
    }
}

tensor_error error_of_output(attention_problem const& p, forward_result const& forward, tied_rows const& rows, bool tied_only) {
  error_samples samples = rows.exact;
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t head = 0; head < p.heads; ++head)
      for (std::int64_t i = 0; i < p.queries; ++i) {
        if (tied_only && rows.tied[std::size_t((b * p.heads + head) * p.queries + i)] == 0) continue;
        for (std::int64_t j = 0; j < p.head_dim; ++j) {
          const std::size_t at = samples.at(b * p.heads + head, i, j);
          const double value = to_double(forward.o[std::size_t(p.query_strides().offset(b, head, i) + j)]);
          if (std::isfinite(value)) samples.error[at] = value - samples.exact[at];
        }
      }
  return summarize(samples, format::bf16);
}

tensor_error error_on_tied_rows(attention_schedule const& schedule, attention_problem const& p, tied_rows const& rows, engine how, progress const& report) {
  return error_of_output(p, attention_forward(schedule, p, how, report), rows, true);
}

}  // namespace stickybit
