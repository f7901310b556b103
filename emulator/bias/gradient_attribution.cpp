#include "stickybit/bias/gradient_attribution.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "attribution_sums.hpp"
#include "gradient_call.hpp"
#include "selective_delta.hpp"
#include "stickybit/attention/exact_head.hpp"
#include "stickybit/format/value.hpp"

namespace stickybit {
namespace {

using namespace detail;

constexpr std::array tensor_names{"delta", "dp", "ds", "dq", "dk", "dv"};

/// The rows of one tensor.
struct tensor_rows {
  std::vector<backward_point> points;
  set_list<backward_point, backward_points> list;
  std::vector<attributed_row> rows;
  std::vector<column_error> const* columns = nullptr;  ///< with the units; null where rows have their own

  tensor_rows(gradient_call const& call, gradient_tensor tensor, std::int64_t count, std::vector<column_error> const* columns_)
      : points(points_of(call.schedule.backward, call.grouped(), tensor)), list(points), rows(std::size_t(count)), columns(columns_) {}

  [[nodiscard]] tensor_attribution summary(std::int64_t rows_of_head) const {
    std::vector<std::string> names;
    for (backward_point p : points) names.emplace_back(name_of(p));
    return summarize(rows, rows_of_head, names);
  }
};

class attribution_sink final : public gradient_error_sink {
 public:
  attribution_sink(gradient_call const& call, gradient_bias const& bias) : p_(call.problem) {
    const std::int64_t queries = p_.batch * p_.heads * p_.queries, keys = p_.batch * p_.key_heads * p_.keys;
    const std::array<std::vector<column_error> const*, gradient_tensors> columns{&bias.delta.columns, nullptr, nullptr, &bias.dq.columns, &bias.dk.columns,
                                                                                 &bias.dv.columns};
    for (std::size_t t = 0; t < gradient_tensors; ++t) tensors_.emplace_back(call, gradient_tensor(t), t < 4 ? queries : keys, columns[t]);
    for (std::size_t t : {0, 3, 4, 5}) {
      const std::int64_t expected = p_.batch * (t < 4 ? p_.heads : p_.key_heads) * (t == 0 ? 1 : p_.head_dim);
      if (std::ssize(*columns[t]) != expected)
        throw std::invalid_argument(
            fmt::format("attribute_gradients: the bias of {} has {} columns: expected {}, of this call", tensor_names[t], columns[t]->size(), expected));
    }
    for (auto* squares : {&dp_squares_, &ds_squares_}) squares->resize(std::size_t(queries));
  }

  [[nodiscard]] std::array<std::vector<backward_points>, gradient_tensors> sets() const {
    std::array<std::vector<backward_points>, gradient_tensors> all;
    for (std::size_t t = 0; t < gradient_tensors; ++t) all[t] = tensors_[t].list.sets;
    return all;
  }

  void take_delta(std::int64_t batch, std::int64_t head, std::int64_t row, std::span<double const, 4> errors) override {
    tensor_rows& t = of(gradient_tensor::delta);
    std::array<double, 4> by_set{};
    for (std::size_t set = 0; set < t.list.sets.size(); ++set) by_set[set] = errors[delta_values::index(t.list.sets[set])];
    t.rows[query(batch, head, row)].add(t.list, by_set.data(), 1, (*t.columns)[std::size_t(batch * p_.heads + head)].ulp, 1);
  }

  void take_scores(score_errors const& e) override {
    const std::size_t row = query(e.batch, e.head, e.row), n = e.exact_p.size();
    tensor_rows &dp = of(gradient_tensor::dp), &ds = of(gradient_tensor::ds);
    for (std::size_t j = 0; j < n; ++j) {
      const std::array<double, 2> dp_errors{0, e.dp_error[j]};
      add(dp, dp_squares_, row, dp_errors.data(), 1, 1, e.exact_dp[j]);
      add(ds, ds_squares_, row, e.ds_errors + j, n, e.exact_p[j], e.exact_ds[j]);
    }
  }

  void take_dq(std::int64_t batch, std::int64_t head, std::int64_t row, std::span<double const> errors, std::span<double const> direction) override {
    add_columns(of(gradient_tensor::dq), query(batch, head, row), std::size_t(batch * p_.heads + head), errors, direction);
  }
  void take_key(gradient_tensor tensor, std::int64_t batch, std::int64_t key_head, std::int64_t key, std::span<double const> errors,
                std::span<double const> direction) override {
    const std::int64_t head = batch * p_.key_heads + key_head;
    add_columns(of(tensor), std::size_t(head * p_.keys + key), std::size_t(head), errors, direction);
  }

  [[nodiscard]] gradient_attribution result() {
    put_in_row_units<format::f32>(of(gradient_tensor::dp), dp_squares_);
    put_in_row_units<format::bf16>(of(gradient_tensor::ds), ds_squares_);
    std::array<tensor_attribution, gradient_tensors> all;
    for (std::size_t t = 0; t < gradient_tensors; ++t) all[t] = tensors_[t].summary(t < 4 ? p_.queries : p_.keys);
    return {all[0], all[1], all[2], all[3], all[4], all[5]};
  }

 private:
  tensor_rows& of(gradient_tensor tensor) { return tensors_[std::size_t(tensor)]; }
  [[nodiscard]] std::size_t query(std::int64_t batch, std::int64_t head, std::int64_t row) const noexcept {
    return std::size_t((batch * p_.heads + head) * p_.queries + row);
  }

  /// One element of dP or dS, in its own unit for now.
  static void add(tensor_rows& t, std::vector<double>& squares, std::size_t row, double const* errors, std::size_t stride, double direction, double exact) {
    attributed_row& sums = t.rows[row];
    const std::int64_t before = sums.counted;
    sums.add(t.list, errors, stride, 1, direction);
    if (sums.counted != before) squares[row] += exact * exact;
  }

  void add_columns(tensor_rows& t, std::size_t row, std::size_t head, std::span<double const> errors, std::span<double const> direction) {
    for (std::size_t j = 0; j < direction.size(); ++j)
      t.rows[row].add(t.list, errors.data() + j, direction.size(), (*t.columns)[head * direction.size() + j].ulp, direction[j]);
  }

  /// The ulp at the root mean square of the row's exact values, as in streamed_error.
  template <format F>
  static void put_in_row_units(tensor_rows& t, std::span<double const> squares) {
    for (std::size_t i = 0; i < t.rows.size(); ++i)
      t.rows[i].in_units_of(squares[i] == 0 ? 0 : ulp_at<F>(std::sqrt(squares[i] / double(t.rows[i].counted))));
  }

  attention_problem const& p_;
  std::vector<tensor_rows> tensors_;
  std::vector<double> dp_squares_, ds_squares_;  // of exact values, by row
};

/// Keeps everything.
class storing_sink final : public gradient_error_sink {
 public:
  storing_sink(attention_problem const& p, backward_points active) : p_(p), active_(active) {
    const auto rows = std::size_t(p.batch * p.heads * p.queries), scores = rows * std::size_t(p.keys);
    for (auto [m, size] : {std::pair{&errors.delta, rows}, {&errors.dp, scores}, {&errors.ds, scores}, {&errors.dq, p.q.size()}, {&errors.dk, p.k.size()}, {&errors.dv, p.v.size()}})
      m->assign(size, std::numeric_limits<double>::quiet_NaN());
  }

  void take_delta(std::int64_t batch, std::int64_t head, std::int64_t row, std::span<double const, 4> by_set) override {
    errors.delta[query(batch, head, row)] = by_set[delta_values::index(active_)];
  }
  void take_scores(score_errors const& e) override {
    const std::size_t to = query(e.batch, e.head, e.row) * std::size_t(p_.keys) + std::size_t(e.first);
    for (std::size_t j = 0; j < e.exact_p.size(); ++j) {
      errors.dp[to + j] = active_.has(backward_point::dp) ? e.dp_error[j] : 0;
      errors.ds[to + j] = e.ds_errors[j];
    }
  }
  void take_dq(std::int64_t batch, std::int64_t head, std::int64_t row, std::span<double const> of, std::span<double const>) override {
    std::ranges::copy(of, errors.dq.begin() + p_.query_strides().offset(batch, head, row));
  }
  void take_key(gradient_tensor tensor, std::int64_t batch, std::int64_t key_head, std::int64_t key, std::span<double const> of,
                std::span<double const>) override {
    std::ranges::copy(of, (tensor == gradient_tensor::dk ? errors.dk : errors.dv).begin() + p_.key_strides().offset(batch, key_head, key));
  }

  selective_errors errors;

 private:
  [[nodiscard]] std::size_t query(std::int64_t batch, std::int64_t head, std::int64_t row) const noexcept {
    return std::size_t((batch * p_.heads + head) * p_.queries + row);
  }

  attention_problem const& p_;
  backward_points active_;
};

/// Runs the call and refuses what is not the kernel's.
void run(gradient_call const& call, std::array<std::vector<backward_points>, gradient_tensors> const& sets, gradient_error_sink& sink, progress const& report) {
  const score_plan plan(call.schedule.backward, call.grouped(), sets);
  const std::int64_t wrong = run_gradient_call(call, plan, sink, report);
  if (wrong != 0)
    throw unsupported_call(fmt::format("attribution of gradients not available for {}: it differs from the schedule in {} codes of dQ, dK and dV", call.schedule.name, wrong));
}

}  // namespace

gradient_attribution attribute_gradients(attention_schedule const& schedule, call_reference const& reference, gradient_bias const& bias, engine how,
                                         progress const& report) {
  // The kernel's own pass takes about a sixth of the time.
  const gradient_call call(schedule, reference, how, [&](std::int64_t done, std::int64_t total) {
    if (report) report(done, 6 * total);
  });
  attribution_sink sink(call, bias);
  run(call, sink.sets(), sink, [&](std::int64_t done, std::int64_t total) {
    if (report) report(total + 5 * done, 6 * total);
  });
  return sink.result();
}

gradient_attribution attribute_gradients(attention_schedule const& schedule, attention_problem const& problem, gradient_bias const& bias, engine how,
                                         progress const& report) {
  static_cast<void>(require_attribution(schedule, problem));
  const auto part = [&](std::int64_t first, std::int64_t parts) -> progress {
    return [&report, first, parts](std::int64_t done, std::int64_t total) {
      if (report) report(first * total + parts * done, 4 * total);
    };
  };
  const call_reference reference(problem, mask_of(schedule, problem), call_reference::of::output_and_gradients, part(0, 1));
  return attribute_gradients(schedule, reference, bias, how, part(1, 3));
}

std::vector<backward_point> backward_points_of(attention_schedule const& schedule, attention_problem const& problem, std::string_view tensor) {
  static_cast<void>(require_attribution(schedule, problem));
  const auto found = std::ranges::find(tensor_names, tensor);
  if (found == tensor_names.end())
    throw std::invalid_argument(fmt::format("backward_points_of: no tensor '{}': expected {}", tensor, fmt::join(tensor_names, ", ")));
  return points_of(schedule.backward, problem.heads != problem.key_heads, gradient_tensor(found - tensor_names.begin()));
}

selective_errors gradient_errors_with(attention_schedule const& schedule, attention_problem const& problem, backward_points active, engine how) {
  static_cast<void>(require_attribution(schedule, problem));
  const call_reference reference(problem, mask_of(schedule, problem));
  const gradient_call call(schedule, reference, how, {});
  storing_sink sink(problem, active);
  std::array<std::vector<backward_points>, gradient_tensors> sets;
  sets.fill({active});
  run(call, sets, sink, {});
  return std::move(sink.errors);
}

}  // namespace stickybit
