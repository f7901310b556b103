#include "stickybit/bias/gradient_bias.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "stickybit/attention/exact_head.hpp"
#include "stickybit/attention/smooth_keys.hpp"
#include "stickybit/bias/call_reference.hpp"
#include "stickybit/bias/streamed_error.hpp"
#include "stickybit/format/value.hpp"

namespace stickybit {
namespace {

/// dP and dS against their exact values while the kernel's blocks go by. The blocks of one row come one after another.
class score_errors {
 public:
  /// @param factor  of dS: the scale, where the schedule puts it there
  score_errors(call_reference const& exact, double factor)
      : p_(exact.problem()), exact_(exact), factor_(factor), dp_(p_.batch * p_.heads, p_.queries), ds_(p_.batch * p_.heads, p_.queries) {}

  void see(score_block_row const& r) {
    const auto count = std::size_t(r.visible);
    if (count == 0) return;  // the block lies behind what the row sees
    std::vector<double_double> p(count), dp(count), ds(count);
    const auto row = std::size_t(r.row);
    exact_.gradients(r.batch, r.head).evaluate_keys(row, exact_.values(r.batch, r.head).rows[row], std::size_t(r.first_column), p, dp, ds);
    const std::int64_t head = r.batch * p_.heads + r.head;
    for (std::size_t j = 0; j < count; ++j) {
      dp_.add(head, r.row, to_double(r.dp[j]), dp[j]);
      ds_.add(head, r.row, to_double(r.ds[j]), ds[j] * factor_);
    }
  }

  void finish(gradient_bias& bias) const {
    bias.dp = dp_.summary(format::f32);
    bias.ds = ds_.summary(format::bf16);
  }

 private:
  attention_problem const& p_;
  call_reference const& exact_;
  double factor_;
  streamed_error dp_, ds_;
};

/// Each row's key of the largest exact weight, [b, h, s].
std::vector<std::int64_t> winners_of(call_reference const& exact) {
  attention_problem const& p = exact.problem();
  std::vector<std::int64_t> winners;
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t head = 0; head < p.heads; ++head)
      for (gradient_row const& row : exact.values(b, head).rows) winners.push_back(std::int64_t(row.reference));
  return winners;
}

/// The row masses of the kernel's own keys: smoothed ones where the schedule smooths them.
class mass_watch {
 public:
  mass_watch(attention_schedule const& schedule, call_reference const& exact) {
    if (schedule.smooths_keys) smooth_ = smooth_keys(exact.problem(), exact.mask(), schedule.rules.scalars);
    collector_.emplace(smooth_ ? *smooth_ : exact.problem(), winners_of(exact));
  }
  void see(score_block_row const& r) { collector_->see(r); }
  [[nodiscard]] std::vector<row_mass_parts> finish(forward_result const& forward, backward_result const& g, attention_schedule const& schedule) const {
    return collector_->finish(forward, g, schedule.backward.scaled == scale_place::score_gradients);
  }

 private:
  std::optional<attention_problem> smooth_;
  std::optional<row_mass_collector> collector_;
};

void require_gradients(attention_problem const& p) {
  if (p.d_o.size() != p.q.size()) throw std::invalid_argument("bias_of_gradients: the problem has no dO: expected a tensor 'do' of q's shape");
}

/// One of `phases` parts of the work.
progress phase_of(progress const& report, int index, int phases) {
  return [&report, index, phases](std::int64_t done, std::int64_t total) {
    if (report) report(index * total + done, phases * total);
  };
}

}  // namespace

gradient_bias bias_of_gradients(attention_schedule const& schedule, call_reference const& exact, gradient_bias_options const& asked) {
  attention_problem const& p = exact.problem();
  require_gradients(p);
  static_cast<void>(dq_blocks(schedule, p));  // refuses early what has no backward pass
  const forward_result forward = attention_forward(schedule, p, asked.how, phase_of(asked.report, 0, 2));
  std::optional<score_errors> scores;
  std::optional<mass_watch> masses;
  if (asked.scores) scores.emplace(exact, schedule.backward.scaled == scale_place::score_gradients ? p.softmax_scale : 1);
  if (asked.masses) masses.emplace(schedule, exact);
  backward_options options;
  options.how = asked.how;
  options.report = phase_of(asked.report, 1, 2);
  if (asked.scores || asked.masses)
    options.scores = [&](score_block_row const& r) {
      if (scores) scores->see(r);
      if (masses) masses->see(r);
    };
  const backward_result g = attention_backward(schedule, p, forward, options);
  gradient_bias bias = exact.error_of(g);
  if (scores) scores->finish(bias);
  if (masses) bias.masses = masses->finish(forward, g, schedule);
  return bias;
}

gradient_bias bias_of_gradients(attention_schedule const& schedule, attention_problem const& p, engine how, progress const& report, bool with_scores) {
  require_gradients(p);
  static_cast<void>(dq_blocks(schedule, p));
  const call_reference exact(p, mask_of(schedule, p), call_reference::of::output_and_gradients, phase_of(report, 0, 2));
  return bias_of_gradients(schedule, exact, {.how = how, .report = phase_of(report, 1, 2), .scores = with_scores, .masses = false});
}

}  // namespace stickybit
