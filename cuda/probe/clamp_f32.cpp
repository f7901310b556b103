// How far down does the alignment exponent E go, FP32 results?
// Found: E is at least -133: the last bit kept is 2^-158
#include "probes.hpp"

namespace stickybit::gpu {
namespace {

findings ask() {
  findings found;
  try_on(found, {"mma.bf16.f32", "wgmma.bf16.f32"}, {"16 x (2^-76 * 2^-76)", {{0, pow2(-76), pow2(-76)}, {1, pow2(-76), pow2(-76)}, {2, pow2(-76), pow2(-76)}, {3, pow2(-76), pow2(-76)}, {4, pow2(-76), pow2(-76)}, {5, pow2(-76), pow2(-76)}, {6, pow2(-76), pow2(-76)}, {7, pow2(-76), pow2(-76)}, {8, pow2(-76), pow2(-76)}, {9, pow2(-76), pow2(-76)}, {10, pow2(-76), pow2(-76)}, {11, pow2(-76), pow2(-76)}, {12, pow2(-76), pow2(-76)}, {13, pow2(-76), pow2(-76)}, {14, pow2(-76), pow2(-76)}, {15, pow2(-76), pow2(-76)}}, 0, 0x00000002, "E goes below -126", "00000000: E stops at -126"});
  try_on(found, {"mma.bf16.f32", "wgmma.bf16.f32"}, {"2^-149 - 2^-158", {{0, pow2(-75), pow2(-74)}, {1, -pow2(-79), pow2(-79)}}, 0, 0x00000000, "2^-158 is kept", "00000001: it is not"});
  try_on(found, {"mma.bf16.f32", "wgmma.bf16.f32"}, {"2^-149 - 2^-159", {{0, pow2(-75), pow2(-74)}, {1, -pow2(-80), pow2(-79)}}, 0, 0x00000001, "2^-159 is not kept", "00000000: it is, there is no limit"});
  try_on(found, {"mma.tf32.f32", "wgmma.tf32.f32"}, {"2^-149 - 2^-158", {{0, pow2(-75), pow2(-74)}, {1, -pow2(-79), pow2(-79)}}, 0, 0x00000000, "2^-158 is kept", "00000001: it is not"});
  try_on(found, {"mma.tf32.f32", "wgmma.tf32.f32"}, {"2^-149 - 2^-159", {{0, pow2(-75), pow2(-74)}, {1, -pow2(-80), pow2(-79)}}, 0, 0x00000001, "2^-159 is not kept", "00000000: it is"});
  return found;
}

}  // namespace

extern const probe clamp_f32{"clamp_f32", "How far down does the alignment exponent E go, FP32 results?", "E is at least -133: the last bit kept is 2^-158", ask};

}  // namespace stickybit::gpu
