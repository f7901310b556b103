// Where does c join in mma.sync with FP8 operands?
// Found: Last, by an ordinary FP32 or FP16 addition
#include "probes.hpp"

namespace stickybit::gpu {
namespace {

findings ask() {
  findings found;
  try_on(found, {"mma.e5m2.f32"}, {"2^30 - 2^30 at k = 2, 3; c = 1", {{2, pow2(15), pow2(15)}, {3, -pow2(15), pow2(15)}}, 1.0, 0x3f800000, "c is added last", "00000000: aligned with the products"});
  try_on(found, {"mma.e4m3.f32", "mma.e5m2.f32", "mma.e4m3xe5m2.f32"}, {"1 * 1 + c = 2^-24 + 2^-47", {{0, 1.0, 1.0}}, pow2(-24) + pow2(-47), 0x3f800001, "rounded to nearest", "3f800000: cut"});
  try_on(found, {"mma.e4m3.f32", "mma.e5m2.f32"}, {"products 0, c = 1 + 2^-23", {}, 1.0 + pow2(-23), 0x3f800001, "c is kept whole", "3f800000: cut"});
  try_on(found, {"mma.e4m3.f16", "mma.e5m2.f16"}, {"2 * 1 + c = 2^-10, FP16", {{0, 2.0, 1.0}}, pow2(-10), 0x4000, "c is added in FP16, a tie to even", "4001: rounded up"});
  return found;
}

}  // namespace

extern const probe fp8_mma_c{"fp8_mma_c", "Where does c join in mma.sync with FP8 operands?", "Last, by an ordinary FP32 or FP16 addition", ask};

}  // namespace stickybit::gpu
