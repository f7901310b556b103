#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "../attention/backward_plan.hpp"
#include "backward_sets.hpp"
#include "rounded_doubles.hpp"
#include "selective_delta.hpp"
#include "stickybit/exact/double_double.hpp"

namespace stickybit::detail {

/// One query row in one block of keys: what the kernel has, and what is true. Arrays of the keys that the row sees there.
struct score_row {
  std::span<f32_code const> s, p, dp;
  std::span<bf16_code const> p_cast, ds;
  std::span<double_double const> exact_s, exact_p, exact_dp, exact_ds;  ///< dS without the scale
  double lse;               ///< as the kernel's backward pass reads it
  double_double exact_lse;  ///< natural logarithm
  delta_values delta;
};

/// P and dS of a row with every set of points that a plan needs. One thread's, with its memory.
class score_variants {
 public:
  /// @param softmax_scale  taken as exact
  score_variants(backward_plan const& plan, score_plan const& sets, double softmax_scale);

  void take(score_row const& row);

  // Of the row taken last; valid until the next.
  [[nodiscard]] std::span<double const> ds(std::size_t operand) const noexcept { return ds_[operand]; }
  [[nodiscard]] std::span<double const> p(std::size_t operand) const noexcept { return p_[operand]; }
  [[nodiscard]] std::span<double const> exact_p() const noexcept { return exact_p_; }
  [[nodiscard]] std::span<double const> exact_ds() const noexcept { return exact_ds_; }  ///< with the scale where the rules put it there
  [[nodiscard]] std::span<double const> dp_error() const noexcept { return dp_error_; }

 private:
  void take_exact(score_row const& row);
  void make_weights(score_row const& row, backward_points set, std::vector<double>& w);
  void make_argument(score_row const& row, backward_points set, std::vector<double>& x) const;
  void shift_weights(score_row const& row, backward_points set, std::vector<double>& w);
  void take_special_function(std::vector<double>& x);
  void make_gradients(score_row const& row, score_operand const& operand, std::vector<double>& out);
  void round_gradients(score_row const& row, backward_points set, std::span<double const> w, std::vector<double>& out) const;
  [[nodiscard]] bool natural() const noexcept { return rules_.weight == weight_form::natural; }

  backward_plan const& plan_;
  backward_rules const& rules_;
  score_plan const& sets_;
  rounded_doubles rounded_;
  backward_points all_of_ds_;
  double scale_, scale_f32_, scale_log2_f32_;
  std::vector<double> exact_s_, exact_p_, exact_ds_, exact_difference_;  // dP − delta
  std::vector<double> s_, s_error_, dp_, dp_error_;                      // the kernel's
  std::vector<std::vector<double>> weights_, ds_, p_;
  std::vector<double> cast_weights_;
  std::vector<f32_code> argument_, result_;
};

}  // namespace stickybit::detail
