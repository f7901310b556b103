#pragma once
#include "../instruction/mma_f64.cuh"
#include "../instruction/mma_fp8.cuh"
#include "../instruction/mma_half.cuh"
#include "../instruction/mma_tf32.cuh"
#include "../instruction/wgmma.cuh"
#include "../support/device.cuh"
#include "hardware_ways.hpp"

// Inner products by the tensor cores. A tile holds eight cases: column n of B and C is case n mod 8, row r of A is case r mod 8, so
// that D[r, n] with r mod 8 = n mod 8 is that case's result. It appears in every group of eight rows and of eight columns; which
// one is read goes round with the tile's number, so that all rows and columns of the instruction are used.

namespace stickybit::gpu {

inline constexpr int cases_per_tile = 8;

/// Operands of all cases in device memory: [case][row_words] words, [case] codes.
template <class Word>
struct tile_arguments {
  Word const *a, *b;
  std::uint64_t const* c;
  std::uint64_t* d;
  int row_words, instructions;
  bool add_d;
};

/// The architecture that device code is being compiled for: 900 is 9.0. sm_90a alone has wgmma.
#ifdef __CUDA_ARCH__
inline constexpr int compiled_architecture = __CUDA_ARCH__;
#else
inline constexpr int compiled_architecture = 0;
#endif
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
inline constexpr bool compiled_with_wgmma = true;
#else
inline constexpr bool compiled_with_wgmma = false;
#endif

/// The accumulator registers of a thread for a tile: columns 8j + 2t, 8j + 2t + 1 of its rows, the same for all rows.
template <bool HalfOutput, class Word, int Count>
__device__ void load_c(std::uint64_t const* tile_c, int t, Word (&c)[Count]) {
  for (int i = 0; i < Count; ++i) c[i] = HalfOutput ? Word(tile_c[2 * t] | tile_c[2 * t + 1] << 16) : Word(tile_c[2 * t + i % 2]);
}

/// Writes case g's result, which this thread holds if g = 2t or 2t + 1, from its row group and column group.
template <bool HalfOutput, class Word, int Count>
__device__ void store_d(Word const (&d)[Count], int g, int t, bool second_row, int column_group, std::uint64_t* tile_d) {
  if (g / 2 != t) return;
  for (int i = 0; i < Count; ++i) {
    if (HalfOutput && i == 2 * column_group + second_row) tile_d[g] = d[i] >> 16 * (g % 2) & 0xffff;
    if (!HalfOutput && i == 4 * column_group + 2 * second_row + g % 2) tile_d[g] = d[i];
  }
}

template <class I, int Least>
__global__ void mma_tiles(tile_arguments<typename I::word> x) {
  if constexpr (compiled_architecture >= 10 * Least) {
    using word = typename I::word;
    constexpr int row_groups = I::m / 8, words = 4 * I::b_words;
    const int g = int(threadIdx.x) / 4, t = int(threadIdx.x) % 4;
    const std::size_t first = std::size_t{blockIdx.x} * cases_per_tile;
    word d[I::c_words];
    load_c<I::half_output>(x.c + first, t, d);
    for (int step = 0; step < x.instructions; ++step) {
      word const* const row_a = x.a + (first + g) * x.row_words + step * words;
      word const* const row_b = x.b + (first + g) * x.row_words + step * words;
      word a[I::a_words], b[I::b_words], c[I::c_words];
      for (int i = 0; i < I::a_words; ++i) a[i] = row_a[t + 4 * (i / row_groups)];
      for (int i = 0; i < I::b_words; ++i) b[i] = row_b[t + 4 * i];
      for (int i = 0; i < I::c_words; ++i) c[i] = d[i];
      I::fma(d, a, b, c);
    }
    store_d<I::half_output>(d, g, t, int(blockIdx.x % row_groups) != 0, 0, x.d + first);
  } else {
    __trap();
  }
}

/// A row into shared memory, as the descriptor says.
template <bool Transposed>
__device__ void put_row_word(std::uint32_t* shared, int row, int w, std::uint32_t word) {
  if constexpr (Transposed) {
    auto* const halves = reinterpret_cast<std::uint16_t*>(shared);
    halves[wgmma_transposed_place(row, 2 * w)] = std::uint16_t(word);
    halves[wgmma_transposed_place(row, 2 * w + 1)] = std::uint16_t(word >> 16);
  } else {
    shared[wgmma_word_place(row, w)] = word;
  }
}

template <class I>
__global__ void wgmma_tiles(tile_arguments<std::uint32_t> x) {
  if constexpr (compiled_with_wgmma) {
    constexpr int words = 8;
    __shared__ alignas(128) std::uint32_t b_shared[I::n * words];
    __shared__ alignas(128) std::uint32_t a_shared[I::form.a_shared ? I::m * words : 1];
    const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32, g = lane / 4, t = lane % 4;
    const std::size_t first = std::size_t{blockIdx.x} * cases_per_tile;
    constexpr int registers = I::n == 8 ? I::accumulators : 128;
    std::uint32_t d[registers];
    load_c<I::half_output>(x.c + first, t, d);
    for (int step = 0; step < x.instructions; ++step) {
      const auto word_of = [&](std::uint32_t const* operand, int row, int w) { return operand[(first + row % 8) * x.row_words + step * words + w]; };
      for (int i = int(threadIdx.x); i < I::n * words; i += I::threads)
        put_row_word<I::form.transpose_b>(b_shared, i / words, i % words, word_of(x.b, i / words, i % words));
      if constexpr (I::form.a_shared)
        for (int i = int(threadIdx.x); i < I::m * words; i += I::threads)
          put_row_word<I::form.transpose_a>(a_shared, i / words, i % words, word_of(x.a, i / words, i % words));
      wgmma_publish();
      const std::uint32_t a[4] = {word_of(x.a, g, t), word_of(x.a, g, t), word_of(x.a, g, t + 4), word_of(x.a, g, t + 4)};
      I::fma(d, a, wgmma_descriptor(a_shared), wgmma_descriptor(b_shared), x.add_d);
      __syncthreads();
    }
    const int row_group = int(blockIdx.x % 8), column_group = int(blockIdx.x / 8 % (I::n / 8));
    if (warp == row_group / 2) store_d<I::half_output>(d, g, t, row_group % 2 != 0, column_group, x.d + first);
  } else {
    __trap();
  }
}

/// All cases by one kernel.
template <class Word>
void launch_tiles(void (*kernel)(tile_arguments<Word>), int threads, int row_words_of_one, device_cases const& x, call_options options) {
  const std::size_t tiles = (x.count + cases_per_tile - 1) / cases_per_tile;
  const int row_words = x.row_bytes / int(sizeof(Word));
  kernel<<<unsigned(tiles), unsigned(threads)>>>({reinterpret_cast<Word const*>(x.a), reinterpret_cast<Word const*>(x.b), x.c, x.d, row_words, row_words / row_words_of_one, options.add_d});
  check(cudaGetLastError(), "inner products");
}

template <class I, int Least>
void launch_mma(device_cases const& x, call_options options) {
  launch_tiles<typename I::word>(mma_tiles<I, Least>, I::threads, 4 * I::b_words, x, options);
}
template <class I>
void launch_wgmma(device_cases const& x, call_options options) {
  using form = std::conditional_t<I::n == 8, wgmma_n8<typename I::d_type, typename I::a_type, typename I::b_type, I::form>, I>;
  launch_tiles<std::uint32_t>(wgmma_tiles<form>, form::threads, 8, x, options);
}

template <class Type> inline constexpr case_format format_of_ptx = f32_format;
template <> inline constexpr case_format format_of_ptx<ptx_f16> = f16_format;
template <> inline constexpr case_format format_of_ptx<ptx_bf16> = bf16_format;
template <> inline constexpr case_format format_of_ptx<ptx_tf32> = tf32_format;
template <> inline constexpr case_format format_of_ptx<ptx_e4m3> = e4m3_format;
template <> inline constexpr case_format format_of_ptx<ptx_e5m2> = e5m2_format;

}  // namespace stickybit::gpu
