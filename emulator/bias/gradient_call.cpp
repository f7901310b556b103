#include "gradient_call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <stdexcept>

#include "gradient_band.hpp"
#include "key_results.hpp"
#include "stickybit/attention/exact_head.hpp"
#include "stickybit/rounding/ieee_environment.hpp"

namespace stickybit::detail {
namespace {

/// One chain over all keys may be cut anywhere: into parts that fit a band.
void cut_keys(backward_plan& plan) {
  constexpr int most = 128;
  if (plan.rules->dq != dq_sum::one_chain || plan.tile.key_columns <= most) return;
  plan.tile.key_columns = most;
  plan.key_blocks = (plan.keys + most - 1) / most;
  plan.order.clear();
  for (std::int64_t block = 0; block < plan.key_blocks; ++block) plan.order.push_back(block);
}

column_panel panel_of(attention_problem const& p, std::vector<bf16_code> const& m, std::int64_t b, std::int64_t head) {
  return {m.data() + p.query_strides().offset(b, head, 0), p.queries, p.head_dim, p.query_strides().row, 1};
}
wide_panel wide_panel_of(attention_problem const& p, std::vector<bf16_code> const& m, std::int64_t b, std::int64_t head) {
  return {m.data() + p.query_strides().offset(b, head, 0), p.queries, p.head_dim, p.query_strides().row};
}

/// Bands in the order of the kernel's chains of dK and dV.
std::vector<std::int64_t> band_order(gradient_call const& call, std::int64_t rows) {
  std::vector<std::int64_t> first;
  for (std::int64_t row = 0; row < call.problem.queries; row += rows) first.push_back(row);
  if (call.schedule.backward.queries == query_order::descending) std::ranges::reverse(first);
  return first;
}

/// A small head is not worth waking threads for.
bool is_worth_threads(attention_problem const& p) noexcept { return p.queries * p.keys >= 4096; }

/// All bands of one query head.  @returns codes of dQ that differ from the kernel's
template <class Done>
std::int64_t run_head(gradient_call const& call, score_plan const& sets, gradient_band& band, gradient_error_sink& sink, Done&& band_done) {
  std::int64_t wrong = 0;
#pragma omp parallel if (is_worth_threads(call.problem)) reduction(+ : wrong)
  {
    const host::ieee_environment ieee;
    band_worker worker(call, sets);
#pragma omp for schedule(dynamic, 8)
    for (std::int64_t row = 0; row < call.problem.queries; ++row) band.take_delta(row, sink);
    for (const std::int64_t first : band_order(call, band.most_rows())) {
#pragma omp single
      band.begin(first);
      for (const std::int64_t block : call.plan.order) {
        if (!band.visits(block)) continue;
#pragma omp single
        band.begin_block(block);
#pragma omp for schedule(dynamic)
        for (std::int64_t task = 0; task < band.row_tasks(); ++task) band.take_rows(worker, task, sink);
#pragma omp for schedule(dynamic, 4)
        for (std::int64_t task = 0; task < band.product_tasks(); ++task) band.multiply(worker, task);
      }
#pragma omp for schedule(dynamic, 8)
      for (std::int64_t i = 0; i < band.rows(); ++i) wrong += band.finish_row(worker, i, sink);
#pragma omp single
      band_done();
    }
  }
  return wrong;
}

std::int64_t finish_keys(key_results const& results, attention_problem const& p, gradient_error_sink& sink) {
  std::int64_t wrong = 0;
#pragma omp parallel if (is_worth_threads(p)) reduction(+ : wrong)
  {
    const host::ieee_environment ieee;
    std::vector<double> errors;
#pragma omp for schedule(dynamic, 8)
    for (std::int64_t key = 0; key < p.keys; ++key) wrong += results.finish_key(key, errors, sink);
  }
  return wrong;
}

}  // namespace

attention_schedule const& require_attribution(attention_schedule const& schedule, attention_problem const& problem) {
  const auto refuse = [&](std::string_view reason) { throw unsupported_call(fmt::format("attribution of gradients not available for {}: {}", schedule.name, reason)); };
  if (problem.d_o.size() != problem.q.size()) throw std::invalid_argument("attribute_gradients: the problem has no dO: expected a tensor 'do' of q's shape");
  if (schedule.kind != schedule_kind::online) refuse("it does not go block by block");
  if (schedule.forward_in_fp32 || schedule.backward_in_fp32) refuse("its products are in FP32");
  if (schedule.smooths_keys) refuse("its keys are smoothed, which is no rounding");
  if (schedule.backward.mass != row_mass::kept) refuse("its dS has a row-mass correction");
  if (schedule.backward.delta == delta_sum::weighted_dp) refuse("its delta is formed from P and dP");
  static_cast<void>(plan_backward(schedule, problem));
  return schedule;
}

gradient_call::gradient_call(attention_schedule const& schedule_, call_reference const& reference_, engine how_, progress const& report)
    : schedule(require_attribution(schedule_, reference_.problem())), problem(reference_.problem()), reference(reference_), how(how_),
      forward(attention_forward(schedule, problem, how)), plan(plan_backward(schedule, problem)) {
  backward_options options;
  options.how = how;
  options.report = report;
  kernel = attention_backward(schedule, problem, forward, options);
  cut_keys(plan);
}

key_head_operands::key_head_operands(attention_problem const& p, std::int64_t b, std::int64_t key_head)
    : panels(p, b, key_head), keys(p.k.data() + p.key_strides().offset(b, key_head, 0), p.keys, p.head_dim, p.key_strides().row),
      exact_scores(rows_of_head(p, b, key_head * (p.heads / p.key_heads)).k) {}

query_head_operands::query_head_operands(attention_problem const& p, std::int64_t b, std::int64_t head)
    : q(panel_of(p, p.q, b, head)), d_o(panel_of(p, p.d_o, b, head)), wide_q(wide_panel_of(p, p.q, b, head)), wide_d_o(wide_panel_of(p, p.d_o, b, head)) {}

std::int64_t run_gradient_call(gradient_call const& call, score_plan const& sets, gradient_error_sink& sink, progress const& report) {
  attention_problem const& p = call.problem;
  const std::int64_t group = p.heads / p.key_heads;
  std::int64_t wrong = 0, done = 0;
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t key_head = 0; key_head < p.key_heads; ++key_head) {
      const key_head_operands keys(p, b, key_head);
      std::unique_ptr<head_products> products;
      key_results dk(call, sets, gradient_tensor::dk, b, key_head), dv(call, sets, gradient_tensor::dv, b, key_head);
      for (std::int64_t head = key_head * group; head < (key_head + 1) * group; ++head) {
        const query_head_operands queries(p, b, head);
        products = std::make_unique<head_products>(sets, std::size_t(p.keys * p.head_dim));
        gradient_band band(call, sets, keys, queries, b, head, *products);
        const std::int64_t bands = (p.queries + band.most_rows() - 1) / band.most_rows();
        wrong += run_head(call, sets, band, sink, [&] {
          ++done;
          if (report) report(done, p.batch * p.heads * bands);
        });
        dk.add_head(head, *products);
        dv.add_head(head, *products);
      }
      wrong += finish_keys(dk, p, sink) + finish_keys(dv, p, sink);
    }
  return wrong;
}

}  // namespace stickybit::detail
