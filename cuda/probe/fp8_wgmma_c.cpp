// What becomes of c in wgmma with FP8 operands?
// Found: It is cut with the products at 2^(E-13) and the sum has 13 fraction bits: nothing else is left of c, even where all products are 0
#include "probes.hpp"

namespace stickybit::gpu {
namespace {

findings ask() {
  findings found;
  try_on(found, {"wgmma.e4m3.f32", "wgmma.e5m2.f32", "wgmma.e4m3xe5m2.f32", "wgmma.e5m2xe4m3.f32"}, {"products 0, c = 1 + 2^-23", {}, 1.0 + pow2(-23), 0x3f800000, "cut to 13 bits", "3f800001: c is kept"});
  try_on(found, {"wgmma.e4m3.f32", "wgmma.e5m2.f32"}, {"products 0, c = 2^-149", {}, pow2(-149), 0x00000000, "E is at least -133, and 2^-149 below 2^-146", "00000001: c is kept"});
  try_on(found, {"wgmma.e4m3.f32", "wgmma.e5m2.f32"}, {"products 0, c = 2^-139", {}, pow2(-139), 0x00000400, "13 bits below 2^-126 are kept", "00000000: they are not"});
  try_on(found, {"wgmma.e4m3.f32", "wgmma.e5m2.f32"}, {"1 * 1 + c = 2^-13", {{0, 1.0, 1.0}}, pow2(-13), 0x3f800400, "2^-13 is kept", "3f800000: it is not"});
  try_on(found, {"wgmma.e4m3.f32", "wgmma.e5m2.f32"}, {"1 * 1 + c = 2^-14", {{0, 1.0, 1.0}}, pow2(-14), 0x3f800000, "2^-14 is not kept", "3f800200: it is"});
  return found;
}

}  // namespace

extern const probe fp8_wgmma_c{"fp8_wgmma_c", "What becomes of c in wgmma with FP8 operands?", "It is cut with the products at 2^(E-13) and the sum has 13 fraction bits: nothing else is left of c, even where all products are 0", ask};

}  // namespace stickybit::gpu
