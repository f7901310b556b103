#pragma once
#include <string>
#include <string_view>

#include "stickybit/bias/risk_report.hpp"

// Words of the risk report.

namespace stickybit::words {

/// "dQ" of "dq".
[[nodiscard]] std::string_view tensor(std::string_view name) noexcept;
/// Two or three significant digits and '%'; "unknown" for NaN.
[[nodiscard]] std::string percent(double x);
/// A warning's value in its unit.
[[nodiscard]] std::string value_in_unit(warning_description const& d, double x);
/// The rounding point with the largest part of the tensor's mean, or of its rms; an empty name where none is known.
[[nodiscard]] point_share largest_share(risk_inputs const& inputs, std::string_view tensor, double point_share::*part = &point_share::mean_ulp);
/// What a fix that helps says about the cause.
[[nodiscard]] std::string_view cured_by(std::string_view fix) noexcept;
/// Why, with its number; empty where nothing is known.
[[nodiscard]] std::string cause(finding const& f, risk_inputs const& inputs);

}  // namespace stickybit::words
