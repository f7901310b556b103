#pragma once
#include "mma.cuh"

namespace stickybit::gpu {

using m16n8k8_f32_tf32_tf32_f32 = mma_sync<ptx_f32, ptx_tf32, ptx_tf32, 8>;
using m16n8k4_f32_tf32_tf32_f32 = mma_sync<ptx_f32, ptx_tf32, ptx_tf32, 4>;

}  // namespace stickybit::gpu
