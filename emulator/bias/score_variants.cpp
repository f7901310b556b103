#include "score_variants.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "stickybit/format/value.hpp"
#include "stickybit/sfu/arrays.hpp"
#include "stickybit/softmax/scalars.hpp"

namespace stickybit::detail {
namespace {

template <class Code>
void values_of(std::span<Code const> codes, std::vector<double>& to) {
  to.resize(codes.size());
  std::transform(codes.begin(), codes.end(), to.begin(), [](Code c) { return to_double(c); });
}
void heads_of(std::span<double_double const> x, std::vector<double>& to) {
  to.resize(x.size());
  std::transform(x.begin(), x.end(), to.begin(), [](double_double v) { return v.hi; });
}

}  // namespace

score_variants::score_variants(backward_plan const& plan, score_plan const& sets, double softmax_scale)
    : plan_(plan), rules_(*plan.rules), sets_(sets), rounded_(plan.rules->scalars == subnormals::flushed),
      all_of_ds_(set_of(points_of(*plan.rules, false, gradient_tensor::ds))), scale_(softmax_scale), scale_f32_(to_double(plan.scales.scale)),
      scale_log2_f32_(to_double(plan.scales.scale_log2)), weights_(sets.weights.size()), ds_(sets.ds.size()), p_(sets.p.size()) {}

void score_variants::take(score_row const& row) {
  take_exact(row);
  for (std::size_t i = 0; i < weights_.size(); ++i) make_weights(row, sets_.weights[i], weights_[i]);
  for (std::size_t i = 0; i < ds_.size(); ++i) make_gradients(row, sets_.ds[i], ds_[i]);
  for (std::size_t i = 0; i < p_.size(); ++i) {
    p_[i] = weights_[sets_.p[i].weights];
    if (sets_.p[i].set.has(backward_point::p_cast)) std::ranges::transform(p_[i], p_[i].begin(), bf16_of_double);
  }
}

void score_variants::take_exact(score_row const& row) {
  const std::size_t n = row.exact_p.size();
  heads_of(row.exact_s, exact_s_);
  heads_of(row.exact_p, exact_p_);
  heads_of(row.exact_ds, exact_ds_);
  values_of(row.s, s_);
  values_of(row.dp, dp_);
  for (std::vector<double>* x : {&exact_difference_, &s_error_, &dp_error_}) x->resize(n);
  for (std::size_t j = 0; j < n; ++j) {
    s_error_[j] = s_[j] == row.exact_s[j].hi ? -row.exact_s[j].lo : (s_[j] - row.exact_s[j].hi) - row.exact_s[j].lo;  // −infinity too
    dp_error_[j] = (dp_[j] - row.exact_dp[j].hi) - row.exact_dp[j].lo;
    // exact_gradients has dS = P·(dP − delta) with the difference's own precision; where P is below the range of double, dS is 0.
    exact_difference_[j] = exact_p_[j] == 0 ? 0 : exact_ds_[j] / exact_p_[j];
    if (rules_.scaled == scale_place::score_gradients) exact_ds_[j] *= scale_;
  }
}

void score_variants::make_weights(score_row const& row, backward_points set, std::vector<double>& w) {
  using enum backward_point;
  if (set == points_of_weights) return values_of(row.p, w);
  if (set == backward_points::none()) {
    w = exact_p_;
    return;
  }
  if (!set.has(exp_argument)) return shift_weights(row, set, w);
  make_argument(row, set, w);
  if (set.has(exp2)) return take_special_function(w);
  for (double& x : w) x = natural() ? std::exp(x) : std::exp2(x);
}

/// The argument rounded, of a score and a lse that may be exact.
void score_variants::make_argument(score_row const& row, backward_points set, std::vector<double>& x) const {
  using enum backward_point;
  x = set.has(s) ? s_ : exact_s_;
  const double log2_e = to_double(f32_log2_e), lse = set.has(stored_lse) ? row.lse : row.exact_lse.hi, lse_log2 = rounded_.mul(lse, log2_e);
  for (double& score : x) switch (rules_.weight) {
      case weight_form::fused: score = rounded_.fma(score, scale_log2_f32_, -lse_log2); break;
      case weight_form::scaled_difference: score = rounded_.add(rounded_.mul(score, scale_log2_f32_), -lse_log2); break;
      case weight_form::natural: score = rounded_.add(rounded_.mul(score, scale_f32_), -lse); break;
      case weight_form::difference_scaled: score = rounded_.mul(rounded_.add(rounded_.mul(score, scale_f32_), -lse), log2_e); break;
      case weight_form::fused_difference: score = rounded_.mul(rounded_.fma(score, scale_f32_, -lse), log2_e); break;
    }
}

/// P where the argument is not rounded: the exact P times the exponential of what S and lse changed.
void score_variants::shift_weights(score_row const& row, backward_points set, std::vector<double>& w) {
  using enum backward_point;
  const double of_lse = set.has(stored_lse) ? to_double(double_double{row.lse, 0} - row.exact_lse) : 0;
  const auto change = [&](std::size_t j) { return (set.has(s) ? scale_ * s_error_[j] : 0) - of_lse; };
  w.resize(exact_p_.size());
  if (!set.has(exp2)) {
    if (!set.has(s)) {
      const double factor = std::exp(-of_lse);
      for (std::size_t j = 0; j < w.size(); ++j) w[j] = exact_p_[j] * factor;
      return;
    }
    for (std::size_t j = 0; j < w.size(); ++j) w[j] = exact_p_[j] * std::exp(change(j));
    return;
  }
  for (std::size_t j = 0; j < w.size(); ++j) w[j] = (std::log(exact_p_[j]) + change(j)) * (natural() ? 1 : std::numbers::log2e);
  take_special_function(w);
}

/// MUFU, or expf, of the argument rounded to FP32, corrected by the exact effect of that rounding.
void score_variants::take_special_function(std::vector<double>& x) {
  argument_.resize(x.size());
  result_.resize(x.size());
  std::transform(x.begin(), x.end(), argument_.begin(), [](double v) { return code_of(static_cast<float>(v)); });
  if (natural()) cuda_expf(plan_.ex2, argument_, result_);
  else if (rules_.scalars == subnormals::flushed) ex2(plan_.ex2, argument_, result_);
  else exp2_keeping_subnormals(plan_.ex2, argument_, result_);
  for (std::size_t j = 0; j < x.size(); ++j) {
    const double lost = x[j] - to_double(argument_[j]), result = to_double(result_[j]);
    x[j] = lost == 0 || result == 0 || !std::isfinite(result) ? result : result * std::exp(natural() ? lost : lost * std::numbers::ln2);
  }
}

void score_variants::make_gradients(score_row const& row, score_operand const& operand, std::vector<double>& out) {
  using enum backward_point;
  const backward_points set = operand.set;
  if (set == all_of_ds_) return values_of(row.ds, out);
  if (set == backward_points::none()) {
    out = exact_ds_;
    return;
  }
  std::span<double const> w = weights_[operand.weights];
  if (set.has(p_cast)) {
    cast_weights_.resize(w.size());
    std::ranges::transform(w, cast_weights_.begin(), bf16_of_double);
    w = cast_weights_;
  }
  const double delta_error = row.delta.error[delta_values::index(set)];
  out.resize(w.size());
  if (set.has(ds_arithmetic)) {
    round_gradients(row, set, w, out);
  } else {
    const double factor = rules_.scaled == scale_place::score_gradients ? scale_ : 1;
    const bool with_dp = set.has(dp);
    for (std::size_t j = 0; j < out.size(); ++j) out[j] = w[j] * (exact_difference_[j] + ((with_dp ? dp_error_[j] : 0) - delta_error)) * factor;
  }
  if (set.has(ds_cast)) std::ranges::transform(out, out.begin(), bf16_of_double);
}

/// dS by the kernel's operations, on a dP and a delta that may be exact.
void score_variants::round_gradients(score_row const& row, backward_points set, std::span<double const> w, std::vector<double>& out) const {
  using enum backward_point;
  const double_double wide_delta = row.delta.value[delta_values::index(set)];
  const double delta = to_double(wide_delta);
  const bool with_dp = set.has(dp), exact_delta = set.among(points_of_delta) == backward_points::none();
  for (std::size_t j = 0; j < out.size(); ++j) {
    const double_double wide_gradient = with_dp ? double_double{dp_[j], 0} : row.exact_dp[j];
    const double gradient = to_double(wide_gradient);
    // A stored or rounded delta and dP have few bits: their difference may be a tie, so it is taken as it is.
    const double difference = exact_delta ? exact_difference_[j] + (with_dp ? dp_error_[j] : 0) : to_double(wide_gradient - wide_delta);
    switch (rules_.gradient) {
      case score_gradient::product_of_difference:
      case score_gradient::from_bf16_weights: out[j] = rounded_.mul(w[j], rounded_.to_f32(difference)); break;
      case score_gradient::difference_of_products: out[j] = rounded_.add(rounded_.mul(w[j], gradient), -rounded_.mul(w[j], delta)); break;
      case score_gradient::fused_products: out[j] = rounded_.fma(w[j], gradient, -rounded_.mul(w[j], delta)); break;
    }
    if (rules_.scaled == scale_place::score_gradients) out[j] = rounded_.mul(out[j], scale_f32_);
  }
}

}  // namespace stickybit::detail
