#include "stickybit/bias/row_mass.hpp"

#include <cmath>

#include "stickybit/bias/statistics.hpp"
#include "stickybit/study/gradient_errors.hpp"

namespace stickybit {

std::vector<row_mass_causes> causes_of_row_mass(attention_schedule const& schedule, attention_problem const& p, exact_call const& exact, engine how) {
  if (schedule.kind != schedule_kind::online) throw unsupported_call("the row mass of dS is split for schedules that go block by block");
  const forward_result forward = attention_forward(schedule, p, how);
  row_mass_collector collector(p);
  backward_options options;
  options.how = how;
  options.scores = [&](score_block_row const& r) { collector.see(r); };
  const backward_result g = attention_backward(schedule, p, forward, options);
  const std::vector<row_mass_parts> rows = collector.finish(forward, g, schedule.backward.scaled == scale_place::score_gradients);

  std::vector<row_mass_causes> all;
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t head = 0; head < p.heads; ++head) {
      std::vector<double> total, output, arithmetic, cast;
      for (std::int64_t row = 0; row < p.queries; ++row) {
        row_mass_parts const& r = rows[std::size_t((b * p.heads + head) * p.queries + row)];
        double dq = 0;
        for (std::int64_t c = 0; c < p.head_dim; ++c) {
          const double x = exact.heads[std::size_t(b * p.heads + head)].dq[std::size_t(row * p.head_dim + c)].hi;
          dq += x * x;
        }
        const double unit = p.softmax_scale * r.weighted_keys / std::sqrt(dq);
        if (dq == 0 || !std::isfinite(unit * r.mass)) continue;
        total.push_back(std::fabs(r.mass) * unit);
        output.push_back(std::fabs(r.rounded_output) * unit);
        arithmetic.push_back(std::fabs(r.different_arithmetic) * unit);
        cast.push_back(std::fabs(r.score_cast) * unit);
      }
      all.push_back({b, head, median(total), median(output), median(arithmetic), median(cast)});
    }
  return all;
}

}  // namespace stickybit
