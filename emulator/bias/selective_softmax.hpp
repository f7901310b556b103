#pragma once
#include <array>
#include <span>
#include <vector>

#include "selective_arithmetic.hpp"

namespace stickybit::detail {

/// online_softmax on double_double, with chosen rounding points: the same steps in the same order.
class selective_softmax {
 public:
  selective_softmax(call_plan const& plan, selective_arithmetic const& arithmetic) : rules_(*plan.rules), arithmetic_(arithmetic) {}

  void restart() noexcept;
  [[nodiscard]] bool empty() const noexcept { return !seen_; }

  /// Scores (masked ones −infinity) become weights, in place. Returns the factor for O.
  double_double take_block(std::span<double_double> scores, exponent_form form, bool guard_weights, bool guard_rescale);
  [[nodiscard]] double_double sum() const { return join(lane_sums_); }
  [[nodiscard]] double_double max() const noexcept { return max_; }

 private:
  [[nodiscard]] double_double guarded(bool guard) const noexcept;
  [[nodiscard]] double_double scaled(exponent_form form, double_double score) const;
  [[nodiscard]] double_double argument(exponent_form form, double_double score, double_double scaled_score, double_double subtrahend) const;
  [[nodiscard]] double_double rescale_factor(double_double before, double_double after) const;
  [[nodiscard]] double_double rescaled_plus(double_double sum, double_double rescale, double_double p, bool fused) const;
  [[nodiscard]] double_double summand(double_double weight) const;
  [[nodiscard]] double_double join(std::array<double_double, 4> const& lanes) const;
  [[nodiscard]] double_double plus(double_double a, double_double b) const { return arithmetic_.add(rounding_point::row_sum, a, b); }
  void add_to_sums(std::span<double_double const> weights, double_double rescale);
  void add_slices(std::span<double_double const> weights, double_double rescale);

  forward_rules const& rules_;
  selective_arithmetic const& arithmetic_;
  std::vector<double_double> scaled_;
  bool seen_ = false;
  double_double max_;
  std::array<double_double, 4> lane_sums_{};
};

}  // namespace stickybit::detail
