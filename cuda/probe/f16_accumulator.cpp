// How do units with FP16 results round, and what of subnormals?
// Found: Once, to nearest even, ties to even; subnormal results and c are kept
#include "probes.hpp"

namespace stickybit::gpu {
namespace {

findings ask() {
  findings found;
  try_on(found, {"mma.f16.f16", "wgmma.f16.f16"}, {"1 + 2^-11", {{0, pow2(-5), pow2(-6)}}, 1.0, 0x3c00, "a tie to even", "3c01"});
  try_on(found, {"mma.f16.f16", "wgmma.f16.f16"}, {"1 + 2^-10 + 2^-11", {{0, pow2(-5), pow2(-6)}}, 1.0 + pow2(-10), 0x3c02, "a tie to even, upwards", "3c01: cut"});
  try_on(found, {"mma.f16.f16", "wgmma.f16.f16"}, {"1 + 2^-11 + 2^-24", {{0, pow2(-5), pow2(-6)}, {1, pow2(-12), pow2(-12)}}, 1.0, 0x3c01, "more than a tie: bits down to 2^(E-25) count", "3c00"});
  try_on(found, {"mma.f16.f16", "wgmma.f16.f16"}, {"1 + 2^-11 + 2^-26", {{0, pow2(-5), pow2(-6)}, {1, pow2(-13), pow2(-13)}}, 1.0, 0x3c00, "2^-26 is cut before", "3c01"});
  try_on(found, {"mma.f16.f16", "wgmma.f16.f16"}, {"c = 2^-24 alone", {}, pow2(-24), 0x0001, "a subnormal c is kept", "0000"});
  try_on(found, {"mma.f16.f16", "wgmma.f16.f16"}, {"2^-24 + c = -3 * 2^-24", {{0, pow2(-12), pow2(-12)}}, -3 * pow2(-24), 0x8002, "a subnormal result is kept", "another"});
  try_on(found, {"mma.f16.f16", "wgmma.f16.f16"}, {"2^-25 alone", {{0, pow2(-12), pow2(-13)}}, 0, 0x0000, "a tie to even", "0001"});
  return found;
}

}  // namespace

extern const probe f16_accumulator{"f16_accumulator", "How do units with FP16 results round, and what of subnormals?", "Once, to nearest even, ties to even; subnormal results and c are kept", ask};

}  // namespace stickybit::gpu
