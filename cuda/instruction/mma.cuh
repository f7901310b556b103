#pragma once
#include <cstdint>

#include "operand_text.cuh"

namespace stickybit::gpu {

/// mma.sync with operands narrower than 64 bits: one warp, D[16×8] = A[16×k] B[k×8] + C[16×8]. Fragments are the same for all types
/// if a row of A and a column of B are seen as 32-bit words (the lower k in the lower bits). Lane l, g = l/4, t = l%4:
///   a[i] = A[g + 8(i%2), word t + 4(i/2)]      b[i] = B[word t + 4i, g]
///   FP32: c[i], d[i] = C, D[g + 8(i/2), 2t + i%2]      FP16: c[i], d[i] = C, D[g + 8i, 2t..2t+1]
/// @tparam Words  32-bit words of a row of A: 4 or 8
/// @source PTX ISA, "Matrix Fragments for mma.m16n8k8", "...k16", "...k32", "...k4"
template <class D, class A, class B, int Words>
struct mma_sync {
  static constexpr int m = 16, n = 8, k = 4 * Words / ptx_bytes<A>, threads = 32;
  static constexpr int a_words = Words / 2, b_words = Words / 4, c_words = ptx_bytes<D>;  // 4 FP32, or 2 words of 2 FP16
  static constexpr bool half_output = ptx_bytes<D> == 2;
  using word = std::uint32_t;

  struct shape_holder {
    static constexpr constant_text value = constant_text{} << "m16n8k" << k << ".row.col." << D::text << "." << A::text << "." << B::text << "." << D::text;
  };
  using name = text_array<shape_holder>;

  __device__ static void fma(word (&d)[c_words], word const (&a)[a_words], word const (&b)[b_words], word const (&c)[c_words]) {
    if constexpr (Words == 8 && !half_output)
      asm volatile("mma.sync.aligned.%14 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
                   : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "C"(name::text));
    else if constexpr (Words == 8)
      asm volatile("mma.sync.aligned.%10 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%8, %9};"
                   : "=r"(d[0]), "=r"(d[1])
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(c[0]), "r"(c[1]), "C"(name::text));
    else if constexpr (!half_output)
      asm volatile("mma.sync.aligned.%11 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};"
                   : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
                   : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "C"(name::text));
    else
      asm volatile("mma.sync.aligned.%7 {%0, %1}, {%2, %3}, {%4}, {%5, %6};"
                   : "=r"(d[0]), "=r"(d[1])
                   : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(c[0]), "r"(c[1]), "C"(name::text));
  }
};

}  // namespace stickybit::gpu
