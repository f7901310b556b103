#pragma once
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "../record/hardware_ways.hpp"
#include "../record/unit_batch.hpp"

namespace stickybit::gpu {

struct unit_ways {
  machine_unit unit;
  std::vector<hardware_way> ways;
};

/// The units of a machine that some instruction has, `wanted` or "all". @param forms  negated, transposed and wider wgmma too
[[nodiscard]] inline std::vector<unit_ways> units_to_check(std::string_view machine, std::string_view wanted, bool forms) {
  std::vector<unit_ways> units;
  const auto add = [&](std::span<hardware_way const> ways) {
    for (hardware_way const& way : ways) {
      const std::string name = std::string(machine) + "." + std::string(way.unit);
      if (wanted != "all" && name != wanted) continue;
      const auto unit = find_unit(name);
      if (!unit) {
        std::printf("%s: no such unit, %s not compared\n", name.c_str(), std::string(way.instruction).c_str());
        continue;
      }
      unit_ways* same = nullptr;
      for (unit_ways& known : units)
        if (known.unit.name == unit->name) same = &known;
      if (same == nullptr) same = &units.emplace_back(unit_ways{*unit, {}});
      same->ways.push_back(way);
    }
  };
  add(mma_ways());
  add(mma_fp8_ways());
  add(wgmma_ways());
  if (forms) add(wgmma_forms());
  return units;
}

/// Operands whose signs must be changed for a way that negates them: the results of -A·B are then those of A·B.
struct negated_operands {
  bool a, b;
  [[nodiscard]] bool any() const noexcept { return a || b; }
};
[[nodiscard]] inline negated_operands negated_by(hardware_way const& way) {
  const auto has = [&](std::string_view text) { return way.instruction.find(text) != way.instruction.npos; };
  const bool both = has("A and B negated");
  return {both || has("A negated"), both || has("B negated")};
}
[[nodiscard]] inline unit_case as_called(negated_operands negated, case_shape const& shape, unit_case x) {
  for (std::size_t k = 0; k < std::size_t(x.size); ++k) {
    if (negated.a) x.a[k] ^= shape.a.sign();
    if (negated.b) x.b[k] ^= shape.b.sign();
  }
  return x;
}

}  // namespace stickybit::gpu
