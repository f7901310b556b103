#pragma once
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stickybit/bias/call_reference.hpp"

namespace stickybit {

/// Names of the tensors that a bias is told of, in the order of computation.
inline constexpr std::array<std::string_view, 7> bias_tensors{"o", "delta", "dp", "ds", "dq", "dk", "dv"};

/// What a call gets wrong under one schedule.
struct call_errors {
  std::optional<output_bias> output;
  std::optional<gradient_bias> gradients;  ///< none without dO, or where the schedule has no backward pass

  /// By name; null where there is none, or where nothing of it was counted.
  [[nodiscard]] tensor_error const* find(std::string_view tensor) const noexcept;
};

/// One fix on the call, really emulated. dp and ds are not compared.
struct fix_trial {
  std::string fix;
  call_errors errors;
};

/// The schedule with each of the fixes; those that the schedule does not take (invalid_fix, unsupported_call) are left out.
[[nodiscard]] std::vector<fix_trial> try_fixes(attention_schedule const& schedule, call_reference const& reference, std::vector<std::string> const& fixes,
                                               engine how = engine::fast, progress const& report = {});

}  // namespace stickybit
