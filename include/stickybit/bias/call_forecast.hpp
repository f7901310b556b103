#pragma once
#include <vector>

#include "stickybit/attention/forward.hpp"
#include "stickybit/predict/forecast.hpp"
#include "stickybit/schedule/attention_schedule.hpp"

namespace stickybit {

/// The prediction of a whole call: one forecast for each key head [b, h_k], with its query heads; O alone without dO, or where the
/// schedule's gradients are not predicted. Nothing is emulated.
/// @throws no_forecast where O is not predicted; unsupported_call where the schedule does not take the call
[[nodiscard]] std::vector<forecast> forecast_call(attention_schedule const& schedule, attention_problem const& problem, progress const& report = {});

}  // namespace stickybit
