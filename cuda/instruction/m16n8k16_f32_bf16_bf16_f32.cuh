#pragma once
#include <cstdint>

namespace stickybit::gpu {

/// mma.sync: one warp, D[16×8] = A[16×16] B[16×8] + C[16×8].
/// Lane l, g = l/4, t = l%4 (two BF16 in a register, the lower k in the low half):
///   a[0] = A[g, 2t..2t+1]      a[1] = A[g+8, 2t..2t+1]    a[2] = A[g, 2t+8..2t+9]    a[3] = A[g+8, 2t+8..2t+9]
///   b[0] = B[2t..2t+1, g]      b[1] = B[2t+8..2t+9, g]
///   c[i], d[i] = C, D[g + 8(i/2), 2t + i%2]
/// @source PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type"
struct m16n8k16_f32_bf16_bf16_f32 {
  static constexpr int m = 16, n = 8, k = 16, threads = 32;

  __device__ static void fma(float (&d)[4], std::uint32_t const (&a)[4], std::uint32_t const (&b)[2], float const (&c)[4]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
  }
};

}  // namespace stickybit::gpu
