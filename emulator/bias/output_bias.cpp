#include "stickybit/bias/output_bias.hpp"

#include "stickybit/attention/exact_head.hpp"
#include "stickybit/bias/call_reference.hpp"

namespace stickybit {

output_bias bias_of_output(attention_schedule const& schedule, attention_problem const& p, engine how, progress const& report) {
  const auto half = [&](std::int64_t index) -> progress {
    return [&report, index](std::int64_t done, std::int64_t total) {
      if (report) report(index * total + done, 2 * total);
    };
  };
  const forward_result emulated = attention_forward(schedule, p, how, half(0));  // refuses first what it does not take
  return call_reference(p, mask_of(schedule, p), call_reference::of::output, half(1)).error_of(emulated);
}

output_bias bias_of_output(attention_schedule const& schedule, call_reference const& reference, engine how, progress const& report) {
  return reference.error_of(attention_forward(schedule, reference.problem(), how, report));
}

}  // namespace stickybit
