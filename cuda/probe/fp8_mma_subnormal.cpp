// Which exponent has an E4M3 subnormal in mma.sync?
// Found: That of its leading bit: it became a normal FP16 number. With E4M3 alone that changes no result; with E5M2 it does
#include "probes.hpp"

namespace stickybit::gpu {
namespace {

findings ask() {
  findings found;
  hardware_way const& mma = way_of("mma.e4m3xe5m2.f32");
  machine_unit unit = *find_unit("sm90.mma.e4m3xe5m2.f32");
  const auto cases = random_cases("mma.e4m3xe5m2.f32", {"subnormal", "subnormal_level"}, 1 << 14);
  const std::size_t normal = mismatches_with(mma, unit, cases);
  unit.converts_to_f16 = false;
  const std::size_t subnormal = mismatches_with(mma, unit, cases);
  found.say(normal == 0, "exponent of the leading bit: " + std::to_string(normal) + " of " + std::to_string(cases.size()) + " results differ");
  found.say(subnormal != 0, "exponent -6: " + std::to_string(subnormal) + " of " + std::to_string(cases.size()) + " results differ");
  try_on(found, {"wgmma.e4m3xe5m2.f32"}, {"2^-9 * 2^15 at k = 0 (exponent 6 or 9), 2^-7 at k = 1", {{0, pow2(-9), pow2(15)}, {1, pow2(-5), pow2(-2)}}, 0, 0x42800000, "wgmma: exponent 9, 2^-7 is cut", "42801000: exponent 6"});
  return found;
}

}  // namespace

extern const probe fp8_mma_subnormal{"fp8_mma_subnormal", "Which exponent has an E4M3 subnormal in mma.sync?", "That of its leading bit: it became a normal FP16 number. With E4M3 alone that changes no result; with E5M2 it does", ask};

}  // namespace stickybit::gpu
