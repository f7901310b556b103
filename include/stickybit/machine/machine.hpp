#pragma once
#include <span>
#include <stdexcept>
#include <string_view>

#include "stickybit/machine/special_functions.hpp"
#include "stickybit/machine/unit.hpp"

namespace stickybit {

/// A GPU (or another way to compute) as data: emulator/machine/ has one file for each.
struct machine {
  std::string_view name;     ///< "sm90"
  std::string_view devices;  ///< "H100, H200"
  std::span<machine_unit const> units;
  special_function_tables const* special_functions;  ///< null where the machine has none that we know
  std::span<fact const> special_function_facts;
};

/// No machine or unit of that name; what() lists those that there are.
class unknown_name : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

[[nodiscard]] machine const& sm70() noexcept;
[[nodiscard]] machine const& sm75() noexcept;
[[nodiscard]] machine const& sm80() noexcept;
[[nodiscard]] machine const& sm86() noexcept;
[[nodiscard]] machine const& sm89() noexcept;
[[nodiscard]] machine const& sm90() noexcept;
[[nodiscard]] machine const& sm100() noexcept;
[[nodiscard]] machine const& sm120() noexcept;
[[nodiscard]] machine const& cdna1() noexcept;
[[nodiscard]] machine const& cdna2() noexcept;
[[nodiscard]] machine const& cdna3() noexcept;

[[nodiscard]] std::span<machine const* const> all_machines() noexcept;

/// @throws unknown_name
[[nodiscard]] machine_unit const& unit_named(std::string_view name);

}  // namespace stickybit
