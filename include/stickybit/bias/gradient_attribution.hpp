#pragma once
#include <string_view>
#include <vector>

#include "stickybit/attention/backward.hpp"
#include "stickybit/bias/backward_points.hpp"
#include "stickybit/bias/call_reference.hpp"
#include "stickybit/bias/gradient_bias.hpp"
#include "stickybit/bias/tensor_attribution.hpp"

// Which rounding of a backward kernel makes which error of delta, dP, dS, dQ, dK, dV: attribution.hpp for the backward pass. The pass
// is computed with a chosen set of points: a point in the set rounds as the kernel does, one outside gives the exact value of what it
// is handed. With every point the result is the kernel's, code for code; with none the exact gradient.
//
// Errors are carried as differences from the exact values of exact_gradients, not found by subtraction: dP − delta is the exact
// difference plus what the rounded points changed in dP and in delta, so nothing is lost where a row is nearly one-hot. Numbers that
// no FP32 holds are doubles. An operation at a point that rounds and is handed such numbers rounds the exact result of the operation
// on them, found in double; MUFU takes the argument rounded to FP32 and is corrected by the exact effect of that; a tensor core's chain
// takes operands of 53 bits as in attribution.hpp.

namespace stickybit {

struct gradient_attribution {
  tensor_attribution delta, dp, ds, dq, dk, dv;
};

/// The bias of the gradients by rounding point. Units and directions: tensor_attribution.hpp.
/// Memory beside the problem: about 400 bytes an element of K of one head, 1 kB where several query heads share it; dP and dS are never stored.
/// @param bias  of bias_of_gradients for the same call: its columns' ulps are the unit of delta, dq, dk and dv
/// @throws unsupported_call where the schedule's backward pass has no attribution (not block by block; products in FP32; delta from
///         P ∘ dP; a row-mass correction; smoothed keys), and where the computation with every point is not the kernel's, code for code;
///         std::invalid_argument (no dO, a scale that is not above 0, a bias of another call)
/// @checked every set of points: 128-bit arithmetic, tests/bias/gradient_points.cpp; all points: every capture with dO, seven schedules
[[nodiscard]] gradient_attribution attribute_gradients(attention_schedule const& schedule, attention_problem const& problem, gradient_bias const& bias,
                                                       engine how = engine::fast, progress const& report = {});

/// The same against a reference that is there already, of the schedule's mask and with gradients.
[[nodiscard]] gradient_attribution attribute_gradients(attention_schedule const& schedule, call_reference const& reference, gradient_bias const& bias,
                                                       engine how = engine::fast, progress const& report = {});

/// The points at which the schedule's backward pass rounds in this call, for one tensor: "delta", "dp", "ds", "dq", "dk" or "dv".
/// @throws unsupported_call as attribute_gradients; std::invalid_argument for another name
[[nodiscard]] std::vector<backward_point> backward_points_of(attention_schedule const& schedule, attention_problem const& problem, std::string_view tensor);

/// value − exact, with a chosen set of points. NaN: not finite, or not visible.
struct selective_errors {
  std::vector<double> delta;       // [b, h, s]
  std::vector<double> dp, ds;      // [b, h, s, s_k]
  std::vector<double> dq, dk, dv;  // as the problem's q, k and v
};
/// The backward pass of the whole call with the points in `active`. Holds dP and dS: for small calls.  @throws as attribute_gradients
[[nodiscard]] selective_errors gradient_errors_with(attention_schedule const& schedule, attention_problem const& problem, backward_points active,
                                                   engine how = engine::fast);

}  // namespace stickybit
