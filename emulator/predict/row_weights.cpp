#include "row_weights.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "rounded_value.hpp"

namespace stickybit::detail {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// The maximum that a block contributes: its largest score, unless the schedule moves repeated ones away.
double block_maximum(weight_rules const& r, std::span<double const> scores) {
  const double largest = *std::ranges::max_element(scores);
  if (r.rules->ties == tied_maximum::kept) return largest;
  const auto tied = std::ranges::count_if(scores, [&](double s) { return (largest - s) * r.scale <= double(r.rules->tie.tolerance); });
  if (tied < 2 || largest == 0) return largest;
  return largest > 0 ? double(r.rules->tie.beta) * largest : 0;
}

/// errors[j] of the weights of one part of the keys, in the units of the row's largest score.
void cast_part(weight_rules const& r, std::span<double const> scores, double largest, std::span<double> errors) {
  const std::int64_t n = std::int64_t(scores.size()), block = r.block == 0 ? n : r.block, blocks = (n + block - 1) / block;
  double running = -infinity;
  for (std::int64_t step = 0; step < blocks; ++step) {
    const std::int64_t at = (r.rules->order == block_order::descending ? blocks - 1 - step : step) * block, count = std::min(block, n - at);
    const auto of_block = scores.subspan(std::size_t(at), std::size_t(count));
    running = std::max(running, block_maximum(r, of_block));
    const double to_largest = std::exp(r.scale * (running - largest));
    for (std::size_t j = 0; j < of_block.size(); ++j) {
      const double p = std::exp(r.scale * (of_block[j] - running));
      errors[std::size_t(at) + j] = p == 0 ? 0 : (bf16_of_double(p) - p) * to_largest;
    }
  }
}

/// Weights as BF16 matrices make them: scores and their scaled values rounded, divided by the sum before the cast.
void cast_matrix(weight_rules const& r, std::span<double const> scores, std::span<double const> weights, double sum, std::span<double> errors) {
  double largest = -infinity, rounded_sum = 0;
  for (std::size_t j = 0; j < scores.size(); ++j) {
    errors[j] = bf16_of_double(bf16_of_double(scores[j]) * r.scale);
    largest = std::max(largest, errors[j]);
  }
  for (double& t : errors) rounded_sum += t = std::exp(t - largest);
  for (std::size_t j = 0; j < errors.size(); ++j) errors[j] = bf16_of_double(errors[j] / rounded_sum) * sum - weights[j];
}

}  // namespace

cast_errors split_cast_errors(std::span<double const> weights, std::span<double const> errors, std::span<std::int64_t const> class_size, bool alike, bool balanced,
                              std::span<double> mean, std::span<double> square) {
  double mass = 0, sum = 0, squares = 0, fourth = 0, of_heaviest = 0;
  const auto take = [&](double term) { squares += term * term, fourth += term * term * term * term; };
  const double heaviest = *std::ranges::max_element(weights);
  for (std::size_t j = 0; j < weights.size(); ++j) {
    mass += errors[j], sum += weights[j];
    if (weights[j] == heaviest) of_heaviest += errors[j];
    else take(double(class_size[j]) * errors[j]);
    square[j] = errors[j] * errors[j];
  }
  take(of_heaviest);
  const double terms = fourth == 0 ? 0 : squares * squares / fourth;
  if (alike || terms < one_cast) {
    std::ranges::copy(errors, mean.begin());
    std::ranges::fill(square, 0.0);
    return cast_errors::known;
  }
  if (terms < several_casts) {
    std::ranges::fill(mean, 0.0);
    if (balanced)
      for (double& e : square) e *= terms / (terms - 1);  // one sum is given
    return cast_errors::free;
  }
  const double share = mass / sum;
  for (std::size_t j = 0; j < weights.size(); ++j) {
    mean[j] = share * weights[j];
    square[j] = (errors[j] - mean[j]) * (errors[j] - mean[j]) * (terms / (terms - 1));
  }
  return cast_errors::scattered;
}

row_weights cast_weights(weight_rules const& r, std::span<double const> scores, std::span<std::int64_t const> class_size, bool alike,
                         std::span<double> weights, std::span<double> mean, std::span<double> square) {
  row_weights row;
  row.largest = *std::ranges::max_element(scores);
  for (std::size_t j = 0; j < scores.size(); ++j) row.sum += weights[j] = std::exp(r.scale * (scores[j] - row.largest));
  row.lse = r.scale * row.largest + std::log(row.sum);
  thread_local std::vector<double> errors;
  errors.assign(scores.size(), 0);
  if (r.kind == schedule_kind::eager) cast_matrix(r, scores, weights, row.sum, errors);
  else if (r.kind == schedule_kind::online) {
    const std::int64_t n = std::int64_t(scores.size()), width = r.part == 0 ? n : r.part;
    for (std::int64_t at = 0; at < n; at += width)
      cast_part(r, scores.subspan(std::size_t(at), std::size_t(std::min(width, n - at))), row.largest, std::span(errors).subspan(std::size_t(at), std::size_t(std::min(width, n - at))));
  }
  row.casts = split_cast_errors(weights, errors, class_size, alike, r.kind == schedule_kind::eager, mean, square);
  return row;
}

}  // namespace stickybit::detail
