// Does a product with a zero operand take part in the maximum?
// Found: No
#include "probes.hpp"

namespace stickybit::gpu {
namespace {

findings ask() {
  findings found;
  try_on(found, {"mma.bf16.f32", "wgmma.bf16.f32", "mma.tf32.f32", "wgmma.tf32.f32"}, {"0 * 2^127 + 1 * 2^-30", {{0, 0.0, pow2(127)}, {1, 1.0, pow2(-30)}}, 0, 0x30800000, "a zero is ignored", "00000000: it carries its exponent"});
  try_on(found, {"mma.f16.f32", "wgmma.f16.f32"}, {"0 * 2^15 + 2^-14 * 2^-14", {{0, 0.0, pow2(15)}, {1, pow2(-14), pow2(-14)}}, 0, 0x31800000, "a zero is ignored", "00000000: it has the exponent of the smallest normal number"});
  return found;
}

}  // namespace

extern const probe zero_operand{"zero_operand", "Does a product with a zero operand take part in the maximum?", "No", ask};

}  // namespace stickybit::gpu
