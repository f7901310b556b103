#include "stickybit/machine/machine.hpp"

#include <fmt/format.h>

#include <array>
#include <string>

namespace stickybit {

std::span<machine const* const> all_machines() noexcept {
  static const std::array machines{&sm80(), &sm89(), &sm90(), &sm100()};
  return machines;
}

machine_unit const& unit_named(std::string_view name) {
  std::string known;
  for (machine const* m : all_machines())
    for (machine_unit const& unit : m->units) {
      if (unit.name == name) return unit;
      known += fmt::format("{}{}", known.empty() ? "" : ", ", unit.name);
    }
  throw unknown_name(fmt::format("unknown unit '{}': expected one of {}", name, known));
}

}  // namespace stickybit
