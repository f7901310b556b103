#include "selective_softmax.hpp"

#include <algorithm>
#include <cmath>

#include "stickybit/exact/round_to.hpp"
#include "stickybit/format/value.hpp"

namespace stickybit::detail {
namespace {

/// FMNMX: a NaN loses against a number.
double_double larger(double_double a, double_double b) noexcept {
  if (std::isnan(a.hi)) return b;
  return a < b ? b : a;
}

}  // namespace

void selective_softmax::restart() noexcept {
  seen_ = false;
  max_ = {-infinity, 0};
  lane_sums_ = {};
}

double_double selective_softmax::take_block(std::span<double_double> scores, exponent_form form, bool guard_weights, bool guard_rescale) {
  scaled_.resize(scores.size());
  std::transform(scores.begin(), scores.end(), scaled_.begin(), [&](double_double s) { return scaled(form, s); });
  const double_double before = max_;
  if (!seen_) max_ = scaled_.front();
  for (double_double s : scaled_) max_ = larger(max_, s);
  const double_double rescale = seen_ ? rescale_factor(before, guarded(guard_rescale)) : double_double{1, 0};
  const double_double m = guarded(guard_weights);
  const bool scales_maximum = form == exponent_form::fused || form == exponent_form::scaled_difference;
  const double_double subtrahend = scales_maximum ? arithmetic_.mul(rounding_point::exp_argument, m, arithmetic_.score_factors().scale_log2) : m;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (scores[i].hi == -infinity && std::isfinite(subtrahend.hi)) scores[i] = {};
    else scores[i] = arithmetic_.exponential(rounding_point::exp2, argument(form, scores[i], scaled_[i], subtrahend));
  }
  add_to_sums(scores, rescale);
  seen_ = true;
  return rescale;
}

double_double selective_softmax::guarded(bool guard) const noexcept { return guard && max_.hi == -infinity ? double_double{} : max_; }

/// A score in the units of the maximum.
double_double selective_softmax::scaled(exponent_form form, double_double score) const {
  using enum rounding_point;
  selective_arithmetic::factors const& f = arithmetic_.score_factors();
  if (score.hi == -infinity) return score;
  switch (form) {
    case exponent_form::fused:
    case exponent_form::scaled_difference:
    case exponent_form::difference_scaled: return score;
    case exponent_form::scaled_scores:
    case exponent_form::fused_scaled_max: return arithmetic_.mul(exp_argument, score, f.scale_log2);
    case exponent_form::natural: return arithmetic_.mul(exp_argument, score, f.scale);
    case exponent_form::twice_scaled:
    case exponent_form::fused_twice_scaled: return arithmetic_.mul(exp_argument, arithmetic_.mul(exp_argument, score, f.scale), f.log2_e);
  }
  return {};
}

double_double selective_softmax::argument(exponent_form form, double_double score, double_double scaled_score, double_double subtrahend) const {
  using enum rounding_point;
  selective_arithmetic::factors const& f = arithmetic_.score_factors();
  switch (form) {
    case exponent_form::fused:
    case exponent_form::fused_scaled_max: return arithmetic_.fma(exp_argument, score, f.scale_log2, -subtrahend);
    case exponent_form::fused_twice_scaled: return arithmetic_.fma(exp_argument, arithmetic_.mul(exp_argument, score, f.scale), f.log2_e, -subtrahend);
    case exponent_form::scaled_difference: return arithmetic_.add(exp_argument, arithmetic_.mul(exp_argument, score, f.scale_log2), -subtrahend);
    case exponent_form::difference_scaled: return arithmetic_.mul(exp_argument, arithmetic_.add(exp_argument, score, -subtrahend), f.scale_log2);
    case exponent_form::scaled_scores:
    case exponent_form::natural:
    case exponent_form::twice_scaled: return arithmetic_.add(exp_argument, scaled_score, -subtrahend);
  }
  return {};
}

/// Its L is that of the weights, so that a scale rounded to FP32 is one error, of exp_argument, in all blocks.
double_double selective_softmax::rescale_factor(double_double before, double_double after) const {
  using enum rounding_point;
  const double_double l = arithmetic_.score_factors().scale_log2;
  if (has_scaled_maximum(rules_.exponent)) return arithmetic_.exponential(rescale, arithmetic_.add(rescale, before, -after));
  switch (rules_.rescale) {
    case rescale_form::difference_scaled: return arithmetic_.exponential(rescale, arithmetic_.mul(rescale, arithmetic_.add(rescale, before, -after), l));
    case rescale_form::fused: return arithmetic_.exponential(rescale, arithmetic_.fma(rescale, before, l, -arithmetic_.mul(rescale, after, l)));
    case rescale_form::scaled_difference:
      return arithmetic_.exponential(rescale, arithmetic_.add(rescale, arithmetic_.mul(rescale, before, l), -arithmetic_.mul(rescale, after, l)));
  }
  return {};
}

double_double selective_softmax::rescaled_plus(double_double sum, double_double rescale, double_double p, bool fused) const {
  if (fused) return arithmetic_.fma(rounding_point::row_sum, rescale, sum, p);
  return plus(arithmetic_.mul(rounding_point::rescale, rescale, sum), p);
}

double_double selective_softmax::summand(double_double weight) const {
  const bool cast = rules_.summed == sum_of::bf16_weights && arithmetic_.rounds(rounding_point::p_cast);
  return cast ? double_double{to_double(round_to<format::bf16>(weight)), 0} : weight;
}

void selective_softmax::add_slices(std::span<double_double const> weights, double_double rescale) {
  double_double sum = seen_ ? arithmetic_.mul(rounding_point::rescale, lane_sums_[0], rescale) : double_double{};
  for (std::size_t first = 0; first < weights.size(); first += 32) {
    std::array<double_double, 4> slice{};
    for (std::size_t i = first; i < std::min(first + 32, weights.size()); ++i) slice[(i & 7) >> 1] = plus(slice[(i & 7) >> 1], summand(weights[i]));
    sum = plus(sum, join(slice));
  }
  lane_sums_ = {sum, double_double{}, double_double{}, double_double{}};
}

void selective_softmax::add_to_sums(std::span<double_double const> weights, double_double rescale) {
  const sum_start start = rules_.start;
  if (start == sum_start::slices) return add_slices(weights, rescale);
  const bool carried = start == sum_start::carried || start == sum_start::carried_twice;
  const bool fused = start == sum_start::carried || start == sum_start::block || start == sum_start::block_row;
  std::array<double_double, 4> block{};
  std::array<bool, 4> fresh{true, true, true, true};
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const std::size_t lane = (i & 7) >> 1;
    const double_double p = summand(weights[i]);
    if (!fresh[lane]) block[lane] = plus(block[lane], p);
    else block[lane] = carried && seen_ ? rescaled_plus(lane_sums_[lane], rescale, p, fused) : p;
    fresh[lane] = false;
  }
  if (start == sum_start::block_row || start == sum_start::block_row_twice) {
    const double_double row = join(block);
    lane_sums_ = {seen_ ? rescaled_plus(lane_sums_[0], rescale, row, fused) : row, double_double{}, double_double{}, double_double{}};
    return;
  }
  for (std::size_t lane = 0; lane < 4; ++lane) {
    if (fresh[lane]) block[lane] = carried && seen_ ? arithmetic_.mul(rounding_point::rescale, lane_sums_[lane], rescale) : double_double{};
    lane_sums_[lane] = carried || !seen_ ? block[lane] : rescaled_plus(lane_sums_[lane], rescale, block[lane], fused);
  }
}

double_double selective_softmax::join(std::array<double_double, 4> const& l) const {
  if (rules_.join == lane_join::far_first) return plus(plus(l[0], l[2]), plus(l[1], l[3]));
  return plus(plus(l[0], l[1]), plus(l[2], l[3]));
}

}  // namespace stickybit::detail
