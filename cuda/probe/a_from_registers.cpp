// Does wgmma give the same for A from registers and from shared memory?
// Found: Yes
#include "probes.hpp"

namespace stickybit::gpu {
namespace {

findings ask() {
  findings found;
  for (std::string_view unit : {std::string_view("wgmma.bf16.f32"), std::string_view("wgmma.f16.f32"), std::string_view("wgmma.f16.f16"), std::string_view("wgmma.tf32.f32"), std::string_view("wgmma.e4m3.f32")}) {
    const auto cases = random_cases(unit, {"narrow", "wide", "cancelling", "special", "all_bits", "clamp", "quantum_edge"}, 1 << 13);
    say_differing(found, true, unit, results_of(way_of(unit, "A in registers"), cases), results_of(way_of(unit, "A in shared memory"), cases));
  }
  return found;
}

}  // namespace

extern const probe a_from_registers{"a_from_registers", "Does wgmma give the same for A from registers and from shared memory?", "Yes", ask};

}  // namespace stickybit::gpu
