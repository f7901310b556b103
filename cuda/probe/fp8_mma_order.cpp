// In which order does mma.sync add FP8 products?
// Found: Two blocks of 16, from 0: k mod 4 = 0 or 1, then k mod 4 = 2 or 3
#include "probes.hpp"

namespace stickybit::gpu {
namespace {

findings ask() {
  findings found;
  try_on(found, {"mma.e5m2.f32"}, {"2^4 at k = 0; 2^30 - 2^30 at k = 2, 3", {{0, 4.0, 4.0}, {2, pow2(15), pow2(15)}, {3, -pow2(15), pow2(15)}}, 0, 0x00000000, "k = 2, 3 come in a later block, and 2^4 is its c", "41800000: they are in an earlier block"});
  try_on(found, {"mma.e5m2.f32"}, {"2^30 - 2^30 at k = 0, 1; 2^4 at k = 2", {{2, 4.0, 4.0}, {0, pow2(15), pow2(15)}, {1, -pow2(15), pow2(15)}}, 0, 0x41800000, "k = 0, 1 come in an earlier block than k = 2", "00000000: they are in one block"});
  try_on(found, {"mma.e5m2.f32"}, {"2^30 - 2^30 at k = 0, 1; 2^4 at k = 28", {{28, 4.0, 4.0}, {0, pow2(15), pow2(15)}, {1, -pow2(15), pow2(15)}}, 0, 0x00000000, "k = 28 is in the block of k = 0", "41800000: it is in another"});
  try_on(found, {"mma.e5m2.f32"}, {"2^30 - 2^30 at k = 0, 1; 2^4 at k = 31", {{31, 4.0, 4.0}, {0, pow2(15), pow2(15)}, {1, -pow2(15), pow2(15)}}, 0, 0x41800000, "k = 31 is in the later block", "00000000: it is in the first"});
  return found;
}

}  // namespace

extern const probe fp8_mma_order{"fp8_mma_order", "In which order does mma.sync add FP8 products?", "Two blocks of 16, from 0: k mod 4 = 0 or 1, then k mod 4 = 2 or 3", ask};

}  // namespace stickybit::gpu
