#include "stickybit/exact/softmax.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "inlined.hpp"

// Error of a weight: S − max has 5u² relative (dot_products), times the scale 2u² more; the weight is not 0 only where the
// argument x of exp is above −745.2, so x has an error of at most 745.2·7u², which is the weight's relative error; exp() adds
// 32u²: 5249u² < 2^-93.6.
// Sum: the weights' error, 32 additions of 3u² within a block and one more a block: 2^-93.6 + (96 + 3·n/32)·u² < 2^-93.5 + n·2^-109.

namespace stickybit {
namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

/// exp(scale·below), below ≤ 0.
double_double weight_of(double_double below, double scale) noexcept {
  if (below.hi == 0) return {1, 0};
  // Decided on the rounded product, so that a huge one, or −infinity, is never split. exp is 0 below −745.2.
  if (below.hi * scale < -746) return {};
  // |below| ≥ 2^-266 here, so scale < 2^276: no overflow.
  return exp(inlined::multiply(below, scale));
}

/// Σ in blocks, so that the number of roundings grows with n/32.
double_double sum_of(std::span<double_double const> weights) noexcept {
  constexpr std::size_t block = 32;
  double_double sum{};
  for (std::size_t first = 0; first < weights.size(); first += block) {
    double_double part{};
    for (double_double w : weights.subspan(first, std::min(block, weights.size() - first))) part = inlined::add(part, w);
    sum = inlined::add(sum, part);
  }
  return sum;
}

}  // namespace

exact_softmax::exact_softmax(bf16_rows q, bf16_rows k, double softmax_scale, mask_alignment mask)
    : q_(q), scores_(k), scale_(softmax_scale), mask_(mask) {
  if (q.columns != k.columns)
    throw std::invalid_argument("exact_softmax: q has " + std::to_string(q.columns) + " columns, k has " + std::to_string(k.columns));
  if (!(softmax_scale > 0 && softmax_scale < infinity))
    throw std::invalid_argument("exact_softmax: softmax_scale " + std::to_string(softmax_scale) + " is not positive and finite");
}

softmax_row exact_softmax::evaluate(std::size_t i, std::span<double_double> weights) const {
  if (i >= rows()) throw std::out_of_range("exact_softmax: row " + std::to_string(i) + " of " + std::to_string(rows()));
  const std::size_t n = visible(i);
  if (weights.size() < n)
    throw std::invalid_argument("exact_softmax: room for " + std::to_string(weights.size()) + " weights, " + std::to_string(n) + " keys are visible");
  if (n == 0) return {.visible = 0, .sum = {}, .lse = {-infinity, 0}, .determined = true};
  weights = weights.first(n);
  const double_double largest = scores_.evaluate_below_largest(q_.row(i), weights);
  if (!std::isfinite(largest.hi)) {
    std::fill(weights.begin(), weights.end(), double_double{not_a_number, 0});
    return {.visible = n, .sum = {not_a_number, 0}, .lse = largest, .determined = false};
  }
  for (double_double& w : weights) w = weight_of(w, scale_);
  const double_double sum = sum_of(weights);
  return {.visible = n, .sum = sum, .lse = largest * scale_ + log(sum), .determined = true};
}

void exact_softmax::evaluate_keys(std::size_t i, std::size_t reference, std::size_t first, std::span<double_double> weights) const {
  if (i >= rows()) throw std::out_of_range("exact_softmax: row " + std::to_string(i) + " of " + std::to_string(rows()));
  scores_.evaluate_differences(q_.row(i), reference, first, weights);
  for (double_double& w : weights) w = weight_of(w, scale_);
}

}  // namespace stickybit
