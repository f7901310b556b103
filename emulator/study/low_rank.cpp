#include "stickybit/study/low_rank.hpp"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

#include "stickybit/bias/statistics.hpp"
#include "stickybit/format/value.hpp"

namespace stickybit {
namespace {

double dot(std::span<double const> a, std::span<double const> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

double norm(std::span<double const> a) { return std::sqrt(dot(a, a)); }

/// Makes the length 1; false for 0.
bool normalize(std::vector<double>& a) {
  const double length = norm(a);
  if (length == 0) return false;
  for (double& x : a) x /= length;
  return true;
}

/// Σ_i of_row(i)ᵀ x_i for one head: [d × d_model].
template <class Row>
std::vector<double> times_tokens(training_step const& s, std::int64_t batch, Row of_row) {
  const std::int64_t d = s.problem.head_dim;
  std::vector<double> result(std::size_t(d * s.d_model));
  for (std::int64_t i = 0; i < s.problem.queries; ++i) {
    const double* const x = s.x.data() + (batch * s.problem.queries + i) * s.d_model;
    for (std::int64_t c = 0; c < d; ++c) {
      const double value = of_row(i, c);
      for (std::int64_t m = 0; m < s.d_model; ++m) result[std::size_t(c * s.d_model + m)] += value * x[m];
    }
  }
  return result;
}

/// PK of one head in double, to about 2^-50.
void add_weighted_keys(attention_problem const& p, exact_call const& exact, std::int64_t b, std::int64_t head, std::vector<double>& to) {
  std::vector<double> weights(static_cast<std::size_t>(p.keys));
  for (std::int64_t i = 0; i < p.queries; ++i) {
    const auto at = std::size_t(p.query_strides().offset(b, head, i));
    const std::size_t visible = visible_keys(exact.mask, std::size_t(i), std::size_t(p.queries), std::size_t(p.keys));
    double largest = -INFINITY, sum = 0;
    for (std::size_t j = 0; j < visible; ++j) {
      const auto key = std::size_t(p.key_strides().offset(b, p.key_head_of(head), std::int64_t(j)));
      weights[j] = 0;
      for (std::size_t c = 0; c < std::size_t(p.head_dim); ++c) weights[j] += to_double(p.q[at + c]) * to_double(p.k[key + c]);
      largest = std::max(largest, weights[j]);
    }
    for (std::size_t j = 0; j < visible; ++j) sum += weights[j] = exp(double_double{p.softmax_scale * (weights[j] - largest), 0}).hi;
    for (std::size_t j = 0; j < visible; ++j) {
      const auto key = std::size_t(p.key_strides().offset(b, p.key_head_of(head), std::int64_t(j)));
      for (std::size_t c = 0; c < std::size_t(p.head_dim); ++c) to[at + c] += weights[j] / sum * to_double(p.k[key + c]);
    }
  }
}

}  // namespace

exact_step::exact_step(training_step step_, mask_alignment mask) : step(std::move(step_)), gradients(step.problem, mask), weighted_keys(step.problem.q.size()) {
  attention_problem const& p = step.problem;
  if (std::int64_t(step.x.size()) != p.batch * p.queries * step.d_model)
    throw std::invalid_argument(fmt::format("x has {} elements: expected {} tokens of {} features", step.x.size(), p.batch * p.queries, step.d_model));
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t head = 0; head < p.heads; ++head) add_weighted_keys(p, gradients, b, head, weighted_keys);
}

std::vector<weight_gradient> weight_gradients(attention_schedule const& schedule, exact_step const& exact, engine how) {
  attention_problem const& p = exact.step.problem;
  backward_options options;
  options.how = how;
  const backward_result g = attention_backward(schedule, p, attention_forward(schedule, p, how), options);
  std::vector<weight_gradient> all;
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t head = 0; head < p.heads; ++head) {
      std::vector<double_double> const& dq = exact.gradients.heads[std::size_t(b * p.heads + head)].dq;
      const auto at = [&](std::int64_t i, std::int64_t c) { return std::size_t(p.query_strides().offset(b, head, i) + c); };
      const auto exact_at = [&](std::int64_t i, std::int64_t c) { return dq[std::size_t(i * p.head_dim + c)]; };
      all.push_back({.exact = times_tokens(exact.step, b, [&](std::int64_t i, std::int64_t c) { return to_double(exact_at(i, c)); }),
                     .error = times_tokens(exact.step, b, [&](std::int64_t i, std::int64_t c) { return to_double(double_double{to_double(g.dq[at(i, c)]), 0} - exact_at(i, c)); }),
                     .direction = times_tokens(exact.step, b, [&](std::int64_t i, std::int64_t c) { return exact.weighted_keys[at(i, c)]; })});
    }
  return all;
}

rank_one leading_pair(std::span<double const> matrix, std::int64_t rows, std::int64_t columns) {
  rank_one r{std::vector<double>(std::size_t(rows)), std::vector<double>(std::size_t(columns))};
  const auto row = [&](std::int64_t i) { return matrix.subspan(std::size_t(i * columns), std::size_t(columns)); };
  std::int64_t start = 0;
  for (std::int64_t i = 1; i < rows; ++i)
    if (norm(row(i)) > norm(row(start))) start = i;
  r.right.assign(row(start).begin(), row(start).end());
  if (!normalize(r.right)) return r;
  constexpr int most = 1000;
  for (int round = 0; round < most; ++round) {
    for (std::int64_t i = 0; i < rows; ++i) r.left[std::size_t(i)] = dot(row(i), r.right);
    const double size = norm(r.left);
    normalize(r.left);
    std::ranges::fill(r.right, 0.0);
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t c = 0; c < columns; ++c) r.right[std::size_t(c)] += r.left[std::size_t(i)] * row(i)[std::size_t(c)];
    normalize(r.right);
    const bool settled = std::fabs(size - r.size) <= 1e-15 * size;
    r.size = size;
    if (settled) break;
  }
  r.share = r.size * r.size / dot(matrix, matrix);
  return r;
}

accumulation accumulate(std::span<weight_gradient const> steps, std::int64_t rows, std::int64_t columns) {
  const auto size = std::size_t(rows * columns);
  std::vector<double> directions(size), errors(size), gradients(size), r(size);
  for (weight_gradient const& s : steps) {
    if (s.exact.size() != size || s.error.size() != size || s.direction.size() != size)
      throw std::invalid_argument(fmt::format("a step's weight gradient has {} elements: expected {} x {} in every step", s.error.size(), rows, columns));
    const double length = norm(s.direction);
    for (std::size_t i = 0; i < size; ++i) {
      if (length != 0) directions[i] += s.direction[i] / length;
      errors[i] += s.error[i];
      gradients[i] += s.exact[i];
    }
  }
  accumulation a{.common = leading_pair(directions, rows, columns), .coefficients = {}};
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t c = 0; c < columns; ++c) r[std::size_t(i * columns + c)] = a.common.left[std::size_t(i)] * a.common.right[std::size_t(c)];
  double squares = 0;
  for (weight_gradient const& s : steps) {
    const double c = dot(s.error, r), length = norm(s.direction);
    a.coefficients.push_back(c);
    a.sum += c;
    squares += c * c;
    (c > 0 ? a.positive : a.negative) += c != 0;
    if (length != 0) a.similarity += dot(s.direction, r) / length / double(steps.size());
  }
  a.walks = squares == 0 ? 0 : a.sum / std::sqrt(squares);
  a.sign_test = sign_test(a.positive, a.negative);
  const double along = dot(errors, r), whole = dot(errors, errors);
  a.share = whole == 0 ? 0 : along * along / whole;
  a.relative_error = std::sqrt(whole) / norm(gradients);
  return a;
}

}  // namespace stickybit
