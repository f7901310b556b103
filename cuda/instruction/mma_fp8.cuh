#pragma once
#include "mma.cuh"

namespace stickybit::gpu {

/// A and B: E4M3 or E5M2 each, D and C: FP32 or FP16. compute_89 and later.
template <class D, class A, class B>
using m16n8k32_fp8 = mma_sync<D, A, B, 8>;
template <class D, class A, class B>
using m16n8k16_fp8 = mma_sync<D, A, B, 4>;

using m16n8k32_f32_e4m3_e4m3_f32 = m16n8k32_fp8<ptx_f32, ptx_e4m3, ptx_e4m3>;
using m16n8k32_f32_e5m2_e5m2_f32 = m16n8k32_fp8<ptx_f32, ptx_e5m2, ptx_e5m2>;
using m16n8k32_f32_e4m3_e5m2_f32 = m16n8k32_fp8<ptx_f32, ptx_e4m3, ptx_e5m2>;
using m16n8k32_f32_e5m2_e4m3_f32 = m16n8k32_fp8<ptx_f32, ptx_e5m2, ptx_e4m3>;
using m16n8k32_f16_e4m3_e4m3_f16 = m16n8k32_fp8<ptx_f16, ptx_e4m3, ptx_e4m3>;
using m16n8k32_f16_e5m2_e5m2_f16 = m16n8k32_fp8<ptx_f16, ptx_e5m2, ptx_e5m2>;
using m16n8k32_f16_e4m3_e5m2_f16 = m16n8k32_fp8<ptx_f16, ptx_e4m3, ptx_e5m2>;
using m16n8k32_f16_e5m2_e4m3_f16 = m16n8k32_fp8<ptx_f16, ptx_e5m2, ptx_e4m3>;

}  // namespace stickybit::gpu
