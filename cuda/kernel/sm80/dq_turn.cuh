#pragma once

namespace stickybit::kernel::sm80 {

/// FP32 addition in global memory without an answer: to nearest even, subnormal operands and results are signed zeros.
/// @source PTX ISA, "red"; the flush: H200, `attention_gradients.txt`
__device__ inline void red_add_f32(float* to, float x) { asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(to), "f"(x) : "memory"); }

/// In which order the blocks of keys add to one part of dQ: ascending. `turn` counts the blocks whose additions are done. A block of threads
/// waits only for blocks of threads with lower numbers, which the GPU starts earlier: there is no deadlock however few fit on it.
struct dq_turn {
  /// A warp waits until `key_block` blocks have added.
  __device__ static void wait(int const* turn, int key_block, int lane) {
    if (lane == 0) {
      int done;
      do asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(done) : "l"(turn) : "memory");
      while (done != key_block);
    }
    __syncwarp();
  }
  /// After the warp's additions.
  __device__ static void pass(int* turn, int next, int lane) {
    __syncwarp();
    if (lane == 0) asm volatile("st.release.gpu.global.b32 [%0], %1;" ::"l"(turn), "r"(next) : "memory");
  }
};

}  // namespace stickybit::kernel::sm80
