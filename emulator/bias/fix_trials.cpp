#include "stickybit/bias/fix_trials.hpp"

#include "stickybit/fix/fix.hpp"

namespace stickybit {

tensor_error const* call_errors::find(std::string_view tensor) const noexcept {
  tensor_error const* found = nullptr;
  if (tensor == "o" && output) found = &output->o;
  if (gradients) {
    if (tensor == "delta") found = &gradients->delta;
    if (tensor == "dp") found = &gradients->dp;
    if (tensor == "ds") found = &gradients->ds;
    if (tensor == "dq") found = &gradients->dq;
    if (tensor == "dk") found = &gradients->dk;
    if (tensor == "dv") found = &gradients->dv;
  }
  return found == nullptr || found->counted == 0 ? nullptr : found;
}

std::vector<fix_trial> try_fixes(attention_schedule const& schedule, call_reference const& reference, std::vector<std::string> const& fixes, engine how,
                                 progress const& report) {
  std::vector<fix_trial> trials;
  const bool backward = reference.has_gradients() && (!schedule.backward_tiles.empty() || schedule.kind != schedule_kind::online);
  std::int64_t done = 0;
  for (std::string const& fix : fixes) {
    try {
      const attention_schedule fixed = with_fixes(schedule, fix);
      const forward_result forward = attention_forward(fixed, reference.problem(), how);
      fix_trial trial{fix, {.output = reference.error_of(forward), .gradients = {}}};
      backward_options options;
      options.how = how;
      if (backward) trial.errors.gradients = reference.error_of(attention_backward(fixed, reference.problem(), forward, options));
      trials.push_back(std::move(trial));
    } catch (invalid_fix const&) {
    } catch (unsupported_call const&) {
    }
    if (report) report(++done, std::int64_t(fixes.size()));
  }
  return trials;
}

}  // namespace stickybit
