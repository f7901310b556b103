// What does an instruction make of an infinite c?
// Found: Infinity stays, and is NaN with one of the other sign
#include "probes.hpp"

namespace stickybit::gpu {
namespace {

findings ask() {
  findings found;
  try_on(found, {"mma.f16.f16", "wgmma.f16.f16"}, {"first 4 x 2^15, then -4 x 2^15", {{0, pow2(15), 4.0}, {16, -pow2(15), 4.0}}, 0, 0x7c00, "infinity stays", "another result"}, 2);
  try_on(found, {"mma.bf16.f32", "wgmma.bf16.f32"}, {"first 2^128, then -2^128", {{0, pow2(64), pow2(64)}, {16, -pow2(64), pow2(64)}}, 0, 0x7f800000, "infinity stays: a finite product beyond the range is not infinite", "00000000: c was 2^128"}, 2);
  try_on(found, {"mma.bf16.f32", "wgmma.bf16.f32"}, {"first 2^128, then -infinity * 1", {{0, pow2(64), pow2(64)}, {16, -INFINITY, 1.0}}, 0, 0x7fffffff, "NaN", "another result"}, 2);
  return found;
}

}  // namespace

extern const probe infinity_between{"infinity_between", "What does an instruction make of an infinite c?", "Infinity stays, and is NaN with one of the other sign", ask};

}  // namespace stickybit::gpu
