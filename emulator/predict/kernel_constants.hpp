#pragma once
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "rounded_value.hpp"
#include "stickybit/schedule/attention_schedule.hpp"

namespace stickybit::detail {

/// The constants by which a kernel multiplies scores, as FP32 holds them, and how often it rounds on the way to a weight of the backward pass.
struct kernel_constants {
  double score_to_natural;  ///< backward: exponent per raw score, in natural units
  double lse_to_natural;    ///< backward: exponent per unit of the stored lse
  double max_to_lse;        ///< forward: stored lse per raw score of the maximum
  bool lse_rounded_twice;   ///< the lse is rounded again when it is brought to log2
  double score_roundings;     ///< of the scaled score by itself
  double argument_roundings;  ///< of its difference from the lse, beside the last
};

[[nodiscard]] inline kernel_constants constants_of(attention_schedule const& schedule, double scale) {
  const double ln2 = std::log(2.0), log2_e = double(float(1 / ln2)), ln2_f = double(float(ln2)), s = double(float(scale));
  const double scale_log2 = double(std::bit_cast<float>(scale_log2_bits(schedule.rules.scale, scale)));
  kernel_constants k{};
  switch (schedule.backward.weight) {
    case weight_form::fused: k = {scale_log2 * ln2, log2_e * ln2, 0, true, 0, 0}; break;
    case weight_form::scaled_difference: k = {scale_log2 * ln2, log2_e * ln2, 0, true, 1, 0}; break;
    case weight_form::natural: k = {s, 1, 0, false, 1, 0}; break;
    case weight_form::difference_scaled: k = {s * log2_e * ln2, log2_e * ln2, 0, false, 1, 1}; break;
    case weight_form::fused_difference: k = {s * log2_e * ln2, log2_e * ln2, 0, false, 0, 1}; break;
  }
  switch (schedule.rules.lse) {
    case lse_form::base2_times_max: k.max_to_lse = double(float(scale_log2 * ln2_f)); break;
    case lse_form::scale_times_max: k.max_to_lse = s; break;
    case lse_form::natural: k.max_to_lse = s; break;
    case lse_form::divided_max_logf: k.max_to_lse = s * log2_e / log2_e; break;
    case lse_form::scaled_max:
    case lse_form::scaled_max_twice:
    case lse_form::scaled_max_logf: k.max_to_lse = scale_log2 * ln2_f; break;
    case lse_form::fused_log:
    case lse_form::sum_then_scale:
    case lse_form::log2f_then_scale: k.max_to_lse = s * log2_e * ln2_f; break;
  }
  return k;
}

/// Is the scaled maximum rounded before it is subtracted inside a fused operation? Then the exponent of the maximum itself is what that
/// rounding left over, not 0.
[[nodiscard]] constexpr bool leaves_residual(exponent_form form) noexcept {
  return form == exponent_form::fused || form == exponent_form::fused_scaled_max || form == exponent_form::fused_twice_scaled;
}

/// How often a scaled score is rounded by itself before the maximum is subtracted.
[[nodiscard]] constexpr int roundings_of_scaled_score(exponent_form form) noexcept {
  switch (form) {
    case exponent_form::fused:
    case exponent_form::difference_scaled:
    case exponent_form::fused_scaled_max: return 0;
    case exponent_form::scaled_difference:
    case exponent_form::scaled_scores:
    case exponent_form::natural:
    case exponent_form::fused_twice_scaled: return 1;
    case exponent_form::twice_scaled: return 2;
  }
  return 0;
}

/// The order in which the columns of dO ∘ O are added to delta, as lanes of columns; joins add the lanes at the end.
struct delta_lanes {
  std::int64_t lanes, run, period;  ///< lane t owns the columns t·run … t·run + run − 1 of every `period`
};
[[nodiscard]] inline delta_lanes lanes_of(delta_sum form, std::int64_t d) {
  const auto eights = [](std::uint64_t lanes) { return delta_lanes{std::int64_t(lanes), 8, std::int64_t(8 * lanes)}; };
  switch (form) {
    case delta_sum::lanes_of_eight:
    case delta_sum::pairs_of_eight: return eights(std::bit_ceil(std::uint64_t(d) / 8));
    case delta_sum::eight_lanes: return eights(8);
    case delta_sum::few_lanes: return eights(std::bit_ceil(std::max<std::uint64_t>(1, std::uint64_t(d) / 32)));
    default: return {1, d, d};
  }
}

}  // namespace stickybit::detail
