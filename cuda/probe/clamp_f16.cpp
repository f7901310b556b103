// How far down does E go, FP16 results?
// Found: E is at least -21: the last bit kept is 2^-46
#include "probes.hpp"

namespace stickybit::gpu {
namespace {

findings ask() {
  findings found;
  try_on(found, {"mma.f16.f16", "wgmma.f16.f16"}, {"2^-25 + 2^-46", {{0, pow2(-13), pow2(-12)}, {1, pow2(-23), pow2(-23)}}, 0, 0x0001, "2^-46 is kept, above the tie", "0000: it is not"});
  try_on(found, {"mma.f16.f16", "wgmma.f16.f16"}, {"2^-25 + 2^-47", {{0, pow2(-13), pow2(-12)}, {1, pow2(-24), pow2(-23)}}, 0, 0x0000, "2^-47 is not kept, a tie to even", "0001: it is, there is no limit"});
  return found;
}

}  // namespace

extern const probe clamp_f16{"clamp_f16", "How far down does E go, FP16 results?", "E is at least -21: the last bit kept is 2^-46", ask};

}  // namespace stickybit::gpu
