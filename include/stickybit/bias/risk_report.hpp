#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "stickybit/bias/fix_trials.hpp"
#include "stickybit/bias/warnings.hpp"

// What is wrong with a call, in findings and in plain words: what is biased, which way, how much, why, which fix removes it, what remains.
//
// Rules.
//  biased    a mean signed error beyond `limit` standard errors (over rows and over columns: see uncertainty_of_mean). The limit is 5 for one tensor (two-sided p = 5.7e-7), raised so that the
//            chance of one such finding among all tensors looked at stays the same; for single columns, among all columns of all tensors.
//            Few rows or columns make a standard error uncertain: the limit is then Student's.
//  wrong     the median over rows of |value − exact|₂/|exact|₂ of O, dQ, dK or dV is 1% or more; the cast to BF16 alone costs 0.17%.
//  small     a mean below a hundredth of a BF16 ulp (of delta, dP: 655 FP32 ulp): it is told, no fix is tried.
//  removes   of a mean: what is left, and two of its standard errors on top, is at most a quarter of what was there. Of columns: none is
//            biased any more. Of rows: below 0.5%, three times what the cast costs.
//  lessens   likewise: at most three quarters; at most half of the columns; at most half.
// A fix is found by emulating the call with it, never by guessing.

namespace stickybit {

/// What a prediction without emulation says of a tensor's mean signed error.
struct tensor_prediction {
  double mean_ulp = 0, standard_error_ulp = 0;
};

/// One rounding point's part of a tensor's error: of its mean, and its own root mean square.
struct point_share {
  std::string point;
  double mean_ulp = 0, rms_ulp = 0;
};

/// What a report is made of. Maps are by the names in bias_tensors; what is not there is not said.
struct risk_inputs {
  call_errors errors;
  early_warnings warnings;
  std::map<std::string, std::vector<point_share>, std::less<>> shares;
  std::map<std::string, tensor_prediction, std::less<>> predicted;
};

enum class finding_kind : std::uint8_t {
  mean,     ///< the tensor's mean signed error
  columns,  ///< means of single columns, which cancel in the tensor's mean
  rows,     ///< the relative error of rows
};
enum class fix_effect : std::uint8_t { not_tried, none, lessens, removes };
[[nodiscard]] std::string_view name_of(finding_kind kind) noexcept;
[[nodiscard]] std::string_view name_of(fix_effect effect) noexcept;

/// A size of what is wrong. mean: ulp, and its standard error. columns: how many, and 0. rows: relative error, and 0.
struct finding_size {
  double value = 0, error = 0;
};

struct tried_fix {
  std::string fix = {};
  finding_size after = {};
  fix_effect effect = fix_effect::none;
  std::vector<std::string> worsens = {};  ///< "dk 2.3% to 14%": tensors whose rows err by more than a tenth more than before
};

struct finding {
  std::string tensor;
  finding_kind kind = finding_kind::mean;
  int direction = 0;  ///< +1 too high, −1 too low (mean), 0 (columns of both signs, rows)
  finding_size before = {};
  double significance = 0;     ///< standard errors: of the mean, or of the most significant column; 0 for rows
  double largest_column = 0;   ///< columns: mean signed error of the most significant one, ulp
  std::int64_t of_columns = 0; ///< columns: how many there are
  bool small = false;
  std::string cause = {};
  finding_size floor = {};        ///< the same of the exact values rounded once; only where `has_floor`
  bool has_floor = false;
  tensor_prediction predicted = {};  ///< of the mean; only where `has_prediction`
  bool has_prediction = false;
  fix_effect effect = fix_effect::not_tried;
  tried_fix best = {};            ///< the cheapest that removes it, else the one that leaves least; where effect is lessens or removes
  std::vector<tried_fix> tried = {};  ///< all of them, cheapest first
};

/// A tensor that shows no bias, and the smallest mean that would have been seen.
struct unbiased_tensor {
  std::string tensor;
  double detectable_ulp = 0;
};

struct risk_report {
  std::int64_t tensors = 0;    ///< looked at
  double limit = 0;            ///< standard errors, of means
  std::vector<finding> findings;
  std::vector<unbiased_tensor> unbiased;
  early_warnings warnings;
  std::vector<std::string> sentences;  ///< the report in plain words
};

/// The limit in standard errors when `looks` means are looked at.  @pre looks > 0
[[nodiscard]] double limit_for(std::int64_t looks) noexcept;
/// The same for a standard error that is itself uncertain: Student's t with so many degrees of freedom, by its normal equivalent. Infinite
/// where equal signs alone could not be that rare: 2^-freedom above the limit's p (so for a single row).
/// @source D. L. Wallace, "Bounds on normal approximations to Student's and the chi-square distributions", Ann. Math. Stat. 30(4), 1959
[[nodiscard]] double limit_for(std::int64_t looks, double freedom) noexcept;

/// Standard error of a tensor's mean signed error, in its ulp: that over rows and that over the columns' means together, √(r² + c²), because
/// elements of a row share its weights, and where all rows are alike those of a column share their rounding. Over rows alone for a tensor
/// without columns, or with one a head. Degrees of freedom: Satterthwaite's.
struct mean_uncertainty {
  double standard_error = 0, freedom = 0;
};
[[nodiscard]] mean_uncertainty uncertainty_of_mean(tensor_error const& e) noexcept;

/// The mean from which on a tensor is called biased, in its ulp, when `tensors` are looked at.
[[nodiscard]] double detectable_mean(tensor_error const& e, std::int64_t tensors) noexcept;

/// What is biased or wrong; causes and fixes are still open.
[[nodiscard]] std::vector<finding> find_risks(call_errors const& errors);

/// The fixes that could cure a finding, cheapest first.
[[nodiscard]] std::vector<std::string> candidate_fixes_for(finding const& f, risk_inputs const& inputs);

/// The whole report. Fixes are emulated only where something was found; O's rounding points are found where O is biased and `shares` does not
/// have them. The inputs are of `schedule` and `reference`.
[[nodiscard]] risk_report report_risks(attention_schedule const& schedule, call_reference const& reference, risk_inputs inputs, engine how = engine::fast,
                                       progress const& report = {});

/// The sentences of a report; each carries its numbers.
[[nodiscard]] std::vector<std::string> sentences_of(risk_report const& report);

}  // namespace stickybit
