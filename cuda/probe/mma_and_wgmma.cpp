// Do mma.sync and wgmma give the same?
// Found: Yes for 16-bit operands and TF32; not for FP8
#include "probes.hpp"

namespace stickybit::gpu {
namespace {

findings ask() {
  findings found;
  for (auto [mma, wgmma, equal] : {std::tuple{"mma.bf16.f32", "wgmma.bf16.f32", true}, std::tuple{"mma.f16.f32", "wgmma.f16.f32", true}, std::tuple{"mma.f16.f16", "wgmma.f16.f16", true},
                                  std::tuple{"mma.tf32.f32", "wgmma.tf32.f32", true}, std::tuple{"mma.e4m3.f32", "wgmma.e4m3.f32", false}, std::tuple{"mma.e5m2.f16", "wgmma.e5m2.f16", false}}) {
    const auto cases = random_cases(mma, {"narrow", "wide", "cancelling", "special", "all_bits", "clamp", "quantum_edge", "signed_zero"}, 1 << 13);
    say_differing(found, equal, std::string(mma) + " and " + wgmma, results_of(way_of(mma), cases), results_of(way_of(wgmma), cases));
  }
  return found;
}

}  // namespace

extern const probe mma_and_wgmma{"mma_and_wgmma", "Do mma.sync and wgmma give the same?", "Yes for 16-bit operands and TF32; not for FP8", ask};

}  // namespace stickybit::gpu
