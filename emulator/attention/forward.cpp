#include "stickybit/attention/forward.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gemm/guarded_progress.hpp"
#include "gemm/rows_at_once.hpp"
#include "reference_rows.hpp"
#include "row_worker.hpp"
#include "stickybit/attention/exact_head.hpp"
#include "stickybit/attention/smooth_keys.hpp"
#include "stickybit/rounding/host_arithmetic.hpp"
#include "stickybit/rounding/ieee_environment.hpp"

namespace stickybit {
namespace {

using namespace detail;

template <class Worker>
std::vector<row_group> groups_of(call_plan const& plan, attention_problem const& p, std::int64_t batch, std::int64_t key_head) {
  const std::int64_t group = p.heads / p.key_heads, most = rows_at_once(group * p.queries);
  std::vector<row_group> groups;
  for (std::int64_t head = key_head * group; head < (key_head + 1) * group; ++head)
    for (std::int64_t row = 0; row < p.queries; row += groups.back().count)
      groups.push_back({batch, head, row, Worker::rows_together(plan, p, head, row, most)});
  return groups;
}

/// Every row by workers of one kind, each thread with its own.
template <class Worker>
forward_result forward_rows(call_plan const& plan, attention_problem const& p, bool keep_f32, engine how, progress const& report) {
  forward_result result;
  result.o.resize(p.q.size());
  if (keep_f32) result.o_f32.resize(p.q.size());
  result.lse.resize(std::size_t(p.batch * p.heads * p.queries));
  const std::int64_t total = p.batch * p.heads * p.queries, d = p.head_dim, stride = p.query_strides().row;
  std::int64_t done = 0;
  guarded_progress told(report);
  (void)Worker(plan, p, how);  // throws here, not inside the parallel region
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t key_head = 0; key_head < p.key_heads; ++key_head) {
      const key_value_panels panels(p, b, key_head);
      const std::vector<row_group> groups = groups_of<Worker>(plan, p, b, key_head);
#pragma omp parallel
      {
        const host::ieee_environment ieee;
        Worker worker(plan, p, how);
#pragma omp for schedule(dynamic)
        for (std::size_t item = 0; item < groups.size(); ++item) {
          if (told.stopped()) continue;
          const row_group rows = groups[item];
          const std::int64_t at = p.query_strides().offset(b, rows.head, rows.first);
          worker.run(panels, rows, result.o.data() + at, stride, result.lse.data() + (b * p.heads + rows.head) * p.queries + rows.first, null_sink{});
          for (std::int64_t i = 0; keep_f32 && i < rows.count; ++i) std::copy_n(worker.output().begin() + i * d, d, result.o_f32.begin() + at + i * stride);
          if (told.wanted()) {
#pragma omp critical(stickybit_progress)
            told(done += rows.count, total);
          }
        }
      }
      told.rethrow();
    }
  return result;
}

template <class Scalars>
forward_result forward(call_plan const& plan, attention_problem const& p, engine how, progress const& report) {
  const bool keep_f32 = plan.schedule->backward.delta_from != delta_source::bf16_output;
  if (plan.schedule->kind == schedule_kind::eager) return forward_rows<eager_worker<Scalars>>(plan, p, keep_f32, how, report);
  if (plan.schedule->forward_in_fp32) return forward_rows<row_worker<Scalars, f32_code>>(plan, p, keep_f32, how, report);
  return forward_rows<row_worker<Scalars>>(plan, p, keep_f32, how, report);
}

/// Sorts the events of a row into a forward_row_trace.
struct trace_builder {
  forward_row_trace& trace;
  void operator()(softmax_block const& e) { trace.blocks.push_back(e); }
  void operator()(softmax_weight const& e) { trace.weights.push_back(e); }
  void operator()(softmax_finished const& e) { trace.finished.push_back(e); }
  void operator()(output_block const& e) { trace.outputs.push_back(e); }
  void operator()(part_joined const& e) { trace.parts.push_back(e); }
  void operator()(output_ready const& e) { trace.ready = e; }
};

}  // namespace

forward_result attention_forward(attention_schedule const& schedule, attention_problem const& problem, engine how, progress const& report) {
  const host::ieee_environment ieee;
  if (schedule.kind == schedule_kind::exact_value) return exact_forward(schedule, problem, report);
  if (schedule.smooths_keys)
    return attention_forward(without_smoothing(schedule), smooth_keys(problem, mask_of(schedule, problem), schedule.rules.scalars), how, report);
  const call_plan plan = plan_call(schedule, problem);
  const bool flushed = schedule.rules.scalars == subnormals::flushed;
  if (how == engine::fast && host::is_ieee())
    return flushed ? forward<host_scalars<subnormals::flushed>>(plan, problem, how, report) : forward<host_scalars<subnormals::kept>>(plan, problem, how, report);
  how = engine::definition;
  return flushed ? forward<defined_scalars<subnormals::flushed>>(plan, problem, how, report) : forward<defined_scalars<subnormals::kept>>(plan, problem, how, report);
}

std::vector<bf16_code> low_outputs(attention_schedule const& schedule, forward_result const& forward) {
  const host::ieee_environment ieee;
  std::vector<bf16_code> low(forward.o_f32.size());
  for (std::size_t i = 0; i < low.size(); ++i) {
    const f32_code stored = f32_code::from_bits(std::uint32_t(host::to_bf16(forward.o_f32[i]).to_bits()) << 16 ^ 0x80000000U);
    low[i] = host::to_bf16(schedule.rules.scalars == subnormals::flushed ? host::add_ftz(forward.o_f32[i], stored) : host::add(forward.o_f32[i], stored));
  }
  return low;
}

forward_row_trace trace_forward_row(attention_schedule const& schedule, attention_problem const& p, std::int64_t batch, std::int64_t head, std::int64_t row) {
  const host::ieee_environment ieee;
  if (schedule.kind != schedule_kind::online) throw unsupported_call(fmt::format("schedule {} is not computed block by block", schedule.name));
  if (schedule.smooths_keys) return trace_forward_row(without_smoothing(schedule), smooth_keys(p, mask_of(schedule, p), schedule.rules.scalars), batch, head, row);
  const call_plan plan = plan_call(schedule, p);
  const auto inside = [](const char* what, std::int64_t index, std::int64_t size) {
    if (index < 0 || index >= size) throw std::out_of_range(fmt::format("{} {}: expected 0 to {}", what, index, size - 1));
  };
  inside("batch element", batch, p.batch);
  inside("head", head, p.heads);
  inside("row", row, p.queries);
  forward_row_trace trace;
  trace.o.resize(std::size_t(p.head_dim));
  const key_value_panels panels(p, batch, p.key_head_of(head));
  const auto run = [&](auto worker) { worker.run(panels, batch, head, row, trace.o.data(), trace_builder{trace}); };
  const auto run_with = [&]<class Operand>(Operand) {
    if (schedule.rules.scalars == subnormals::flushed) run(row_worker<defined_scalars<subnormals::flushed>, Operand>(plan, p, engine::definition));
    else run(row_worker<defined_scalars<subnormals::kept>, Operand>(plan, p, engine::definition));
  };
  if (schedule.forward_in_fp32) run_with(f32_code{});
  else run_with(bf16_code{});
  return trace;
}

}  // namespace stickybit
