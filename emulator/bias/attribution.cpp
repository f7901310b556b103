#include "stickybit/bias/attribution.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>

#include "selective_row.hpp"
#include "stickybit/bias/statistics.hpp"
#include "stickybit/exact/round_to.hpp"
#include "stickybit/rounding/ieee_environment.hpp"

namespace stickybit {
namespace {

using namespace detail;

/// The sets of points that an attribution needs, each once, and where each purpose finds its own.
struct set_list {
  std::vector<rounding_points> sets;
  std::size_t none, all;
  std::vector<std::size_t> up_to, alone, without;  // by point

  explicit set_list(std::span<rounding_point const> points) {
    rounding_points growing = rounding_points::none();
    none = place_of(growing);
    for (rounding_point p : points) {
      up_to.push_back(place_of(growing = growing.with(p)));
      alone.push_back(place_of(rounding_points::none().with(p)));
    }
    all = place_of(growing);
    for (rounding_point p : points) without.push_back(place_of(growing.without(p)));
  }

 private:
  std::size_t place_of(rounding_points set) {
    const auto found = std::ranges::find(sets, set);
    if (found != sets.end()) return std::size_t(found - sets.begin());
    sets.push_back(set);
    return sets.size() - 1;
  }
};

/// What one row contributes: sums over its columns of errors in the column's ulp.
struct row_sums {
  struct point {
    double split = 0, split_squares = 0, alone = 0, without = 0;
  };
  std::vector<point> points;
  double total = 0, total_squares = 0;
  std::int64_t counted = 0, scaled = 0;  ///< finite elements; those in a column whose exact values are not all 0
  std::int64_t left_out = 0, wrong = 0;
};

/// @param o [sets × d]: O of the row with each set  @param columns {d}, ulp 0 where all exact values are 0
row_sums sums_of(selective_row const& row, set_list const& list, std::span<double_double const> o, std::span<column_error const> columns,
                 std::span<bf16_code const> kernel_o) {
  row_sums sums;
  const std::size_t d = columns.size();
  sums.points.resize(list.up_to.size());
  for (std::size_t j = 0; j < d; ++j) {
    const auto at = [&](std::size_t set) { return o[set * d + j]; };
    const auto recomputed = round_to<format::bf16>(at(list.all));
    sums.wrong += kernel_o[j].is_finite() && row.is_ordinary(std::int64_t(j)) && recomputed != kernel_o[j];
    bool finite = kernel_o[j].is_finite() && row.visible() != 0 && row.is_ordinary(std::int64_t(j));
    for (std::size_t set = 0; set < list.sets.size(); ++set) finite = finite && std::isfinite(at(set).hi);
    (finite ? sums.counted : sums.left_out) += 1;
    const double ulp = columns[j].ulp;
    if (!finite || ulp == 0) continue;
    ++sums.scaled;
    const auto difference = [&](std::size_t with, std::size_t less) { return to_double(at(with) - at(less)) / ulp; };
    for (std::size_t i = 0; i < sums.points.size(); ++i) {
      const double split = difference(list.up_to[i], i == 0 ? list.none : list.up_to[i - 1]);
      sums.points[i].split += split;
      sums.points[i].split_squares += split * split;
      sums.points[i].alone += difference(list.alone[i], list.none);
      sums.points[i].without += difference(list.without[i], list.none);
    }
    const double total = difference(list.all, list.none);
    sums.total += total;
    sums.total_squares += total * total;
  }
  return sums;
}

/// Means over rows of the means over a row's columns, as in tensor_error.
output_attribution summarize_rows(std::vector<row_sums> const& rows, std::span<rounding_point const> points) {
  output_attribution result;
  running_moments totals;
  std::vector<running_moments> split(points.size()), alone(points.size()), without(points.size());
  std::vector<double> squares(points.size());
  double total_squares = 0, scaled = 0;
  for (row_sums const& row : rows) {
    result.counted += row.counted;
    result.left_out += row.left_out;
    if (row.scaled == 0) continue;
    const double n = double(row.scaled);
    scaled += n;
    totals.add(row.total / n);
    total_squares += row.total_squares;
    for (std::size_t i = 0; i < points.size(); ++i) {
      split[i].add(row.points[i].split / n);
      alone[i].add(row.points[i].alone / n);
      without[i].add(row.points[i].without / n);
      squares[i] += row.points[i].split_squares;
    }
  }
  scaled = std::max(1.0, scaled);
  for (std::size_t i = 0; i < points.size(); ++i)
    result.points.push_back({points[i], split[i].mean(), split[i].standard_error(), std::sqrt(squares[i] / scaled), alone[i].mean(), without[i].mean()});
  result.mean_signed_error_ulp = totals.mean();
  result.rms_error_ulp = std::sqrt(total_squares / scaled);
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
  const set_list list(points);
  const forward_result kernel = attention_forward(schedule, p, how);
  const auto d = std::size_t(p.head_dim);
  const std::int64_t group = p.heads / p.key_heads, total = p.batch * p.heads * p.queries;
  std::vector<row_sums> rows(static_cast<std::size_t>(total));
  std::int64_t done = 0;
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t key_head = 0; key_head < p.key_heads; ++key_head) {
      const selective_head data(p, b, key_head);
#pragma omp parallel
      {
        const host::ieee_environment ieee;
        selective_row worker(plan, p);
        std::vector<double_double> outputs(list.sets.size() * d);  // [sets × d]
#pragma omp for schedule(dynamic, 4)
        for (std::int64_t item = 0; item < group * p.queries; ++item) {
          const std::int64_t head = key_head * group + item / p.queries, row = item % p.queries, of_batch = b * p.heads + head;
          worker.load(data, b, head, row);
          for (std::size_t set = 0; set < list.sets.size(); ++set) std::ranges::copy(worker.evaluate(list.sets[set]), outputs.begin() + std::ptrdiff_t(set * d));
          const auto kernel_o = std::span(kernel.o).subspan(std::size_t(p.query_strides().offset(b, head, row)), d);
          rows[std::size_t(of_batch * p.queries + row)] = sums_of(worker, list, outputs, std::span(o.columns).subspan(std::size_t(of_batch) * d, d), kernel_o);
          if (report) {
#pragma omp critical(stickybit_progress)
            report(++done, total);
          }
        }
      }
    }
  std::int64_t wrong = 0;
  for (row_sums const& row : rows) wrong += row.wrong;
  if (wrong != 0) throw unsupported_call(fmt::format("attribution not available for {}: it differs from the schedule in {} codes of O", schedule.name, wrong));
  return summarize_rows(rows, points);
}

}  // namespace stickybit
