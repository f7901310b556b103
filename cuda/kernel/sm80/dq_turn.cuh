#pragma once

namespace stickybit::kernel::sm80 {

/// Four FP32 additions in global memory without an answer: to nearest even, subnormal operands and results are signed zeros. On sm_90 one
/// instruction, which gives the same bits.
/// @source PTX ISA, "red"; the flush: H200, `attention_gradients.txt`; of both forms: `sm80_backward.md`
/// @pre    aligned to 16 bytes
__device__ inline void red_add_f32x4(float* to, float const (&x)[4]) {
#if __CUDA_ARCH__ >= 900
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3]) : "memory");
#else
#pragma unroll
  for (int i = 0; i < 4; ++i) asm volatile("red.relaxed.gpu.global.add.f32 [%0], %1;" ::"l"(to + i), "f"(x[i]) : "memory");
#endif
}

/// In which order the blocks of keys add to dQ of one block of queries: ascending. A turn counts the blocks of keys whose additions are done. A
/// block of threads waits only for blocks of threads with lower numbers, which the GPU starts earlier: there is no deadlock however few fit on
/// it. One warp passes for all of them after a barrier: its fence costs as much as forty additions, and one a warp cost an eighth of the
/// kernel's time.
struct dq_turn {
  /// How many blocks have added, asked before the part is formed, so that the answer is there when it is needed. Relaxed: an acquire here cost
  /// 3 %. All additions are atomic, so that nothing but their order hangs on it; and the warp's additions leave the SM only after the branch
  /// that this answer decides, those before them have reached memory before the answer could be given (pass).
  __device__ static int early(int const* turn) {
    int added;
    asm volatile("ld.relaxed.gpu.global.b32 %0, [%1];" : "=r"(added) : "l"(turn) : "memory");
    return added;
  }
  /// Until `key_block` blocks have added.
  __device__ static void wait(int const* turn, int key_block) {
    int added;
    do asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(added) : "l"(turn) : "memory");
    while (added != key_block);
  }
  /// After the additions of all warps and a barrier.
  __device__ static void pass(int* turn, int next) { asm volatile("st.release.gpu.global.b32 [%0], %1;" ::"l"(turn), "r"(next) : "memory"); }
};

}  // namespace stickybit::kernel::sm80
