// Does mma.sync TF32 k8 add 8 products in one block, or 4 and 4?
// Found: 8
#include "probes.hpp"

namespace stickybit::gpu {
namespace {

findings ask() {
  findings found;
  try_on(found, {"mma.tf32.f32", "wgmma.tf32.f32"}, {"1 + 1 at k = 0, 1; 2^26 - 2^26 at k = 4, 5", {{0, 1.0, 1.0}, {1, 1.0, 1.0}, {4, pow2(26), 1.0}, {5, -pow2(26), 1.0}}, 0, 0x00000000, "one block of 8", "40000000: 4 and 4"});
  return found;
}

}  // namespace

extern const probe tf32_block{"tf32_block", "Does mma.sync TF32 k8 add 8 products in one block, or 4 and 4?", "8", ask};

}  // namespace stickybit::gpu
