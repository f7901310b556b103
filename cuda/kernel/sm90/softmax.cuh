#pragma once
#include <cstdint>

#include "../../instruction/bf16x2.cuh"
#include "../../instruction/special_functions.cuh"
#include "../attention.hpp"

// The online softmax of the forward kernel, in registers: a thread has parts of two rows of S[64×Bc] as wgmma leaves them. Register i belongs to
// row half (i>>1)&1 and to column 8(i>>2) + 2(l%4) + (i&1); four lanes share a row.

namespace stickybit::kernel::sm90 {

enum class ties : std::uint8_t { kept, extended, published };

/// The fixes that change the inner loop.
template <bool SubtractFirst, ties Ties, bool TwoRowSums>
struct fixes {
  static constexpr bool subtract_first = SubtractFirst, two_row_sums = TwoRowSums;
  static constexpr ties tied = Ties;
};

/// Numbers of a call that are the same for every row, made by the host.
struct softmax_numbers {
  float scale_log2;   ///< L = float(s log2 e)
  float lse_factor;   ///< rn(L ln 2)
  float beta;
  float tied_within;  ///< the largest d with rn(d s) <= tolerance
  float least_shift, most_shift;  ///< of tied_maximum::extended, in units of S
  int never;  ///< 0, which the compiler does not know
};

constexpr float minus_infinity = -__builtin_huge_valf();
constexpr float ln_2 = 0x1.62e43p-1F;  // float(M_LN2), 0x3f317218

__device__ inline float ex2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// The largest, or the sum, of a row: over the four lanes that share it.
__device__ inline float max_of_row(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, 2));
  return fmaxf(x, __shfl_xor_sync(0xffffffff, x, 1));
}
__device__ inline float sum_of_row(float x) {
  x = __fadd_rn(x, __shfl_xor_sync(0xffffffff, x, 2));
  return __fadd_rn(x, __shfl_xor_sync(0xffffffff, x, 1));
}

/// State of the two rows of a thread.
template <int KeyColumns, class Fixes>
class online_softmax {
 public:
  static constexpr int registers = KeyColumns / 2;

  __device__ void restart() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      max_[half] = true_max_[half] = minus_infinity;
      sum_[half] = bf16_sum_[half] = 0;
      tied_count_[half] = 0;
    }
  }

  /// Scores become weights, in place. One row after the other: the exponentials of one go along with the maximum of the other.
  /// @param rescale  what O has to be multiplied by; 1 in the first block
  __device__ void take_block(float (&s)[registers], float (&rescale)[2], bool first, softmax_numbers const& n) {
    take_half<0>(s, rescale[0], first, n);
    take_half<1>(s, rescale[1], first, n);
  }

  /// The same in two parts: the maxima, and later the weights. The assembler would move the wait for P V, which comes between, above the maxima; a
  /// branch in which they may change keeps it. Where ties are looked for, there are branches.
  __device__ void take_maxima(float const (&s)[registers], float (&before)[2], softmax_numbers const& n) {
    before[0] = max_[0];
    before[1] = max_[1];
    take_maximum<0>(s, n);
    take_maximum<1>(s, n);
    if constexpr (Fixes::tied == ties::kept)
      if (n.never != 0)
        asm volatile("add.rn.f32 %0, %0, %0;\nadd.rn.f32 %1, %1, %1;\nmembar.gl;" : "+f"(max_[0]), "+f"(max_[1])::"memory");
  }
  __device__ void weigh(float (&s)[registers], float const (&before)[2], float (&rescale)[2], bool first, softmax_numbers const& n) {
    weigh_half<0>(s, before[0], rescale[0], first, n);
    weigh_half<1>(s, before[1], rescale[1], first, n);
  }

  /// P in BF16, two columns to a word, as the A operand of P V takes it.
  __device__ void cast(float const (&s)[registers], std::uint32_t (&p)[registers / 2], float const (&rescale)[2]) {
#pragma unroll
    for (int i = 0; i < registers / 2; ++i) {
      p[i] = gpu::cvt_rn_bf16x2_f32(s[2 * i], s[2 * i + 1]);
      if constexpr (Fixes::two_row_sums) {
        float& sum = bf16_sum_[i & 1];
        sum = i < 2 ? __fmaf_rn(rescale[i & 1], sum, gpu::low_of_bf16x2(p[i])) : __fadd_rn(sum, gpu::low_of_bf16x2(p[i]));
        sum = __fadd_rn(sum, gpu::high_of_bf16x2(p[i]));
      }
    }
  }

  /// The rows are complete.  @param inverse  what O has to be multiplied by
  __device__ void finish(float (&inverse)[2], float (&lse)[2], softmax_numbers const& n) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = sum_of_row(sum_[half]);
      const float divisor = Fixes::two_row_sums ? sum_of_row(bf16_sum_[half]) : sum;
      const bool empty = sum == 0 || sum != sum;
      inverse[half] = empty ? 0 : gpu::rcp_approx_ftz_f32(divisor);
      lse[half] = empty ? minus_infinity : __fmaf_rn(n.lse_factor, max_[half], __fmul_rn(gpu::lg2_approx_ftz_f32(sum), ln_2));
    }
  }

 private:
  static constexpr int groups = 4;
  /// First column pair (of eight columns) of a group.
  static constexpr int group_begin(int g) { return registers / 4 * g / groups; }

  /// Which register has the i-th column of a lane in a row.
  static constexpr int at(int half, int i) { return 4 * (i / 2) + 2 * half + i % 2; }

  template <int half>
  __device__ void take_half(float (&s)[registers], float& rescale, bool first, softmax_numbers const& n) {
    const float before = max_[half];
    take_maximum<half>(s, n);
    weigh_half<half>(s, before, rescale, first, n);
  }

  /// @param before  the maximum without this block
  template <int half>
  __device__ void weigh_half(float (&s)[registers], float before, float& rescale, bool first, softmax_numbers const& n) {
    const float m = max_[half] == minus_infinity ? 0 : max_[half];
    rescale = first ? 1 : ex2(__fmul_rn(__fsub_rn(before, m), n.scale_log2));
    const float minus_scaled = -__fmul_rn(m, n.scale_log2);
#pragma unroll
    for (int i = 0; i < registers / 2; ++i) {
      float& x = s[at(half, i)];
      x = ex2(Fixes::subtract_first ? __fmul_rn(__fsub_rn(x, m), n.scale_log2) : __fmaf_rn(x, n.scale_log2, minus_scaled));
      sum_[half] = i == 0 ? __fmaf_rn(rescale, sum_[half], x) : __fadd_rn(sum_[half], x);
    }
  }

  template <int half>
  __device__ void take_maximum(float const (&s)[registers], softmax_numbers const& n) {
    float group_max[groups];
#pragma unroll
    for (int g = 0; g < groups; ++g) {
      group_max[g] = s[at(half, 2 * group_begin(g))];
#pragma unroll
      for (int i = 2 * group_begin(g) + 1; i < 2 * group_begin(g + 1); ++i) group_max[g] = fmaxf(group_max[g], s[at(half, i)]);
    }
    const float lane_max = fmaxf(fmaxf(group_max[0], group_max[1]), fmaxf(group_max[2], group_max[3]));
    if constexpr (Fixes::tied == ties::kept) max_[half] = fmaxf(max_[half], max_of_row(lane_max));
    else take_moved_maximum<half>(s, group_max, lane_max, n);
  }

  /// Ties are rare. Without a score of this block that is tied with the maximum in any of the warp's rows the maxima stay, they were those of
  /// earlier blocks. Otherwise only groups of columns are counted in which a lane has such a score; and the lanes of a row exchange their counts
  /// only where some row may have two.
  template <int half>
  __device__ void take_moved_maximum(float const (&s)[registers], float const (&group_max)[groups], float lane_max, softmax_numbers const& n) {
    constexpr bool extended = Fixes::tied == ties::extended;
    const float before = true_max_[half];
    const float r = max_of_row(extended ? fmaxf(before, lane_max) : lane_max);
    max_[half] = fmaxf(max_[half], r);
    true_max_[half] = r;
    const bool tied = is_tied(r, lane_max, n);
    const unsigned lanes = __ballot_sync(0xffffffff, tied);
    if (lanes == 0) return;
    unsigned some[groups];
#pragma unroll
    for (int g = 0; g < groups; ++g) some[g] = __any_sync(0xffffffff, is_tied(r, group_max[g], n));
    float count = 0;
#pragma unroll
    for (int g = 0; g < groups; ++g)
      if (some[g]) {
#pragma unroll
        for (int i = 2 * group_begin(g); i < 2 * group_begin(g + 1); ++i) count = __fadd_rn(count, is_tied(r, s[at(half, i)], n) ? 1.0F : 0.0F);
      }
    const bool repeated = count > 1 || (extended && tied && is_tied(r, before, n));
    if (two_in_four(lanes) == 0 && !__any_sync(0xffffffff, repeated)) {
      if (r != before) tied_count_[half] = 1;
      return;
    }
    float all = sum_of_row(count);
    if (extended) {
      if (is_tied(r, before, n)) all = __fadd_rn(all, tied_count_[half]);
      tied_count_[half] = all;
    }
    if (all > 1) max_[half] = fmaxf(max_[half], moved(r, n));
  }

  /// Not 0 where two of the four bits of a row's lanes are set.
  __device__ static unsigned two_in_four(unsigned lanes) {
    const unsigned pairs = (lanes & 0x55555555U) + ((lanes >> 1) & 0x55555555U);
    return ((pairs & 0x33333333U) + ((pairs >> 2) & 0x33333333U)) & 0x66666666U;
  }

  /// False for infinities and NaN.
  __device__ static bool is_tied(float r, float x, softmax_numbers const& n) { return __fsub_rn(r, x) <= n.tied_within; }

  __device__ static float moved(float r, softmax_numbers const& n) {
    const float published = r == 0 ? r : r < 0 ? 0 : __fmul_rn(n.beta, r);
    if (Fixes::tied == ties::published) return published;
    return __fadd_rn(r, fminf(fmaxf(n.least_shift, __fsub_rn(published, r)), n.most_shift));
  }

  float max_[2], sum_[2];       // m and this lane's part of the row sum
  float bf16_sum_[2];           // two_row_sums: of the weights in BF16
  float true_max_[2];           // ties::extended: of the scores so far,
  float tied_count_[2];         // and how many are tied with it
};

}  // namespace stickybit::kernel::sm90
