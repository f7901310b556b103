// Does wgmma give the same for every width, n = 8, 16, ... 256?
// Found: Yes
#include "probes.hpp"

namespace stickybit::gpu {
namespace {

findings ask() {
  findings found;
  for (std::string_view unit : {std::string_view("wgmma.bf16.f32"), std::string_view("wgmma.e4m3.f32")}) {
    const auto cases = random_cases(unit, {"narrow", "wide", "cancelling", "special", "all_bits", "clamp", "quantum_edge"}, 1 << 12);
    const auto n8 = results_of(way_of(unit), cases);
    for (int n = 16; n <= 256; n += 8) {
      const std::string form = "wgmma n" + std::to_string(n);
      say_differing(found, true, std::string(unit) + " " + form, n8, results_of(way_of(unit, form), cases));
    }
  }
  return found;
}

}  // namespace

extern const probe every_width{"every_width", "Does wgmma give the same for every width, n = 8, 16, ... 256?", "Yes", ask};

}  // namespace stickybit::gpu
