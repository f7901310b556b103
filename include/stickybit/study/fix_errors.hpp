#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "stickybit/study/gradient_errors.hpp"
#include "stickybit/study/tied_rows.hpp"

namespace stickybit {

/// What is exact of a call, computed once for all fixes.
struct measured_call {
  std::string name;
  attention_problem problem;
  exact_call gradients;
  tied_rows output;

  /// @throws as exact_call and tied_rows
  measured_call(std::string name, attention_problem problem, mask_alignment mask);
};

/// One fix on one call: each figure that of the head that errs most (the medians) or the mean over heads (the bias).
struct fix_errors {
  double dq_before_cast = 0, dq = 0, dk_before_cast = 0, dk = 0;  ///< see relative_error; NaN where every exact row is 0
  double o_bias_ulp = 0, o_bias_error_ulp = 0;                    ///< signed error of O in BF16 ulp, its standard error over rows
  double tied_bias_ulp = 0, tied_bias_error_ulp = 0;              ///< the same on rows with a tied maximum; NaN without such rows

  /// The larger of dQ's and dK's error, what a user of the BF16 gradients has; NaN only if both are.
  [[nodiscard]] double worst() const noexcept;
};

/// Forward and backward pass of the schedule with the fixes, in its own arithmetic. Beside the fixes of with_fixes, one that only this
/// study knows: "winner", the projection of gproj with all weight on the row's largest key w, dQ_i − s e_i k_w and dK_w − s e_i q_i with e
/// the row sum of the cast dS. It takes no matrix product: a gather and a scatter of s rows. Simulated: e is summed in double and rounded
/// to FP32; the corrections are made in double on the FP32 gradients, then cast.
/// @throws invalid_fix; as attention_forward and attention_backward
[[nodiscard]] fix_errors errors_of_fix(attention_schedule const& schedule, std::string_view fixes, measured_call const& call, engine how = engine::fast);

/// Several, in parallel.
[[nodiscard]] std::vector<fix_errors> errors_of_fixes(attention_schedule const& schedule, std::vector<std::string> const& fixes, measured_call const& call,
                                                      engine how = engine::fast);

/// with_fixes of the text without "winner".  @throws invalid_fix
struct study_fix {
  attention_schedule schedule;
  bool winner = false;
};
[[nodiscard]] study_fix parse_study_fix(attention_schedule const& schedule, std::string_view fixes);

/// The exact gradients, rounded once: what no kernel with BF16 outputs is under. No bias.
[[nodiscard]] fix_errors errors_of_cast(measured_call const& call);

/// The candidates of the study: each fix alone, and combinations that could make sense.
[[nodiscard]] std::vector<std::string> const& candidate_fixes();

/// Fixes over many calls; errors[call][fix].
struct fix_table {
  std::vector<std::string> calls, fixes;
  std::vector<std::vector<fix_errors>> errors;
  std::vector<fix_errors> cast;  ///< by call
};

/// One fix over all calls.
struct fix_summary {
  std::string fix;
  std::int64_t calls = 0;         ///< with a gradient that is not 0
  std::int64_t best_cheap = 0;    ///< calls where it is the cheapest of the best below gproj's cost
  std::int64_t above_one_percent = 0, worse_than_none = 0;  ///< dQ or dK after the cast; worse: by more than a tenth
  double median = 0, largest = 0; ///< over calls, of the worse of dQ and dK after the cast
  /// Largest ratio to gproj's error over the calls, of dQ and of dK, after and before the cast.
  double dq_to_gproj = 0, dk_to_gproj = 0, dq_to_gproj_before_cast = 0, dk_to_gproj_before_cast = 0;
  std::string worst_call;         ///< of the largest ratio after the cast
  std::int64_t beyond_twice_gproj = 0;  ///< calls where dQ or dK after the cast is more than twice gproj's
};

/// The index of the best fix cheaper than gproj in products, for one call: the least error within a tenth, and of these the least cost.
[[nodiscard]] std::size_t best_cheap_fix(fix_table const& table, std::size_t call);

/// By fix. @throws std::invalid_argument unless `none` and `gproj` are among the fixes
[[nodiscard]] std::vector<fix_summary> summarize(fix_table const& table);

}  // namespace stickybit
