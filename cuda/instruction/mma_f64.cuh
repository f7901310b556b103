#pragma once
#include <cstdint>

namespace stickybit::gpu {

/// mma.sync FP64: one warp, D[M×8] = A[M×K] B[K×8] + C[M×8]. Lane l, g = l/4, t = l%4:
///   M = 8: a[i] = A[g, t]      M = 16: a[i] = A[g + 8(i%2), t + 4(i/2)]      b[i] = B[t + 4i, g]      c[i], d[i] = C, D[g + 8(i/2), 2t + i%2]
/// @source PTX ISA, "Matrix Fragments for mma.m8n8k4 with .f64", "mma.m16n8k4, k8, k16 with .f64"
struct mma_sync_f64 {
  static constexpr int n = 8, threads = 32;
  static constexpr bool half_output = false;
  using word = std::uint64_t;
};

struct m8n8k4_f64_f64_f64_f64 : mma_sync_f64 {
  static constexpr int m = 8, k = 4, a_words = 1, b_words = 1, c_words = 2;
  __device__ static void fma(word (&d)[2], word const (&a)[1], word const (&b)[1], word const (&c)[2]) {
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%4, %5};"
                 : "=l"(d[0]), "=l"(d[1]) : "l"(a[0]), "l"(b[0]), "l"(c[0]), "l"(c[1]));
  }
};

struct m16n8k4_f64_f64_f64_f64 : mma_sync_f64 {
  static constexpr int m = 16, k = 4, a_words = 2, b_words = 1, c_words = 4;
  __device__ static void fma(word (&d)[4], word const (&a)[2], word const (&b)[1], word const (&c)[4]) {
    asm volatile("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};"
                 : "=l"(d[0]), "=l"(d[1]), "=l"(d[2]), "=l"(d[3]) : "l"(a[0]), "l"(a[1]), "l"(b[0]), "l"(c[0]), "l"(c[1]), "l"(c[2]), "l"(c[3]));
  }
};

struct m16n8k8_f64_f64_f64_f64 : mma_sync_f64 {
  static constexpr int m = 16, k = 8, a_words = 4, b_words = 2, c_words = 4;
  __device__ static void fma(word (&d)[4], word const (&a)[4], word const (&b)[2], word const (&c)[4]) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
                 : "=l"(d[0]), "=l"(d[1]), "=l"(d[2]), "=l"(d[3])
                 : "l"(a[0]), "l"(a[1]), "l"(a[2]), "l"(a[3]), "l"(b[0]), "l"(b[1]), "l"(c[0]), "l"(c[1]), "l"(c[2]), "l"(c[3]));
  }
};

struct m16n8k16_f64_f64_f64_f64 : mma_sync_f64 {
  static constexpr int m = 16, k = 16, a_words = 8, b_words = 4, c_words = 4;
  __device__ static void fma(word (&d)[4], word const (&a)[8], word const (&b)[4], word const (&c)[4]) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15}, {%16, %17, %18, %19};"
        : "=l"(d[0]), "=l"(d[1]), "=l"(d[2]), "=l"(d[3])
        : "l"(a[0]), "l"(a[1]), "l"(a[2]), "l"(a[3]), "l"(a[4]), "l"(a[5]), "l"(a[6]), "l"(a[7]), "l"(b[0]), "l"(b[1]), "l"(b[2]), "l"(b[3]),
          "l"(c[0]), "l"(c[1]), "l"(c[2]), "l"(c[3]));
  }
};

}  // namespace stickybit::gpu
