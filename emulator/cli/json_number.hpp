#pragma once
#include <cmath>
#include <nlohmann/json.hpp>

namespace stickybit::cli {

/// null where JSON has no number: infinities and NaN.
inline nlohmann::json json_number(double x) { return std::isfinite(x) ? nlohmann::json(x) : nlohmann::json(); }

}  // namespace stickybit::cli
