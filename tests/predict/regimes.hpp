#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stickybit/attention/problem.hpp"

namespace stickybit::test {

/// A family of calls to calibrate on.
struct calibration_regime {
  std::string name;
  attention_problem problem;
  std::string_view biased = {};  ///< the tensor in which it was built to be biased; empty: not built for that
};

/// The named regimes, with heads enough for 1024 columns: known while the model was made.
[[nodiscard]] std::vector<std::string_view> first_regimes();
[[nodiscard]] calibration_regime first_regime(std::string_view name);

/// Regimes written after the model was frozen.
[[nodiscard]] std::vector<std::string_view> later_regimes();
[[nodiscard]] calibration_regime later_regime(std::string_view name);

}  // namespace stickybit::test
