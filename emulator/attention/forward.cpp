#include "stickybit/attention/forward.hpp"

#include <fmt/format.h>

#include "reference_rows.hpp"
#include "row_worker.hpp"
#include "stickybit/attention/exact_head.hpp"
#include "stickybit/attention/smooth_keys.hpp"

namespace stickybit {
namespace {

using namespace detail;

/// Every row by workers of one kind, each thread with its own; Rows makes them.
template <class MakeWorker>
forward_result forward_rows(attention_problem const& p, bool keep_f32, progress const& report, MakeWorker make_worker) {
  forward_result result;
  result.o.resize(p.q.size());
  if (keep_f32) result.o_f32.resize(p.q.size());
  result.lse.resize(std::size_t(p.batch * p.heads * p.queries));
  const std::int64_t group = p.heads / p.key_heads, total = p.batch * p.heads * p.queries;
  std::int64_t done = 0;
  (void)make_worker();  // throws here, not inside the parallel region
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t key_head = 0; key_head < p.key_heads; ++key_head) {
      const key_value_panels panels(p, b, key_head);
#pragma omp parallel
      {
        auto worker = make_worker();
#pragma omp for schedule(dynamic, 8)
        for (std::int64_t item = 0; item < group * p.queries; ++item) {
          const std::int64_t head = key_head * group + item / p.queries, row = item % p.queries;
          bf16_code* o = result.o.data() + p.query_strides().offset(b, head, row);
          result.lse[std::size_t((b * p.heads + head) * p.queries + row)] = worker.run(panels, b, head, row, o, null_sink{});
          if (keep_f32) std::copy(worker.output().begin(), worker.output().end(), result.o_f32.begin() + p.query_strides().offset(b, head, row));
          if (report) {
#pragma omp critical(stickybit_progress)
            report(++done, total);
          }
        }
      }
    }
  return result;
}

template <class Scalars>
forward_result forward(call_plan const& plan, attention_problem const& p, engine how, progress const& report) {
  const bool keep_f32 = plan.schedule->backward.delta_from != delta_source::bf16_output;
  if (plan.schedule->kind == schedule_kind::eager) return forward_rows(p, keep_f32, report, [&] { return eager_worker<Scalars>(plan, p, how); });
  if (plan.schedule->forward_in_fp32) return forward_rows(p, keep_f32, report, [&] { return row_worker<Scalars, f32_code>(plan, p, how); });
  return forward_rows(p, keep_f32, report, [&] { return row_worker<Scalars>(plan, p, how); });
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

forward_row_trace trace_forward_row(attention_schedule const& schedule, attention_problem const& p, std::int64_t batch, std::int64_t head, std::int64_t row) {
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
