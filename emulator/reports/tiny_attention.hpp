#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "stickybit/attention/backward.hpp"
#include "stickybit/attention/forward.hpp"
#include "stickybit/attention/problem.hpp"
#include "stickybit/exact/attention.hpp"
#include "stickybit/exact/gradients.hpp"
#include "stickybit/schedule/attention_schedule.hpp"

// Attention calls of a few keys, written as numbers, through the real schedules.

namespace stickybit::detail {

/// One head. Rows may be shorter than the head dimension: zeros follow. Every number is one of BF16.
struct tiny_call {
  std::vector<std::vector<double>> q, k, v, d_o = {};
  double softmax_scale = 1;
  std::int64_t head_dim = 64;
  bool causal = false;
};

/// @throws std::logic_error where a number is not one of BF16
[[nodiscard]] attention_problem problem_of(tiny_call const& call);

/// With this scale, ln 2, a score s weighs 2^s: L is 1.
inline constexpr double scale_of_powers = 0.69314718055994530942;

/// Three BF16 numbers that add up to x, to 2^-24 of it: against a query of three ones the score is x.
[[nodiscard]] std::vector<double> score_parts(double x);

/// The schedule with a fix, as the options --schedule and --fix name them.
[[nodiscard]] attention_schedule kernel(std::string_view schedule, std::string_view fix = "none");
/// "fa3", or "fa3 --fix subtract-first".
[[nodiscard]] std::string kernel_name(std::string_view schedule, std::string_view fix = "none");

/// By the definitions, not the fast engine.
[[nodiscard]] forward_result forward_of(attention_schedule const& schedule, attention_problem const& problem);
[[nodiscard]] backward_result backward_of(attention_schedule const& schedule, attention_problem const& problem, score_observer scores = {});

/// The mathematical values of the call under the schedule's own mask.
[[nodiscard]] exact_rows exact_output(attention_schedule const& schedule, attention_problem const& problem);
[[nodiscard]] head_gradients exact_gradient(attention_schedule const& schedule, attention_problem const& problem);

}  // namespace stickybit::detail
