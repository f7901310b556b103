// Is a short shape the long one with zeros?
// Found: Yes
#include "probes.hpp"

namespace stickybit::gpu {
namespace {

findings ask() {
  findings found;
  for (auto [k16, k8] : {std::pair{"mma.bf16.f32", "mma.bf16k8.f32"}, std::pair{"mma.f16.f32", "mma.f16k8.f32"}, std::pair{"mma.f16.f16", "mma.f16k8.f16"}, std::pair{"mma.tf32.f32", "mma.tf32k4.f32"}}) {
    const auto cases = random_cases(k8, {"narrow", "wide", "cancelling", "special", "all_bits", "clamp", "quantum_edge", "signed_zero"}, 1 << 13);
    auto filled = cases;
    for (unit_case& x : filled) x.size *= 2;
    say_differing(found, true, std::string(k8) + " and " + k16 + " filled with +0", results_of(way_of(k8), cases), results_of(way_of(k16), filled));
  }
  return found;
}

}  // namespace

extern const probe k8_and_k16{"k8_and_k16", "Is a short shape the long one with zeros?", "Yes", ask};

}  // namespace stickybit::gpu
