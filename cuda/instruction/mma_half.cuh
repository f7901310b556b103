#pragma once
#include "mma.cuh"

namespace stickybit::gpu {

using m16n8k16_f32_bf16_bf16_f32 = mma_sync<ptx_f32, ptx_bf16, ptx_bf16, 8>;
using m16n8k8_f32_bf16_bf16_f32 = mma_sync<ptx_f32, ptx_bf16, ptx_bf16, 4>;
using m16n8k16_f32_f16_f16_f32 = mma_sync<ptx_f32, ptx_f16, ptx_f16, 8>;
using m16n8k8_f32_f16_f16_f32 = mma_sync<ptx_f32, ptx_f16, ptx_f16, 4>;
using m16n8k16_f16_f16_f16_f16 = mma_sync<ptx_f16, ptx_f16, ptx_f16, 8>;
using m16n8k8_f16_f16_f16_f16 = mma_sync<ptx_f16, ptx_f16, ptx_f16, 4>;

}  // namespace stickybit::gpu
