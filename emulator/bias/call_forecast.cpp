#include "stickybit/bias/call_forecast.hpp"

#include "../attention/call_plan.hpp"
#include "stickybit/attention/exact_head.hpp"

namespace stickybit {

std::vector<forecast> forecast_call(attention_schedule const& schedule, attention_problem const& p, progress const& report) {
  const std::int64_t group = p.heads / p.key_heads, parts = detail::plan_call(schedule, p).splits;
  const bool gradients = !p.d_o.empty() && predicts_gradients(schedule);
  std::vector<forecast> all;
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t key_head = 0; key_head < p.key_heads; ++key_head) {
      forecast_inputs in;
      in.softmax_scale = p.softmax_scale, in.mask = mask_of(schedule, p), in.key_parts = parts;
      for (std::int64_t head = key_head * group; head < (key_head + 1) * group; ++head) {
        const head_rows rows = rows_of_head(p, b, head);
        in.k = rows.k, in.v = rows.v;
        in.q.push_back(rows.q);
        if (gradients) in.d_o.push_back(rows.d_o);
      }
      all.push_back(predict_bias(schedule, in));
      if (report) report(std::int64_t(all.size()), p.batch * p.key_heads);
    }
  return all;
}

}  // namespace stickybit
