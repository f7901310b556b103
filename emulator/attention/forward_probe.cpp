#include "stickybit/attention/forward_probe.hpp"

#include <fmt/format.h>

#include <map>

#include "row_worker.hpp"
#include "stickybit/rounding/ieee_environment.hpp"

namespace stickybit {

struct forward_probe::state {
  attention_problem const& problem;
  std::vector<probed_row> rows;
  std::map<std::pair<std::int64_t, std::int64_t>, detail::key_value_panels> panels;  // by batch and key head
  std::map<std::string, std::vector<f32_code>, std::less<>> scores;                  // by unit: S[rows × keys]

  detail::key_value_panels const& panels_of(probed_row r) const { return panels.at({r.batch, problem.key_head_of(r.head)}); }

  std::vector<f32_code> const& scores_of(machine_unit const& unit) {
    const auto known = scores.find(unit.name);
    if (known != scores.end()) return known->second;
    std::vector<f32_code> s(rows.size() * std::size_t(problem.keys), f32_code::zero());
#pragma omp parallel
    {
      const host::ieee_environment ieee;
      rows_times_panel product(unit, engine::fast);
#pragma omp for schedule(dynamic, 4)
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const auto q = std::span(problem.q).subspan(std::size_t(problem.query_strides().offset(rows[i].batch, rows[i].head, rows[i].row)), std::size_t(problem.head_dim));
        product.accumulate(q, panels_of(rows[i]).keys, 0, 0, std::span(s).subspan(i * std::size_t(problem.keys), std::size_t(problem.keys)));
      }
    }
    return scores.emplace(std::string(unit.name), std::move(s)).first->second;
  }
};

forward_probe::forward_probe(attention_problem const& problem, std::vector<probed_row> rows) : state_(new state{problem, std::move(rows), {}, {}}) {
  for (probed_row r : state_->rows) {
    if (r.batch < 0 || r.batch >= problem.batch || r.head < 0 || r.head >= problem.heads || r.row < 0 || r.row >= problem.queries)
      throw std::out_of_range(fmt::format("no row {} of head {} of batch element {}", r.row, r.head, r.batch));
    const std::int64_t key_head = problem.key_head_of(r.head);
    state_->panels.try_emplace({r.batch, key_head}, problem, r.batch, key_head);
  }
}

forward_probe::~forward_probe() = default;

std::vector<probed_row> const& forward_probe::rows() const noexcept { return state_->rows; }

forward_result forward_probe::run(attention_schedule const& schedule) { return run(schedule, 0, state_->rows.size()); }

forward_result forward_probe::run(attention_schedule const& schedule, std::size_t first, std::size_t count) {
  const host::ieee_environment ieee;
  if (schedule.kind != schedule_kind::online) throw unsupported_call(fmt::format("schedule {} is not computed block by block", schedule.name));
  attention_problem const& p = state_->problem;
  const detail::call_plan plan = detail::plan_call(schedule, p);
  const engine how = host::is_ieee() ? engine::fast : engine::definition;
  std::vector<f32_code> const& scores = state_->scores_of(*plan.unit);
  forward_result result;
  result.o.resize(count * std::size_t(p.head_dim));
  result.lse.resize(count);
  const auto all_rows = [&]<class Scalars>(Scalars) {
#pragma omp parallel
    {
      const host::ieee_environment in_this_thread;
      detail::row_worker<Scalars> worker(plan, p, how);
#pragma omp for schedule(dynamic, 2)
      for (std::size_t i = 0; i < count; ++i) {
        const probed_row r = state_->rows[first + i];
        const auto s = std::span(scores).subspan((first + i) * std::size_t(p.keys), std::size_t(p.keys));
        result.lse[i] = worker.run(state_->panels_of(r), r.batch, r.head, r.row, result.o.data() + i * std::size_t(p.head_dim), null_sink{}, s);
      }
    }
  };
  if (schedule.rules.scalars == subnormals::flushed) all_rows(host_scalars<subnormals::flushed>{});
  else all_rows(host_scalars<subnormals::kept>{});
  return result;
}

}  // namespace stickybit
