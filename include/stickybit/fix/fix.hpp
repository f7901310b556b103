#pragma once
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "stickybit/schedule/attention_schedule.hpp"

// Published and proposed remedies for low-precision attention, each a named transformation of a kernel's schedule. The arithmetic
// itself is in the stages softmax and attention; here are the names, the parameters, and what makes no sense together.

namespace stickybit {

/// A fix that there is not, a parameter that it does not have, or fixes that make no sense together or with a schedule.
class invalid_fix : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// Where a fix can be had, beside the emulator.
enum class in_kernels : std::uint8_t { none, sm90, sm80, both };

struct fix_description {
  std::string_view name;
  std::string_view parameters;  ///< as they are written, with defaults; empty: none
  std::string_view replaces;    ///< what it puts in the place of what
  std::string_view source;
  std::string_view traps;
  in_kernels kernels = in_kernels::none;
};

/// Every fix, `none` first.
[[nodiscard]] std::span<fix_description const> all_fixes() noexcept;

/// The schedule with the fixes of the text applied, left to right: names joined with '+', parameters after a colon with ',' between,
/// "beta:beta=2,tol=1e-3+k-smooth". The order changes nothing. The schedule keeps its name.
/// @throws invalid_fix naming the fix or the pair, what was expected and why
[[nodiscard]] attention_schedule with_fixes(attention_schedule schedule, std::string_view text);

}  // namespace stickybit
