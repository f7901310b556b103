#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "stickybit/format/code.hpp"
#include "stickybit/format/value.hpp"
#include "stickybit/schedule/forward_rules.hpp"
#include "stickybit/sfu/sfu.hpp"
#include "stickybit/softmax/scalars.hpp"
#include "stickybit/trace/sink.hpp"

namespace stickybit {

/// The scale s of a call in FP32, and L.
struct softmax_scales {
  f32_code scale, scale_log2;
};

/// Event: one block of keys has been taken into a row.
template <class Number>
struct softmax_block_of {
  std::int64_t first_column;
  Number max_before, max_after;  ///< in the units that the exponent form keeps
  Number rescale;                ///< what earlier sums and O are multiplied by; 1 (and not applied) in the first block
  std::array<Number, 4> lane_sums;
};
using softmax_block = softmax_block_of<f32_code>;
/// Event: one score has become a weight.
template <class Number>
struct softmax_weight_of {
  std::int64_t column;
  Number score, argument, weight;
};
using softmax_weight = softmax_weight_of<f32_code>;
/// Event: the row, or one part of its keys, is complete.
template <class Number>
struct softmax_finished_of {
  Number max, sum;
  Number divisor;  ///< what O is divided by: the sum, unless there are two
  Number inverse_sum, lse;
};
using softmax_finished = softmax_finished_of<f32_code>;

/// The online softmax of one query row, at the rounding points that the rules state. State: the running maximum and four partial
/// sums, one for each of the four lanes that share a row of the accumulator: lane q owns the columns with (column mod 8) / 2 = q,
/// and adds them in ascending order.
/// @source the value comments of forward_rules
template <class Scalars>
class online_softmax {
 public:
  using number = typename Scalars::number;

  /// @param rows  of ex2; all arguments must live as long as this
  online_softmax(ex2_rows const& rows, forward_rules const& rules, softmax_scales scales) : ex2_(&rows), rules_(&rules), scales_(scales) {}

  /// Takes one block: scores become weights p, in place.
  /// @param scores         raw S of the block's columns, at least one, masked ones −inf; ascending from first_column, a multiple of 8
  /// @param form           of the exponent in this block; all blocks of a row keep the maximum in the same units
  /// @param guard_weights  a maximum of −inf counts as 0 in the weights (the kernel tests for it here); guard_rescale: in the rescale factor
  /// @returns              the factor for O; empty() tells before whether there is anything to rescale
  template <class Sink = null_sink>
  number take_block(std::span<number> scores, std::int64_t first_column, exponent_form form, bool guard_weights, bool guard_rescale, Sink&& sink = {}) {
    const number before = max_;
    const std::span<number const> in_units = in_units_of_maximum(scores, form);
    if (rules_->ties == tied_maximum::kept) take_maximum(in_units);
    else take_moved_maximum(in_units, form);
    const number rescale = seen_ ? rescale_factor(before, guarded(guard_rescale)) : f32_code::from_bits(0x3f800000);
    const number m = guarded(guard_weights);
    const number subtrahend = form == exponent_form::fused || form == exponent_form::scaled_difference ? Scalars::mul(m, scales_.scale_log2) : m;
    if constexpr (std::same_as<std::remove_cvref_t<Sink>, null_sink>) {
      take_arguments(form, subtrahend, in_units, scores);
      take_exponentials(scores);
    } else {
      std::vector<number> raw(scores.begin(), scores.end());
      take_arguments(form, subtrahend, in_units, scores);
      const std::vector<number> arguments(scores.begin(), scores.end());
      take_exponentials(scores);
      for (std::size_t i = 0; i < scores.size(); ++i) sink(softmax_weight_of<number>{first_column + std::int64_t(i), raw[i], arguments[i], scores[i]});
    }
    if (rules_->summed == sum_of::both) {
      add_to_sums(as_bf16(scores), rescale, bf16_lane_sums_);
      add_to_sums(scores, rescale, lane_sums_);
    } else {
      add_to_sums(rules_->summed == sum_of::bf16_weights ? as_bf16(scores) : scores, rescale, lane_sums_);
    }
    seen_ = true;
    sink(softmax_block_of<number>{first_column, before, max_, rescale, lane_sums_});
    return rescale;
  }

  [[nodiscard]] bool empty() const noexcept { return !seen_; }

  /// For another row.
  void restart() {
    seen_ = false;
    max_ = true_max_ = f32_code::infinity(true);
    lane_sums_ = bf16_lane_sums_ = {};
    tied_count_ = 0;
  }

  /// Sum, its inverse, and the natural logarithm of Σ exp(s·S).
  template <class Sink = null_sink>
  softmax_finished_of<number> finish(Sink&& sink = {}) const {
    const number sum = join(lane_sums_);
    softmax_finished_of<number> row{max_, sum, sum, f32_code::zero(), f32_code::zero()};
    const bool tested = rules_->empty == empty_sum::zero_minus_infinity || rules_->empty == empty_sum::one_plus_infinity;
    if (tested && (sum.is_zero() || sum.is_nan())) {
      const bool minus = rules_->empty == empty_sum::zero_minus_infinity;
      row.inverse_sum = minus ? f32_code::zero() : one();
      row.lse = f32_code::infinity(minus);
    } else {
      row.divisor = rules_->summed == sum_of::both ? join(bf16_lane_sums_) : sum;
      row.inverse_sum = rules_->inverse == inverse_form::mufu ? rcp(tables(), row.divisor) : Scalars::div(one(), row.divisor);
      if (rules_->empty == empty_sum::one_if_zero && sum.is_zero()) row.inverse_sum = one();
      row.lse = log_sum_exp(sum);
    }
    sink(row);
    return row;
  }

 private:
  static constexpr f32_code one() noexcept { return f32_code::from_bits(0x3f800000); }
  static constexpr f32_code ln2() noexcept { return f32_code::from_bits(0x3f317218); }  // float(M_LN2)

  number guarded(bool guard) const noexcept { return guard && max_ == f32_code::infinity(true) ? f32_code::zero() : max_; }

  number exponential(number x) const {
    if (rules_->exponent == exponent_form::natural) return cuda_expf(tables(), x);
    return rules_->exp2 == exp2_form::bare ? ex2(tables(), x) : Scalars::exp2(tables(), x);
  }

  [[nodiscard]] special_function_tables const& tables() const noexcept { return ex2_->tables(); }

  /// Scores in the units of the maximum: themselves, or in scratch().
  std::span<number const> in_units_of_maximum(std::span<number const> scores, exponent_form form) {
    if (!has_scaled_maximum(form)) return scores;
    const std::span<number> t = scratch(scores.size());
    const bool natural = form == exponent_form::natural, twice = form == exponent_form::twice_scaled || form == exponent_form::fused_twice_scaled;
    Scalars::mul(scores, natural || twice ? scales_.scale : scales_.scale_log2, t);
    if (twice) Scalars::mul(t, f32_log2_e, t);
    return t;
  }

  void take_maximum(std::span<number const> scores) {
    if (!seen_) max_ = scores.front();
    max_ = Scalars::max(scores, max_);
  }

  /// Natural units that one unit of the maximum is.
  number natural_unit(exponent_form form) const {
    if (!has_scaled_maximum(form)) return scales_.scale;
    return form == exponent_form::natural ? one() : ln2();
  }
  static f32_code from_float(float x) noexcept { return f32_code::from_bits(std::bit_cast<std::uint32_t>(x)); }

  /// The maximum with tied_maximum, of scores in its units: r and the ties are those of the block, or of all blocks so far.
  void take_moved_maximum(std::span<number const> scores, exponent_form form) {
    const number unit = natural_unit(form), tolerance = from_float(rules_->tie.tolerance);
    const bool extended = rules_->ties == tied_maximum::extended;
    const auto tied = [&](number r, number x) {
      return x.is_finite() && !(to_float(Scalars::mul(Scalars::add(r, x.negated()), unit)) > to_float(tolerance));
    };
    number r = extended ? true_max_ : f32_code::infinity(true);
    r = Scalars::max(scores, r);
    std::int64_t count = extended && r.is_finite() && tied(r, true_max_) ? tied_count_ : 0;
    for (number s : scores) count += tied(r, s);
    true_max_ = r;
    tied_count_ = count;
    const number moved = count > 1 ? moved_maximum(r, unit, extended) : r;
    max_ = seen_ ? Scalars::max(max_, moved) : moved;
  }

  number moved_maximum(number r, number unit, bool extended) const {
    const number published = r.is_zero() ? r : r.negative() ? f32_code::zero() : Scalars::mul(from_float(rules_->tie.beta), r);
    if (!extended) return published;
    const number least = Scalars::div(from_float(tie_parameters::least_shift), unit), most = Scalars::div(from_float(tie_parameters::most_shift), unit);
    const number shift = Scalars::max(least, Scalars::add(published, r.negated()));
    return Scalars::add(r, to_float(shift) > to_float(most) ? most : shift);
  }

  /// Scores x become arguments of the exponential.  @param in_units  the same in the units of the maximum
  void take_arguments(exponent_form form, number subtrahend, std::span<number const> in_units, std::span<number> x) const {
    const number minus = subtrahend.negated();
    switch (form) {
      case exponent_form::fused:
      case exponent_form::fused_scaled_max: return Scalars::fma(x, scales_.scale_log2, minus, x);
      case exponent_form::fused_twice_scaled: Scalars::mul(x, scales_.scale, x); return Scalars::fma(x, f32_log2_e, minus, x);
      case exponent_form::difference_scaled: Scalars::add(x, minus, x); return Scalars::mul(x, scales_.scale_log2, x);
      case exponent_form::scaled_difference: Scalars::mul(x, scales_.scale_log2, x); return Scalars::add(x, minus, x);
      case exponent_form::scaled_scores:
      case exponent_form::natural:
      case exponent_form::twice_scaled: return Scalars::add(in_units, minus, x);
    }
  }

  void take_exponentials(std::span<number> x) const {
    if (rules_->exponent == exponent_form::natural) Scalars::expf(*ex2_, x, x);
    else if (rules_->exp2 == exp2_form::bare) Scalars::ex2(*ex2_, x, x);
    else Scalars::exp2(*ex2_, x, x);
  }

  std::span<number> scratch(std::size_t size) {
    if (scratch_.size() < size) scratch_.resize(size);
    return std::span(scratch_).first(size);
  }

  /// The weights rounded to BF16; valid until scratch() is used again.
  std::span<number const> as_bf16(std::span<number const> weights) {
    const std::span<number> t = scratch(weights.size());
    std::transform(weights.begin(), weights.end(), t.begin(), [](number p) { return widen(Scalars::to_bf16(p)); });
    return t;
  }

  number rescale_factor(number before, number after) const {
    if (has_scaled_maximum(rules_->exponent)) return exponential(Scalars::add(before, after.negated()));
    const number l = scales_.scale_log2;
    switch (rules_->rescale) {
      case rescale_form::difference_scaled: return exponential(Scalars::mul(Scalars::add(before, after.negated()), l));
      case rescale_form::fused: return exponential(Scalars::fma(before, l, Scalars::mul(after, l).negated()));
      case rescale_form::scaled_difference: return exponential(Scalars::add(Scalars::mul(before, l), Scalars::mul(after, l).negated()));
    }
    return {};
  }

  number rescaled_plus(number sum, number rescale, number p, bool fused) const {
    return fused ? Scalars::fma(rescale, sum, p) : Scalars::add(Scalars::mul(rescale, sum), p);
  }

  /// sum_start::slices. The row sum stands in the first lane.
  void add_slices(std::span<number const> weights, number rescale, std::array<number, 4>& lane_sums) const {
    number sum = seen_ ? Scalars::mul(lane_sums[0], rescale) : f32_code::zero();
    for (std::size_t first = 0; first < weights.size(); first += 32) {
      std::array<number, 4> slice{};
      Scalars::add_in_lanes(weights.subspan(first, std::min<std::size_t>(32, weights.size() - first)), slice);
      sum = Scalars::add(sum, join(slice));
    }
    lane_sums = {sum, f32_code::zero(), f32_code::zero(), f32_code::zero()};
  }

  void add_to_sums(std::span<number const> weights, number rescale, std::array<number, 4>& lane_sums) const {
    const sum_start start = rules_->start;
    if (start == sum_start::slices) return add_slices(weights, rescale, lane_sums);
    const bool carried = start == sum_start::carried || start == sum_start::carried_twice;
    const bool fused = start == sum_start::carried || start == sum_start::block || start == sum_start::block_row;
    std::array<number, 4> block{};
    std::array<bool, 4> fresh{true, true, true, true};
    const std::size_t first_eight = std::min<std::size_t>(8, weights.size());
    for (std::size_t i = 0; i < first_eight; ++i) {
      const std::size_t lane = lane_of(i);
      const number p = weights[i];
      if (!fresh[lane]) block[lane] = Scalars::add(block[lane], p);
      else block[lane] = carried && seen_ ? rescaled_plus(lane_sums[lane], rescale, p, fused) : p;
      fresh[lane] = false;
    }
    Scalars::add_in_lanes(weights.subspan(first_eight), block);
    if (start == sum_start::block_row || start == sum_start::block_row_twice) {
      const number row = join(block);
      lane_sums = {seen_ ? rescaled_plus(lane_sums[0], rescale, row, fused) : row, f32_code::zero(), f32_code::zero(), f32_code::zero()};
      return;
    }
    for (std::size_t lane = 0; lane < 4; ++lane) {
      if (fresh[lane]) block[lane] = carried && seen_ ? Scalars::mul(lane_sums[lane], rescale) : f32_code::zero();
      lane_sums[lane] = carried || !seen_ ? block[lane] : rescaled_plus(lane_sums[lane], rescale, block[lane], fused);
    }
  }

  number join(std::array<number, 4> const& l) const {
    if (rules_->join == lane_join::far_first) return Scalars::add(Scalars::add(l[0], l[2]), Scalars::add(l[1], l[3]));
    return Scalars::add(Scalars::add(l[0], l[1]), Scalars::add(l[2], l[3]));
  }

  number log_sum_exp(number sum) const {
    switch (rules_->lse) {
      case lse_form::natural: return Scalars::add(max_, cuda_logf(sum));
      case lse_form::scaled_max_logf: return Scalars::add(Scalars::mul(max_, ln2()), cuda_logf(sum));
      case lse_form::divided_max_logf: return Scalars::add(Scalars::div(max_, f32_log2_e), cuda_logf(sum));
      case lse_form::log2f_then_scale: return Scalars::mul(Scalars::add(max_, cuda_log2f(sum)), ln2());
      default: break;
    }
    const number log2_sum = lg2(tables(), sum), log_sum = Scalars::mul(log2_sum, ln2());
    switch (rules_->lse) {
      case lse_form::base2_times_max: return Scalars::fma(Scalars::mul(scales_.scale_log2, ln2()), max_, log_sum);
      case lse_form::scale_times_max: return Scalars::fma(max_, scales_.scale, log_sum);
      case lse_form::scaled_max: return Scalars::fma(max_, ln2(), log_sum);
      case lse_form::scaled_max_twice: return Scalars::add(Scalars::mul(max_, ln2()), log_sum);
      case lse_form::sum_then_scale: return Scalars::mul(Scalars::add(max_, log2_sum), ln2());
      case lse_form::fused_log: return Scalars::fma(log2_sum, ln2(), Scalars::mul(max_, ln2()));
      default: break;
    }
    return {};
  }

  ex2_rows const* ex2_;
  forward_rules const* rules_;
  softmax_scales scales_;
  bool seen_ = false;
  number max_ = f32_code::infinity(true);
  std::array<number, 4> lane_sums_{};
  std::array<number, 4> bf16_lane_sums_{};  // sum_of::both
  number true_max_ = f32_code::infinity(true);  // tied_maximum::extended: of the scores so far, and how many are tied with it
  std::int64_t tied_count_ = 0;
  std::vector<number> scratch_;
};

}  // namespace stickybit
