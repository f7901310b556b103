#pragma once
#include <cstdint>

namespace stickybit::gpu {

/// cvt: two FP32 to BF16, to nearest even, subnormals kept, NaN to 7fff; `low` in the low half.
__device__ inline std::uint32_t cvt_rn_bf16x2_f32(float low, float high) {
  std::uint32_t d;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(d) : "f"(high), "f"(low));
  return d;
}

/// The FP32 numbers that the halves are.
__device__ inline float low_of_bf16x2(std::uint32_t x) { return __uint_as_float(x << 16); }
__device__ inline float high_of_bf16x2(std::uint32_t x) { return __uint_as_float(x & 0xffff0000U); }

}  // namespace stickybit::gpu
