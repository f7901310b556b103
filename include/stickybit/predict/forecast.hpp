#pragma once
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "stickybit/exact/rows.hpp"
#include "stickybit/schedule/attention_schedule.hpp"

// The bias of an attention kernel before it runs: what its roundings are expected to do to O, delta, dP, dS, dQ, dK and dV, from the
// inputs and the schedule's rules. No bit is emulated: the model computes attention once in double and sends the mean and the variance of
// every rounding through it. docs/prediction.md says how, and where it is right.

namespace stickybit {

/// A call whose bias is not predicted; what() says why.
class no_forecast : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// The query heads that share one key head.
struct forecast_inputs {
  bf16_rows k, v;              ///< {s_k, d}
  std::vector<bf16_rows> q;    ///< of each query head {s, d}
  std::vector<bf16_rows> d_o;  ///< likewise; empty: O alone is predicted
  double softmax_scale = 1;
  mask_alignment mask = mask_alignment::none;
  std::int64_t key_parts = 1;  ///< parts of the keys, where the kernel splits them
};

/// Expected error of a mean of errors: value − exact, in the tensor's own units; over what the model takes as random.
///
/// Part of the variance comes in steps: a value that is known to lie well inside its rounding interval is rounded one way but for a small
/// chance. Where hardly one such step is to be expected the mean is normal without it, and two standard errors mean what they should.
struct expected_mean {
  double mean = 0;
  double smooth = 0;  ///< variance of the mean, without the steps
  double jumps = 0;   ///< variance of the mean that comes in steps
  double fourth = 0;  ///< fourth cumulant of the steps: Σ chance·step⁴ of the mean
  double ulp = 0;     ///< of the tensor's format at the root mean square of the exact values that the mean is over; 0 where they are all 0

  /// How many steps are to be expected, were they of one size.
  [[nodiscard]] double expected_jumps() const noexcept { return fourth == 0 ? 0 : jumps * jumps / fourth; }
  /// Steps too rare to count: fewer than one in 32 means has one.
  [[nodiscard]] bool jumps_are_rare() const noexcept { return expected_jumps() < 1.0 / 32; }
  /// Of the mean; without the steps where they are rare.
  [[nodiscard]] double variance() const noexcept { return smooth + (jumps_are_rare() ? 0 : jumps); }
  [[nodiscard]] double standard_error() const noexcept;
  /// Is the mean near to normal? Not where a few steps make most of its variance.
  [[nodiscard]] bool is_normal() const noexcept { return jumps_are_rare() || fourth <= 0.8 * (smooth + jumps) * (smooth + jumps); }
};

/// Expected errors of a matrix, element by element, and of the means over its columns and rows.
struct expected_matrix {
  std::int64_t rows = 0, columns = 0;
  std::vector<double> mean, variance;  ///< [rows × columns]
  std::vector<expected_mean> by_column;  ///< {columns}: the mean over rows that see a key
  std::vector<expected_mean> by_row;     ///< {rows}: the mean over columns
  expected_mean all;                     ///< the mean over everything
};

/// Expected errors of one query head; of delta, dP and dS row by row (dP and dS: the mean over the row's visible keys).
struct head_forecast {
  expected_matrix o, dq;
  std::vector<expected_mean> delta, dp, ds;  ///< {s}; the ulp of delta is that of the whole head
};

/// Of a key head and its query heads.
struct forecast {
  std::vector<head_forecast> heads;
  expected_matrix dk, dv;
};

/// The expected mean signed error of a whole tensor, in ulp as tensor_error has it: the mean over columns, each in its own ulp (rows, for
/// delta, dP and dS).
struct tensor_forecast {
  std::string_view tensor;  ///< o, delta, dp, ds, dq, dk, dv
  double mean_ulp = 0, standard_error_ulp = 0;
  std::int64_t units = 0;      ///< columns or rows in it
  std::int64_t not_normal = 0; ///< of these, how many are decided by a few steps
};

/// Of all key heads of a call; O alone where there are no gradients.
[[nodiscard]] std::vector<tensor_forecast> summarize(std::span<forecast const> heads);

/// Does the model have the schedule's backward pass? Its forward pass alone is predicted where not.
[[nodiscard]] bool predicts_gradients(attention_schedule const& schedule) noexcept;

/// Full form: cost of about four passes of attention in double. Memory O((s + s_k)·d) and 64 rows of S a thread.
/// Assumptions: docs/prediction.md. Rows without a visible key are left out of means.
/// @throws no_forecast for a schedule or fix that the model does not know, a call without keys or queries, inputs that are NaN or infinite, or
///         of which a tensor's largest element or the scale is beyond 2^±60;
///         std::invalid_argument where shapes do not fit or the scale is not above 0
[[nodiscard]] forecast predict_bias(attention_schedule const& schedule, forecast_inputs const& inputs);

}  // namespace stickybit
