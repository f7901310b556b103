#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "stickybit/bias/call_reference.hpp"

// Numbers of a call that grow before its training fails: what the reports of failures have in common, each with a limit from which on it is
// worth a look. Most are of the inputs alone; the last two are of the schedule's own arithmetic and need dO.

namespace stickybit {

enum class warning_kind : std::uint8_t {
  repeated_maxima,
  repeated_maxima_near,
  repeated_maxima_bf16,
  key_mean_over_spread,
  exponent_ulp,
  largest_exponent,
  rows_at_one,
  weights_at_one,
  row_mass_over_dq,
  row_mass_rounded_output,
  row_mass_different_arithmetic,
  row_mass_score_cast,
  delta_mismatch,
};

/// What a warning is, in words. `limit` NaN: a number that goes with the one before it and is not judged by itself.
struct warning_description {
  warning_kind kind;
  std::string_view name;        ///< stable: in JSON and CSV
  std::string_view title;       ///< in text
  std::string_view unit;        ///< "share" and "relative" (1 is 100%), "ratio" or "log2"
  double limit;
  std::string_view definition;  ///< what is counted, what is left out
  std::string_view reason;      ///< of the limit, with its source
  std::string_view meaning;     ///< one sentence
};

/// All of them; the six that are judged have a limit.
[[nodiscard]] std::span<warning_description const> warning_descriptions() noexcept;
[[nodiscard]] warning_description const& describe(warning_kind kind) noexcept;

/// The numbers of one call. NaN: not defined for this call (no row qualifies, no dO, no backward pass). All heads together.
struct early_warnings {
  static constexpr double undefined = std::numeric_limits<double>::quiet_NaN();

  std::int64_t rows = 0;               ///< query rows of all heads
  std::int64_t rows_without_keys = 0;  ///< left out of everything
  std::int64_t rows_undetermined = 0;  ///< a visible score is NaN or the largest infinite: likewise
  std::int64_t rows_of_one_key = 0;    ///< their weight is 1 whatever the arithmetic: left out of shares of rows and weights
  double repeated_maxima = undefined, repeated_maxima_near = undefined, repeated_maxima_bf16 = undefined;  ///< shares of rows
  double key_mean_over_spread = undefined;  ///< of the key head where it is largest
  std::vector<double> key_mean_by_head;     ///< [b, h_k]
  double largest_exponent = undefined, exponent_ulp = undefined;
  double rows_at_one = undefined, weights_at_one = undefined;  ///< shares of rows and of visible weights
  double row_mass_over_dq = undefined, row_mass_rounded_output = undefined, row_mass_different_arithmetic = undefined, row_mass_score_cast = undefined;
  double delta_mismatch = undefined;
  std::int64_t rows_without_gradient = 0;  ///< exact dQ is 0, or something is not finite: left out of the row mass

  [[nodiscard]] double value(warning_kind kind) const noexcept;
  /// At or above its limit; false for NaN and for what has no limit.
  [[nodiscard]] bool raised(warning_kind kind) const noexcept;
};

/// Those that need no gradient. The schedule decides the mask, and whether keys are smoothed first.
/// Cost: one exact product Q Kᵀ and an exponential each, 1 s for 2 heads of 1024 × 1024, d = 128.
[[nodiscard]] early_warnings warnings_of_inputs(attention_schedule const& schedule, attention_problem const& problem);

/// Adds those of the backward pass.
/// @param bias  of bias_of_gradients with `masses`, for the same reference  @throws std::invalid_argument where there are no masses
void add_gradient_warnings(early_warnings& warnings, attention_schedule const& schedule, call_reference const& reference, gradient_bias const& bias);

}  // namespace stickybit
