#include "stickybit/bias/attribution.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>

#include "attribution_sums.hpp"
#include "selective_row.hpp"
#include "stickybit/exact/round_to.hpp"
#include "stickybit/format/value.hpp"
#include "stickybit/rounding/ieee_environment.hpp"

namespace stickybit {
namespace {

using namespace detail;

using output_sets = set_list<rounding_point, rounding_points>;

/// What one row contributes.
struct output_row {
  attributed_row sums;
  std::int64_t wrong = 0;  ///< codes that differ from the kernel's
};

/// @param o [sets × d]: O of the row with each set  @param columns {d}, ulp 0 where all exact values are 0  @param d_o  {d}, or empty
output_row sums_of(selective_row const& row, output_sets const& list, std::span<double_double const> o, std::span<column_error const> columns,
                   std::span<bf16_code const> kernel_o, std::span<bf16_code const> d_o) {
  output_row result;
  const std::size_t d = columns.size();
  std::vector<double> errors(list.count);
  for (std::size_t j = 0; j < d; ++j) {
    const auto at = [&](std::size_t set) { return o[set * d + j]; };
    const bool ordinary = kernel_o[j].is_finite() && row.is_ordinary(std::int64_t(j));
    result.wrong += ordinary && round_to<format::bf16>(at(list.all)) != kernel_o[j];
    for (std::size_t set = 0; set < list.count; ++set)
      errors[set] = ordinary && row.visible() != 0 ? to_double(at(set) - at(list.none)) : std::numeric_limits<double>::quiet_NaN();
    result.sums.add(list, errors.data(), 1, columns[j].ulp, d_o.empty() || !d_o[j].is_finite() ? 0 : to_double(d_o[j]));
  }
  return result;
}

output_attribution summary_of(std::vector<output_row> const& rows, std::int64_t rows_of_head, std::span<rounding_point const> points) {
  std::vector<attributed_row> sums;
  for (output_row const& row : rows) sums.push_back(row.sums);
  const std::vector<std::string> names(points.size());
  const tensor_attribution a = summarize(sums, rows_of_head, names);
  output_attribution result{{}, a.mean_signed_error_ulp, a.rms_error_ulp, a.along_direction, a.counted, a.left_out};
  for (std::size_t i = 0; i < points.size(); ++i) {
    attributed_point const& p = a.points[i];
    result.points.push_back({points[i], p.mean_signed_error_ulp, p.standard_error_ulp, p.rms_error_ulp, p.alone_mean_signed_error_ulp,
                             p.without_mean_signed_error_ulp, p.along_direction, p.alone_along_direction, p.without_along_direction});
  }
  return result;
}

}  // namespace

std::vector<rounding_point> rounding_points_of(attention_schedule const& schedule, attention_problem const& problem) {
  const call_plan plan = plan_selective(schedule, problem);
  std::vector<rounding_point> points(all_rounding_points.begin(), all_rounding_points.end());
  if (plan.rules->output != output_form::round_then_divide) std::erase(points, rounding_point::o_bar_cast);
  if (plan.splits == 1) std::erase(points, rounding_point::join);
  return points;
}

struct selective_output::state {
  attention_schedule schedule;
  attention_problem const& problem;
  call_plan plan;
  selective_row row;
  std::optional<selective_head> head = {};
  std::int64_t batch = -1, key_head = -1;

  state(attention_schedule const& s, attention_problem const& p) : schedule(s), problem(p), plan(plan_selective(schedule, p)), row(plan, p) {}
};

selective_output::selective_output(attention_schedule const& schedule, attention_problem const& problem) : state_(new state(schedule, problem)) {}
selective_output::~selective_output() = default;

std::vector<double_double> selective_output::row(std::int64_t batch, std::int64_t head, std::int64_t row, rounding_points active) {
  attention_problem const& p = state_->problem;
  if (batch < 0 || batch >= p.batch || head < 0 || head >= p.heads || row < 0 || row >= p.queries)
    throw std::out_of_range(fmt::format("no row {} of head {} of batch element {}", row, head, batch));
  const std::int64_t key_head = p.key_head_of(head);
  if (batch != state_->batch || key_head != state_->key_head) state_->head.emplace(p, batch, key_head);
  state_->batch = batch;
  state_->key_head = key_head;
  state_->row.load(*state_->head, batch, head, row);
  const auto o = state_->row.evaluate(active);
  return {o.begin(), o.end()};
}

output_attribution attribute_output(attention_schedule const& schedule, attention_problem const& p, tensor_error const& o, engine how, progress const& report) {
  const call_plan plan = plan_selective(schedule, p);
  const std::vector<rounding_point> points = rounding_points_of(schedule, p);
  const output_sets list(points);
  const forward_result kernel = attention_forward(schedule, p, how);
  const auto d = std::size_t(p.head_dim);
  const std::int64_t group = p.heads / p.key_heads, total = p.batch * p.heads * p.queries;
  std::vector<output_row> rows(static_cast<std::size_t>(total));
  std::int64_t done = 0;
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t key_head = 0; key_head < p.key_heads; ++key_head) {
      const selective_head data(p, b, key_head);
#pragma omp parallel
      {
        const host::ieee_environment ieee;
        selective_row worker(plan, p);
        std::vector<double_double> outputs(list.count * d);  // [sets × d]
#pragma omp for schedule(dynamic, 4)
        for (std::int64_t item = 0; item < group * p.queries; ++item) {
          const std::int64_t head = key_head * group + item / p.queries, row = item % p.queries, of_batch = b * p.heads + head;
          worker.load(data, b, head, row);
          for (std::size_t set = 0; set < list.count; ++set) std::ranges::copy(worker.evaluate(list.sets[set]), outputs.begin() + std::ptrdiff_t(set * d));
          const auto at = std::size_t(p.query_strides().offset(b, head, row));
          const auto d_o = p.d_o.empty() ? std::span<bf16_code const>{} : std::span(p.d_o).subspan(at, d);
          rows[std::size_t(of_batch * p.queries + row)] =
              sums_of(worker, list, outputs, std::span(o.columns).subspan(std::size_t(of_batch) * d, d), std::span(kernel.o).subspan(at, d), d_o);
          if (report) {
#pragma omp critical(stickybit_progress)
            report(++done, total);
          }
        }
      }
    }
  std::int64_t wrong = 0;
  for (output_row const& row : rows) wrong += row.wrong;
  if (wrong != 0) throw unsupported_call(fmt::format("attribution not available for {}: it differs from the schedule in {} codes of O", schedule.name, wrong));
  return summary_of(rows, p.queries, points);
}

tensor_attribution by_name(output_attribution const& o) {
  tensor_attribution result{{}, o.mean_signed_error_ulp, o.rms_error_ulp, o.along_direction, o.counted, o.left_out};
  for (point_bias const& p : o.points)
    result.points.push_back({std::string(name_of(p.point)), p.mean_signed_error_ulp, p.standard_error_ulp, p.rms_error_ulp, p.alone_mean_signed_error_ulp,
                             p.without_mean_signed_error_ulp, p.along_direction, p.alone_along_direction, p.without_along_direction});
  return result;
}

}  // namespace stickybit
