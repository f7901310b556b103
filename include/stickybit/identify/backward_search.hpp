#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "stickybit/attention/forward.hpp"
#include "stickybit/identify/backward_axes.hpp"

namespace stickybit {

/// What a kernel's backward pass gave for a call, in the problem's layout.
struct captured_gradients {
  std::vector<bf16_code> dq, dk, dv;
};

/// One gradient under one schedule.
struct gradient_fit {
  std::int64_t mismatches = 0, total = 0;
  std::string first;  ///< the first mismatch, empty without one
};
/// By stage: dV, dK, dQ.
using gradient_fits = std::array<gradient_fit, 3>;
[[nodiscard]] std::int64_t mismatches_of(gradient_fits const& fits) noexcept;

struct backward_search_result {
  schedule_point point;
  gradient_fits fits;  ///< over the whole capture
  std::int64_t schedules_tried = 0;
  /// For each axis the other values that fit as well, alone: what the capture cannot tell. Empty unless there are no mismatches.
  std::vector<std::vector<std::size_t>> also_fits;
};

/// Looks for the point of the space whose gradients equal the capture, given the captured O and lse, so that a forward pass that is not
/// emulated does not matter. In stages, every combination of the axes of each: those that fit dV on some keys, of these those that fit dK,
/// then dQ on some rows. What fits is compared with the whole capture; keys and rows that then differ join the others.
/// @param forward  captured O and lse  @param seed  of the choice of keys and rows
/// @throws std::invalid_argument when the problem has no dO or a gradient has not the size of its tensor
[[nodiscard]] backward_search_result search_backward(backward_space const& space, attention_problem const& problem, forward_result const& forward,
                                                     captured_gradients const& captured, progress const& report = {}, std::uint64_t seed = 1);

/// The verdict on one named schedule's backward pass.
struct named_gradient_fit {
  std::string schedule;
  gradient_fits fits;
};

/// Every named schedule whose backward pass takes this call, against the capture.
[[nodiscard]] std::vector<named_gradient_fit> fit_named_backward(attention_problem const& problem, forward_result const& forward, captured_gradients const& captured);

}  // namespace stickybit
