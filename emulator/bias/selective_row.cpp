#include "selective_row.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "stickybit/attention/forward.hpp"
#include "stickybit/exact/round_to.hpp"
#include "stickybit/format/value.hpp"

namespace stickybit::detail {
namespace {

constexpr double_double not_a_number{std::numeric_limits<double>::quiet_NaN(), 0};

double_double to_bf16(double_double x, rounding mode = rounding::nearest_even) { return {to_double(round_to<format::bf16>(x, mode)), 0}; }

bf16_rows rows_of(std::vector<bf16_code> const& data, row_strides s, std::int64_t batch, std::int64_t head, std::int64_t count, std::int64_t columns) {
  return {data.data() + s.offset(batch, head, 0), std::size_t(count), std::size_t(columns), std::size_t(s.row)};
}

}  // namespace

call_plan plan_selective(attention_schedule const& schedule, attention_problem const& p) {
  if (schedule.kind != schedule_kind::online) throw unsupported_call(fmt::format("attribution not available for {}: it is not computed block by block", schedule.name));
  const call_plan plan = plan_call(schedule, p);
  if (plan.splits > 1 && plan.rules->lse != lse_form::scale_times_max)
    throw unsupported_call(fmt::format("attribution not available for split keys with the lse of {}: only with FlashAttention-2's", schedule.name));
  if (!(p.softmax_scale > 0 && p.softmax_scale < infinity)) throw std::invalid_argument(fmt::format("softmax scale {}: expected a finite number above 0", p.softmax_scale));
  return plan;
}

selective_head::selective_head(attention_problem const& p, std::int64_t b, std::int64_t key_head)
    : keys(p.k.data() + p.key_strides().offset(b, key_head, 0), p.head_dim, p.keys, 1, p.key_strides().row),
      values(p.v.data() + p.key_strides().offset(b, key_head, 0), p.keys, p.head_dim, p.key_strides().row, 1),
      exact_scores(rows_of(p.k, p.key_strides(), b, key_head, p.keys, p.head_dim)),
      wide_values(p.v.data() + p.key_strides().offset(b, key_head, 0), p.keys, p.head_dim, p.key_strides().row) {}

selective_row::selective_row(call_plan const& plan, attention_problem const& p)
    : plan_(plan),
      problem_(p),
      rules_(*plan.rules),
      arithmetic_(plan, p.softmax_scale),
      softmax_(plan, arithmetic_),
      product_(*plan.unit, engine::fast),
      exact_products_(std::size_t(p.head_dim)),
      kernel_scores_(std::size_t(p.keys)),
      exact_scores_(std::size_t(p.keys)),
      output_(std::size_t(p.head_dim)),
      block_sums_(output_.size()),
      output_codes_(output_.size()),
      wide_output_(output_.size()) {}

void selective_row::load(selective_head const& data, std::int64_t b, std::int64_t head, std::int64_t row) {
  data_ = &data;
  head_ = head;
  row_ = row;
  visible_ = std::int64_t(visible_keys(plan_.mask, std::size_t(row), std::size_t(problem_.queries), std::size_t(problem_.keys)));
  const auto q = std::span(problem_.q).subspan(std::size_t(problem_.query_strides().offset(b, head, row)), std::size_t(problem_.head_dim));
  std::vector<f32_code> s(std::size_t(problem_.keys), f32_code::zero());
  product_.accumulate(q, data.keys, 0, 0, s);
  std::transform(s.begin(), s.end(), kernel_scores_.begin(), [](f32_code c) { return double_double{to_double(c), 0}; });
  data.exact_scores.evaluate(q, exact_scores_);
  for (auto* scores : {&kernel_scores_, &exact_scores_}) std::fill(scores->begin() + visible_, scores->end(), double_double{-infinity, 0});
}

std::span<double_double const> selective_row::evaluate(rounding_points active) {
  arithmetic_.choose(active);
  failed_ = false;
  if (plan_.splits == 1) run_part(0);
  else join_all();
  if (failed_) std::ranges::fill(output_, not_a_number);
  else if (arithmetic_.rounds(rounding_point::o_cast)) std::ranges::transform(output_, output_.begin(), [](double_double x) { return to_bf16(x); });
  return output_;
}

/// output_ becomes O of one part of the keys, divided by its sum.
void selective_row::run_part(std::int64_t part) {
  softmax_.restart();
  std::ranges::fill(output_, double_double{});
  const block_range range = blocks_of(plan_, problem_, head_, row_, part);
  const auto take = [&](std::int64_t block) { take_block(block, block >= range.masked_from); };
  if (rules_.order == block_order::descending)
    for (std::int64_t block = range.end - 1; block >= range.begin; --block) take(block);
  const bool in_two_runs = rules_.order == block_order::partial_first && plan_.second_form;
  for (bool whole : {false, true})
    for (std::int64_t block = range.begin; rules_.order != block_order::descending && block < range.end; ++block)
      if (in_two_runs ? uses_second_form(plan_, problem_, row_, block) == whole : !whole) take(block);
  if (!failed_ && !softmax_.empty()) divide_by_sum();
}

void selective_row::join_all() {
  parts_.resize(std::size_t(plan_.splits));
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    run_part(std::int64_t(i));
    parts_[i].empty = softmax_.empty() || softmax_.sum().hi == 0;
    if (!parts_[i].empty) parts_[i].lse = part_lse(plan_, arithmetic_, softmax_.max(), softmax_.sum());
    parts_[i].o = output_;
  }
  if (!failed_) join_parts(plan_, arithmetic_, parts_, output_);
}

void selective_row::take_block(std::int64_t block, bool in_masked) {
  using enum rounding_point;
  const std::int64_t first_column = block * plan_.tile.key_columns;
  const std::int64_t columns = std::min<std::int64_t>(plan_.tile.key_columns, problem_.keys - first_column);
  const auto scores = (arithmetic_.rounds(s) ? kernel_scores_ : exact_scores_).begin() + first_column;
  weights_.assign(scores, scores + columns);

  const bool first = softmax_.empty(), masked = in_masked && plan_.mask != mask_alignment::none;
  const bool always = rules_.guard == empty_guard::always, guard_weights = always || rules_.guard == empty_guard::weights_always || (rules_.guard == empty_guard::first_and_causal && (first || masked));
  const bool guard_rescale = always || (rules_.guard != empty_guard::never && masked);
  const exponent_form form = uses_second_form(plan_, problem_, row_, block) ? rules_.unmasked_exponent : rules_.exponent;
  const double_double factor = softmax_.take_block(weights_, form, guard_weights, guard_rescale);
  failed_ = failed_ || !std::isfinite(factor.hi) || !std::ranges::all_of(weights_, [](double_double p) { return std::isfinite(p.hi); });
  if (failed_) return;
  if (!first)
    for (double_double& x : output_) x = arithmetic_.mul(rescale, x, factor);
  if (arithmetic_.rounds(p_cast))
    for (double_double& p : weights_) p = to_bf16(p, rules_.weight_cast);
  if (arithmetic_.rounds(pv)) add_products(first_column, weights_, arithmetic_.rounds(p_cast) && (first || arithmetic_.rounds(rescale)));
  else add_products_exactly(first_column, weights_);
}

/// @param codes  weights are BF16 and O holds FP32 numbers: the unit itself takes them
void selective_row::add_products(std::int64_t first_column, std::span<double_double const> weights, bool codes) {
  if (codes) {
    weight_codes_.resize(weights.size());
    std::transform(weights.begin(), weights.end(), weight_codes_.begin(), [](double_double p) { return round_to<format::bf16>(p); });
    std::transform(output_.begin(), output_.end(), output_codes_.begin(), [](double_double x) { return round_to<format::f32>(x); });
    product_.accumulate(weight_codes_, data_->values, first_column, 0, output_codes_);
    std::transform(output_codes_.begin(), output_codes_.end(), output_.begin(), [](f32_code c) { return double_double{to_double(c), 0}; });
    return;
  }
  wide_weights_.resize(weights.size());
  std::transform(weights.begin(), weights.end(), wide_weights_.begin(), [](double_double p) { return to_double(p); });
  const auto finite = [](double_double x) { return std::isfinite(x.hi); };
  std::transform(output_.begin(), output_.end(), wide_output_.begin(), [&](double_double x) { return finite(x) ? to_double(x) : 0.0; });
  const auto count = std::int64_t(wide_weights_.size()), columns = std::int64_t(wide_output_.size());
  wide_chains(*plan_.unit, {wide_weights_.data(), 1, count, count, 1}, data_->wide_values, first_column, {wide_output_.data(), 1, columns, columns});
  // What V has made infinite or NaN in an earlier block stays so.
  std::transform(wide_output_.begin(), wide_output_.end(), output_.begin(), output_.begin(),
                 [&](double x, double_double before) { return finite(before) ? double_double{x, 0} : before; });
}

void selective_row::add_products_exactly(std::int64_t first_column, std::span<double_double const> weights) {
  exact_products_.clear();
  for (std::size_t i = 0; i < weights.size(); ++i)
    if (weights[i].hi != 0) exact_products_.add(weights[i], data_->wide_values.values.row(first_column + std::int64_t(i)));
  exact_products_.result(block_sums_);
  for (std::size_t j = 0; j < output_.size(); ++j) output_[j] = output_[j] + block_sums_[j];
}

void selective_row::divide_by_sum() {
  using enum rounding_point;
  const double_double sum = softmax_.sum();
  const bool zero = sum.hi == 0, tested = rules_.empty == empty_sum::zero_minus_infinity || rules_.empty == empty_sum::one_plus_infinity;
  const bool rounded_first = rules_.output == output_form::round_then_divide;
  double_double inverse_sum{1, 0};
  if (tested && (zero || std::isnan(sum.hi))) inverse_sum = {rules_.empty == empty_sum::zero_minus_infinity ? 0.0 : 1.0, 0};
  else if (rules_.empty != empty_sum::one_if_zero || !zero)
    inverse_sum = rules_.inverse == inverse_form::mufu ? arithmetic_.reciprocal(inverse, sum) : arithmetic_.div(inverse, {1, 0}, sum);
  for (double_double& x : output_) {
    if (rounded_first && arithmetic_.rounds(o_bar_cast)) x = to_bf16(x);
    if (rounded_first && zero) x = {};
    else if (rounded_first || rules_.inverse == inverse_form::division) x = arithmetic_.div(inverse, x, sum);
    else x = arithmetic_.mul(inverse, x, inverse_sum);
  }
}

}  // namespace stickybit::detail
