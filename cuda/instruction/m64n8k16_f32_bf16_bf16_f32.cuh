#pragma once
#include <cstdint>

namespace stickybit::gpu {

/// wgmma: four warps, D[64×8] = A[64×16] B[16×8] + D[64×8], A in registers, B in shared memory.
/// Warp w of the four holds rows 16w..16w+15 of A and D, each warp laid out as for mma.sync m16n8k16.
/// @source PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions"; the layout ran on an H200
struct m64n8k16_f32_bf16_bf16_f32 {
  static constexpr int m = 64, n = 8, k = 16, threads = 128;

  /// B in shared memory, K-major and not swizzled: two core matrices of 8 columns x 8 k, each 128 contiguous bytes.
  struct alignas(128) shared_b {
    std::uint16_t bits[2][8][8];  // [k/8][n][k%8]
  };

  /// Makes every thread's writes to shared memory visible to wgmma, which reads through the asynchronous proxy.
  __device__ static void publish_b() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
  }

  __device__ static std::uint64_t descriptor(shared_b const& b) {
    constexpr std::uint64_t next_k_bytes = 128, next_n_bytes = 256;  // between core matrices; only two, so the latter is never used
    const auto address = std::uint64_t(__cvta_generic_to_shared(&b));
    return (address >> 4 & 0x3fff) | (next_k_bytes >> 4) << 16 | (next_n_bytes >> 4) << 32;
  }

  /// d += A B, and waits for it.
  __device__ static void fma(float (&d)[4], std::uint32_t const (&a)[4], std::uint64_t b_descriptor) {
    asm volatile(
        "{\n"
        ".reg .pred add_d;\n"
        "setp.eq.u32 add_d, 0, 0;\n"
        "wgmma.fence.sync.aligned;\n"
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, add_d, 1, 1, 0;\n"
        "wgmma.commit_group.sync.aligned;\n"
        "wgmma.wait_group.sync.aligned 0;\n"
        "}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b_descriptor)
        : "memory");
  }
};

}  // namespace stickybit::gpu
