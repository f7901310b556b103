// Which sign has a negative sum that rounds to zero?
// Found: None: +0
#include "probes.hpp"

namespace stickybit::gpu {
namespace {

findings ask() {
  findings found;
  try_on(found, {"mma.bf16.f32", "wgmma.bf16.f32", "mma.tf32.f32", "wgmma.tf32.f32"}, {"-2^-75 * 2^-75", {{0, -pow2(-75), pow2(-75)}}, 0, 0x00000000, "+0", "80000000: the sign is kept"});
  try_on(found, {"mma.f16.f16", "wgmma.f16.f16", "mma.e5m2.f16", "wgmma.e5m2.f16"}, {"-2^-13 * 2^-13", {{0, -pow2(-13), pow2(-13)}}, 0, 0x0000, "+0", "8000: the sign is kept"});
  return found;
}

}  // namespace

extern const probe underflow_sign{"underflow_sign", "Which sign has a negative sum that rounds to zero?", "None: +0", ask};

}  // namespace stickybit::gpu
