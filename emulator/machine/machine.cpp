#include "stickybit/machine/machine.hpp"

#include <fmt/format.h>

#include <array>
#include <string>

namespace stickybit {

std::span<machine const* const> all_machines() noexcept {
  static const std::array machines{&sm70(), &sm75(), &sm80(), &sm86(), &sm89(), &sm90(), &sm100(), &sm120(), &cdna1(), &cdna2(), &cdna3()};
  return machines;
}

machine_unit const& unit_named(std::string_view name) {
  const std::string_view wanted = name.substr(0, name.find('.'));
  std::string machines, units;
  for (machine const* m : all_machines()) {
    machines += fmt::format("{}{}", machines.empty() ? "" : ", ", m->name);
    for (machine_unit const& unit : m->units) {
      if (unit.name == name) return unit;
      if (m->name == wanted) units += fmt::format("{}{}", units.empty() ? "" : ", ", unit.name);
    }
  }
  if (units.empty()) throw unknown_name(fmt::format("unknown unit '{}': expected MACHINE.INSTRUCTION.INPUT.OUTPUT, such as sm90.wgmma.bf16.f32, of a machine among {}", name, machines));
  throw unknown_name(fmt::format("unknown unit '{}': expected one of {}", name, units));
}

}  // namespace stickybit
