// What becomes of sums and products beyond the output?
// Found: A sum beyond it is infinity, also where the rounding is toward zero; products beyond it may cancel
#include "probes.hpp"

namespace stickybit::gpu {
namespace {

findings ask() {
  findings found;
  try_on(found, {"mma.bf16.f32", "wgmma.bf16.f32"}, {"16 x 2^127", {{0, pow2(64), pow2(63)}, {1, pow2(64), pow2(63)}, {2, pow2(64), pow2(63)}, {3, pow2(64), pow2(63)}, {4, pow2(64), pow2(63)}, {5, pow2(64), pow2(63)}, {6, pow2(64), pow2(63)}, {7, pow2(64), pow2(63)}, {8, pow2(64), pow2(63)}, {9, pow2(64), pow2(63)}, {10, pow2(64), pow2(63)}, {11, pow2(64), pow2(63)}, {12, pow2(64), pow2(63)}, {13, pow2(64), pow2(63)}, {14, pow2(64), pow2(63)}, {15, pow2(64), pow2(63)}}, 0, 0x7f800000, "infinity", "7f7fffff: cut to the largest number"});
  try_on(found, {"mma.bf16.f32", "wgmma.bf16.f32"}, {"2^200", {{0, pow2(100), pow2(100)}}, 0, 0x7f800000, "infinity", "another result"});
  try_on(found, {"mma.bf16.f32", "wgmma.bf16.f32"}, {"2^200 - 2^200", {{0, pow2(100), pow2(100)}, {1, -pow2(100), pow2(100)}}, 0, 0x00000000, "products have no limit", "7fffffff: a product overflowed"});
  try_on(found, {"mma.f16.f16", "wgmma.f16.f16"}, {"65504 + 15", {{0, 15.0, 1.0}}, 65504.0, 0x7bff, "rounded to 65504", "7c00: infinity"});
  try_on(found, {"mma.f16.f16", "wgmma.f16.f16"}, {"65504 + 16", {{0, 16.0, 1.0}}, 65504.0, 0x7c00, "the tie goes to infinity", "7bff: cut"});
  try_on(found, {"wgmma.e5m2.f32"}, {"32 x 2^30, c = 2^127 and more", {{0, pow2(15), pow2(15)}, {1, pow2(15), pow2(15)}, {2, pow2(15), pow2(15)}, {3, pow2(15), pow2(15)}, {4, pow2(15), pow2(15)}, {5, pow2(15), pow2(15)}, {6, pow2(15), pow2(15)}, {7, pow2(15), pow2(15)}, {8, pow2(15), pow2(15)}, {9, pow2(15), pow2(15)}, {10, pow2(15), pow2(15)}, {11, pow2(15), pow2(15)}, {12, pow2(15), pow2(15)}, {13, pow2(15), pow2(15)}, {14, pow2(15), pow2(15)}, {15, pow2(15), pow2(15)}, {16, pow2(15), pow2(15)}, {17, pow2(15), pow2(15)}, {18, pow2(15), pow2(15)}, {19, pow2(15), pow2(15)}, {20, pow2(15), pow2(15)}, {21, pow2(15), pow2(15)}, {22, pow2(15), pow2(15)}, {23, pow2(15), pow2(15)}, {24, pow2(15), pow2(15)}, {25, pow2(15), pow2(15)}, {26, pow2(15), pow2(15)}, {27, pow2(15), pow2(15)}, {28, pow2(15), pow2(15)}, {29, pow2(15), pow2(15)}, {30, pow2(15), pow2(15)}, {31, pow2(15), pow2(15)}}, std::ldexp(1.9999998807907104, 127), 0x7f7ffc00, "c has 13 fraction bits left, products vanish", "7f800000: rounded up"});
  return found;
}

}  // namespace

extern const probe overflow{"overflow", "What becomes of sums and products beyond the output?", "A sum beyond it is infinity, also where the rounding is toward zero; products beyond it may cancel", ask};

}  // namespace stickybit::gpu
