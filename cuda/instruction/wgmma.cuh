#pragma once
#include <cstdint>

#include "operand_text.cuh"

namespace stickybit::gpu {

/// How an instruction of the family is called; the types are template parameters of wgmma.
struct wgmma_form {
  int n = 8;                                       ///< columns of B and D: a multiple of 8, at most 256
  bool a_shared = false;                           ///< A in shared memory, not in registers
  bool negate_a = false, negate_b = false;         ///< imm-scale-a, imm-scale-b = −1: 16-bit types and FP8, TF32
  bool transpose_a = false, transpose_b = false;   ///< stored with k as the slow index: 16-bit types, in shared memory
};

/// wgmma.mma_async: four warps, D[64×n] = A[64×k] B[k×n] + D[64×n], a row of A and a column of B 32 bytes long.
/// A in registers: warp w holds rows 16w..16w+15 as mma.sync does. D: warp w, lane l, register i holds row 16w + l/4 + 8((i>>1)&1),
/// column 8(i>>2) + 2(l%4) + (i&1); FP16: two columns in a register, row + 8(i&1), columns 8(i>>1) + 2(l%4).
/// Shared memory, not swizzled: core matrices of 8 rows (of A, or columns of B) x 16 bytes, 128 contiguous bytes each; the other half of k 128 bytes
/// on, the next 8 rows 256 bytes on. Transposed: core matrices of 8 k x 8 rows, 128 contiguous bytes, with the same offsets.
/// @source PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions"; CUTLASS include/cute/arch/mma_sm90_desc.hpp for the offsets
template <class D, class A, class B, wgmma_form Form = wgmma_form{}>
struct wgmma {
  static constexpr int m = 64, n = Form.n, k = 32 / ptx_bytes<A>, threads = 128;
  static constexpr wgmma_form form = Form;
  static constexpr bool half_output = ptx_bytes<D> == 2;
  static constexpr int accumulators = n / 8 * ptx_bytes<D>;  // 32-bit registers of D in a thread
  using word = std::uint32_t;
  using d_type = D;
  using a_type = A;
  using b_type = B;

  struct name_holder {
    static constexpr constant_text value = constant_text{} << "m64n" << n << "k" << k << "." << D::text << "." << A::text << "." << B::text;
  };
  /// A list of registers that is n/2 long can only be put together as text.
  struct accumulators_holder {
    static constexpr constant_text make() {
      constant_text t;
      for (int i = 0; i < accumulators; ++i) t << (i == 0 ? "d" : ", d") << i;
      return t;
    }
    static constexpr constant_text value = make();
  };
  /// What follows the accumulators: A, B, the predicate, the immediates.
  struct operands_holder {
    static constexpr constant_text make() {
      constant_text t;
      t << (Form.a_shared ? "a_descriptor, b_descriptor, add_d, " : "{a0, a1, a2, a3}, b_descriptor, add_d, ") << (Form.negate_a ? "-1, " : "1, ") << (Form.negate_b ? "-1" : "1");
      if (ptx_bytes<A> == 2 && Form.a_shared) t << ", " << int{Form.transpose_a};
      if (ptx_bytes<A> == 2) t << ", " << int{Form.transpose_b};
      return t;
    }
    static constexpr constant_text value = make();
  };

  /// d = A B + d, or A B where !add_d, and waits for it. All threads of the four warps. The widest instruction's 128 registers are declared
  /// whatever the width; only the first `accumulators` words at d mean anything.
  /// @pre d has 128 words
  __device__ static void fma(word* d, word const (&a)[4], std::uint64_t a_descriptor, std::uint64_t b_descriptor, bool add_d) {
    asm volatile(
        "{\n"
        ".reg .b32 d<128>, a<4>;\n"
        ".reg .b64 d_address, a_descriptor, b_descriptor;\n"
        ".reg .pred add_d;\n"
        "mov.b64 d_address, %0; mov.b64 a_descriptor, %1; mov.b64 b_descriptor, %2;\n"
        "mov.b32 a0, %3; mov.b32 a1, %4; mov.b32 a2, %5; mov.b32 a3, %6;\n"
        "setp.ne.u32 add_d, %7, 0;\n"
        "ld.b32 d0, [d_address+0]; ld.b32 d1, [d_address+4]; ld.b32 d2, [d_address+8]; ld.b32 d3, [d_address+12]; ld.b32 d4, [d_address+16]; ld.b32 d5, [d_address+20]; ld.b32 d6, [d_address+24]; ld.b32 d7, [d_address+28];\n"
        "ld.b32 d8, [d_address+32]; ld.b32 d9, [d_address+36]; ld.b32 d10, [d_address+40]; ld.b32 d11, [d_address+44]; ld.b32 d12, [d_address+48]; ld.b32 d13, [d_address+52]; ld.b32 d14, [d_address+56]; ld.b32 d15, [d_address+60];\n"
        "ld.b32 d16, [d_address+64]; ld.b32 d17, [d_address+68]; ld.b32 d18, [d_address+72]; ld.b32 d19, [d_address+76]; ld.b32 d20, [d_address+80]; ld.b32 d21, [d_address+84]; ld.b32 d22, [d_address+88]; ld.b32 d23, [d_address+92];\n"
        "ld.b32 d24, [d_address+96]; ld.b32 d25, [d_address+100]; ld.b32 d26, [d_address+104]; ld.b32 d27, [d_address+108]; ld.b32 d28, [d_address+112]; ld.b32 d29, [d_address+116]; ld.b32 d30, [d_address+120]; ld.b32 d31, [d_address+124];\n"
        "ld.b32 d32, [d_address+128]; ld.b32 d33, [d_address+132]; ld.b32 d34, [d_address+136]; ld.b32 d35, [d_address+140]; ld.b32 d36, [d_address+144]; ld.b32 d37, [d_address+148]; ld.b32 d38, [d_address+152]; ld.b32 d39, [d_address+156];\n"
        "ld.b32 d40, [d_address+160]; ld.b32 d41, [d_address+164]; ld.b32 d42, [d_address+168]; ld.b32 d43, [d_address+172]; ld.b32 d44, [d_address+176]; ld.b32 d45, [d_address+180]; ld.b32 d46, [d_address+184]; ld.b32 d47, [d_address+188];\n"
        "ld.b32 d48, [d_address+192]; ld.b32 d49, [d_address+196]; ld.b32 d50, [d_address+200]; ld.b32 d51, [d_address+204]; ld.b32 d52, [d_address+208]; ld.b32 d53, [d_address+212]; ld.b32 d54, [d_address+216]; ld.b32 d55, [d_address+220];\n"
        "ld.b32 d56, [d_address+224]; ld.b32 d57, [d_address+228]; ld.b32 d58, [d_address+232]; ld.b32 d59, [d_address+236]; ld.b32 d60, [d_address+240]; ld.b32 d61, [d_address+244]; ld.b32 d62, [d_address+248]; ld.b32 d63, [d_address+252];\n"
        "ld.b32 d64, [d_address+256]; ld.b32 d65, [d_address+260]; ld.b32 d66, [d_address+264]; ld.b32 d67, [d_address+268]; ld.b32 d68, [d_address+272]; ld.b32 d69, [d_address+276]; ld.b32 d70, [d_address+280]; ld.b32 d71, [d_address+284];\n"
        "ld.b32 d72, [d_address+288]; ld.b32 d73, [d_address+292]; ld.b32 d74, [d_address+296]; ld.b32 d75, [d_address+300]; ld.b32 d76, [d_address+304]; ld.b32 d77, [d_address+308]; ld.b32 d78, [d_address+312]; ld.b32 d79, [d_address+316];\n"
        "ld.b32 d80, [d_address+320]; ld.b32 d81, [d_address+324]; ld.b32 d82, [d_address+328]; ld.b32 d83, [d_address+332]; ld.b32 d84, [d_address+336]; ld.b32 d85, [d_address+340]; ld.b32 d86, [d_address+344]; ld.b32 d87, [d_address+348];\n"
        "ld.b32 d88, [d_address+352]; ld.b32 d89, [d_address+356]; ld.b32 d90, [d_address+360]; ld.b32 d91, [d_address+364]; ld.b32 d92, [d_address+368]; ld.b32 d93, [d_address+372]; ld.b32 d94, [d_address+376]; ld.b32 d95, [d_address+380];\n"
        "ld.b32 d96, [d_address+384]; ld.b32 d97, [d_address+388]; ld.b32 d98, [d_address+392]; ld.b32 d99, [d_address+396]; ld.b32 d100, [d_address+400]; ld.b32 d101, [d_address+404]; ld.b32 d102, [d_address+408]; ld.b32 d103, [d_address+412];\n"
        "ld.b32 d104, [d_address+416]; ld.b32 d105, [d_address+420]; ld.b32 d106, [d_address+424]; ld.b32 d107, [d_address+428]; ld.b32 d108, [d_address+432]; ld.b32 d109, [d_address+436]; ld.b32 d110, [d_address+440]; ld.b32 d111, [d_address+444];\n"
        "ld.b32 d112, [d_address+448]; ld.b32 d113, [d_address+452]; ld.b32 d114, [d_address+456]; ld.b32 d115, [d_address+460]; ld.b32 d116, [d_address+464]; ld.b32 d117, [d_address+468]; ld.b32 d118, [d_address+472]; ld.b32 d119, [d_address+476];\n"
        "ld.b32 d120, [d_address+480]; ld.b32 d121, [d_address+484]; ld.b32 d122, [d_address+488]; ld.b32 d123, [d_address+492]; ld.b32 d124, [d_address+496]; ld.b32 d125, [d_address+500]; ld.b32 d126, [d_address+504]; ld.b32 d127, [d_address+508];\n"
        "wgmma.fence.sync.aligned;\n"
        "wgmma.mma_async.sync.aligned.%8 {%9}, %10;\n"
        "wgmma.commit_group.sync.aligned;\n"
        "wgmma.wait_group.sync.aligned 0;\n"
        "st.b32 [d_address+0], d0; st.b32 [d_address+4], d1; st.b32 [d_address+8], d2; st.b32 [d_address+12], d3; st.b32 [d_address+16], d4; st.b32 [d_address+20], d5; st.b32 [d_address+24], d6; st.b32 [d_address+28], d7;\n"
        "st.b32 [d_address+32], d8; st.b32 [d_address+36], d9; st.b32 [d_address+40], d10; st.b32 [d_address+44], d11; st.b32 [d_address+48], d12; st.b32 [d_address+52], d13; st.b32 [d_address+56], d14; st.b32 [d_address+60], d15;\n"
        "st.b32 [d_address+64], d16; st.b32 [d_address+68], d17; st.b32 [d_address+72], d18; st.b32 [d_address+76], d19; st.b32 [d_address+80], d20; st.b32 [d_address+84], d21; st.b32 [d_address+88], d22; st.b32 [d_address+92], d23;\n"
        "st.b32 [d_address+96], d24; st.b32 [d_address+100], d25; st.b32 [d_address+104], d26; st.b32 [d_address+108], d27; st.b32 [d_address+112], d28; st.b32 [d_address+116], d29; st.b32 [d_address+120], d30; st.b32 [d_address+124], d31;\n"
        "st.b32 [d_address+128], d32; st.b32 [d_address+132], d33; st.b32 [d_address+136], d34; st.b32 [d_address+140], d35; st.b32 [d_address+144], d36; st.b32 [d_address+148], d37; st.b32 [d_address+152], d38; st.b32 [d_address+156], d39;\n"
        "st.b32 [d_address+160], d40; st.b32 [d_address+164], d41; st.b32 [d_address+168], d42; st.b32 [d_address+172], d43; st.b32 [d_address+176], d44; st.b32 [d_address+180], d45; st.b32 [d_address+184], d46; st.b32 [d_address+188], d47;\n"
        "st.b32 [d_address+192], d48; st.b32 [d_address+196], d49; st.b32 [d_address+200], d50; st.b32 [d_address+204], d51; st.b32 [d_address+208], d52; st.b32 [d_address+212], d53; st.b32 [d_address+216], d54; st.b32 [d_address+220], d55;\n"
        "st.b32 [d_address+224], d56; st.b32 [d_address+228], d57; st.b32 [d_address+232], d58; st.b32 [d_address+236], d59; st.b32 [d_address+240], d60; st.b32 [d_address+244], d61; st.b32 [d_address+248], d62; st.b32 [d_address+252], d63;\n"
        "st.b32 [d_address+256], d64; st.b32 [d_address+260], d65; st.b32 [d_address+264], d66; st.b32 [d_address+268], d67; st.b32 [d_address+272], d68; st.b32 [d_address+276], d69; st.b32 [d_address+280], d70; st.b32 [d_address+284], d71;\n"
        "st.b32 [d_address+288], d72; st.b32 [d_address+292], d73; st.b32 [d_address+296], d74; st.b32 [d_address+300], d75; st.b32 [d_address+304], d76; st.b32 [d_address+308], d77; st.b32 [d_address+312], d78; st.b32 [d_address+316], d79;\n"
        "st.b32 [d_address+320], d80; st.b32 [d_address+324], d81; st.b32 [d_address+328], d82; st.b32 [d_address+332], d83; st.b32 [d_address+336], d84; st.b32 [d_address+340], d85; st.b32 [d_address+344], d86; st.b32 [d_address+348], d87;\n"
        "st.b32 [d_address+352], d88; st.b32 [d_address+356], d89; st.b32 [d_address+360], d90; st.b32 [d_address+364], d91; st.b32 [d_address+368], d92; st.b32 [d_address+372], d93; st.b32 [d_address+376], d94; st.b32 [d_address+380], d95;\n"
        "st.b32 [d_address+384], d96; st.b32 [d_address+388], d97; st.b32 [d_address+392], d98; st.b32 [d_address+396], d99; st.b32 [d_address+400], d100; st.b32 [d_address+404], d101; st.b32 [d_address+408], d102; st.b32 [d_address+412], d103;\n"
        "st.b32 [d_address+416], d104; st.b32 [d_address+420], d105; st.b32 [d_address+424], d106; st.b32 [d_address+428], d107; st.b32 [d_address+432], d108; st.b32 [d_address+436], d109; st.b32 [d_address+440], d110; st.b32 [d_address+444], d111;\n"
        "st.b32 [d_address+448], d112; st.b32 [d_address+452], d113; st.b32 [d_address+456], d114; st.b32 [d_address+460], d115; st.b32 [d_address+464], d116; st.b32 [d_address+468], d117; st.b32 [d_address+472], d118; st.b32 [d_address+476], d119;\n"
        "st.b32 [d_address+480], d120; st.b32 [d_address+484], d121; st.b32 [d_address+488], d122; st.b32 [d_address+492], d123; st.b32 [d_address+496], d124; st.b32 [d_address+500], d125; st.b32 [d_address+504], d126; st.b32 [d_address+508], d127;\n"
        "}" ::"l"(d), "l"(a_descriptor), "l"(b_descriptor), "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(unsigned{add_d}),
        "C"(text_array<name_holder>::text), "C"(text_array<accumulators_holder>::text), "C"(text_array<operands_holder>::text)
        : "memory");
  }
};

/// The narrowest, whose accumulators are operands of the statement.
template <class D, class A, class B, wgmma_form Form>
struct wgmma_n8 : wgmma<D, A, B, Form> {
  using wide = wgmma<D, A, B, Form>;
  using word = std::uint32_t;

  /// @pre d has `accumulators` words
  __device__ static void fma(word* d, word const (&a)[4], std::uint64_t a_descriptor, std::uint64_t b_descriptor, bool add_d) {
    if constexpr (wide::accumulators == 4)
      asm volatile(
          "{\n"
          ".reg .b64 a_descriptor, b_descriptor;\n"
          ".reg .b32 a<4>;\n"
          ".reg .pred add_d;\n"
          "mov.b64 a_descriptor, %4; mov.b64 b_descriptor, %5;\n"
          "mov.b32 a0, %6; mov.b32 a1, %7; mov.b32 a2, %8; mov.b32 a3, %9;\n"
          "setp.ne.u32 add_d, %10, 0;\n"
          "wgmma.fence.sync.aligned;\n"
          "wgmma.mma_async.sync.aligned.%11 {%0, %1, %2, %3}, %12;\n"
          "wgmma.commit_group.sync.aligned;\n"
          "wgmma.wait_group.sync.aligned 0;\n"
          "}"
          : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
          : "l"(a_descriptor), "l"(b_descriptor), "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(unsigned{add_d}),
            "C"(text_array<typename wide::name_holder>::text), "C"(text_array<typename wide::operands_holder>::text)
          : "memory");
    else
      asm volatile(
          "{\n"
          ".reg .b64 a_descriptor, b_descriptor;\n"
          ".reg .b32 a<4>;\n"
          ".reg .pred add_d;\n"
          "mov.b64 a_descriptor, %2; mov.b64 b_descriptor, %3;\n"
          "mov.b32 a0, %4; mov.b32 a1, %5; mov.b32 a2, %6; mov.b32 a3, %7;\n"
          "setp.ne.u32 add_d, %8, 0;\n"
          "wgmma.fence.sync.aligned;\n"
          "wgmma.mma_async.sync.aligned.%9 {%0, %1}, %10;\n"
          "wgmma.commit_group.sync.aligned;\n"
          "wgmma.wait_group.sync.aligned 0;\n"
          "}"
          : "+r"(d[0]), "+r"(d[1])
          : "l"(a_descriptor), "l"(b_descriptor), "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(unsigned{add_d}),
            "C"(text_array<typename wide::name_holder>::text), "C"(text_array<typename wide::operands_holder>::text)
          : "memory");
  }
};

/// Where word `w` (of 8) of row `row` of A, or column of B, lies in shared memory, in words; not transposed.
__host__ __device__ constexpr int wgmma_word_place(int row, int w) { return row / 8 * 64 + w / 4 * 32 + row % 8 * 4 + w % 4; }
/// Where the 16-bit element k of row `row` lies, in elements, if it is stored transposed.
__host__ __device__ constexpr int wgmma_transposed_place(int row, int k) { return row / 8 * 128 + k / 8 * 64 + k % 8 * 8 + row % 8; }

/// Of an operand laid out as above.
__device__ inline std::uint64_t wgmma_descriptor(std::uint32_t const* shared) {
  constexpr std::uint64_t next_k_bytes = 128, next_rows_bytes = 256;
  const auto address = std::uint64_t(__cvta_generic_to_shared(shared));
  return (address >> 4 & 0x3fff) | (next_k_bytes >> 4) << 16 | (next_rows_bytes >> 4) << 32;
}

/// Makes every thread's writes to shared memory visible to wgmma, which reads through the asynchronous proxy.
__device__ inline void wgmma_publish() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
}

}  // namespace stickybit::gpu
