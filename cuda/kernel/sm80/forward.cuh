#pragma once
#include <cstdint>

#include "../../instruction/bf16x2.cuh"
#include "../../instruction/m16n8k16_f32_bf16_bf16_f32.cuh"
#include "../../instruction/scalar_ftz.cuh"
#include "../../instruction/special_functions.cuh"
#include "forward_layout.cuh"
#include "ties.cuh"

// O = softmax(s Q Kᵀ) V by one block of warps for a tile of queries of one head. Keys are taken in blocks, the last block first; each
// warp owns 16·Strips rows of the tile and needs nobody else's scores. The rules that follow here to the bit are those of the
// emulator's schedule `stickybit-sm80`.

namespace stickybit::kernel::sm80 {

/// What a thread does; g = lane/4 and q = lane%4 as in the fragments of m16n8k16. The thread has the rows g and g + 8 of each strip of
/// its warp and, of every eight columns, 2q and 2q + 1.
template <class Tile, class Variant>
class forward_thread {
  static constexpr int strips = Tile::strips, d = Tile::head_dim, keys = Tile::keys;
  using mma = gpu::m16n8k16_f32_bf16_bf16_f32;
  using query_tile = typename Tile::query_tile;
  using key_tile = typename Tile::key_tile;
  using key_copy = tile_copy<key_tile, Tile::threads>;

 public:
  __device__ forward_thread(forward_arguments const& call, std::uint32_t shared, int tile, int head, int batch)
      : call_(call), shared_(shared), head_(head), batch_(batch), first_row_(tile * Tile::rows) {
    const int key_head = head / call.heads_of_group;
    k_ = call.k.data + batch * call.k.batch_stride + key_head * call.k.head_stride;
    v_ = call.v.data + batch * call.v.batch_stride + key_head * call.v.head_stride;
    const int blocks = (call.keys + keys - 1) / keys;
    if constexpr (Variant::causal) {
      const int seen = max(0, first_row_ + Tile::rows + call.keys - call.queries);  // by the tile's last row
      blocks_ = min(blocks, (seen + keys - 1) / keys);
      whole_blocks_ = min(blocks_, max(0, first_row_ + call.keys - call.queries) / keys);
    } else {
      blocks_ = blocks;
      whole_blocks_ = blocks;
    }
  }

  __device__ void run() {
    clear();
    if (blocks_ > 0) {
      start_copies();
      int block = blocks_ - 1;
      take_block<true, true>(block);
      if constexpr (Variant::causal)
        for (--block; block >= whole_blocks_; --block) take_block<false, true>(block);
      else --block;
      for (; block >= 0; --block) take_block<false, false>(block);
    }
    finish();
  }

 private:
  __device__ static int lane() { return threadIdx.x % 32; }
  __device__ static int warp() { return threadIdx.x / 32; }
  __device__ static int column_in_eight() { return 2 * (lane() % 4); }
  __device__ static int row_in_tile(int strip, int half) { return warp() * Tile::warp_rows + 16 * strip + 8 * half + lane() / 4; }
  /// Of the tile's rows of shared memory that are this warp's.
  __device__ std::uint32_t warp_queries() const { return shared_ + warp() * Tile::warp_rows * query_tile::row_bytes; }

  // Tiles of K and V are used in turn: K of the last block, V of the last block, K of the one before, ... Tile t is in slot t mod stages.

  template <bool Partial>
  __device__ void start_copy(int block, bool values) {
    std::uint16_t const* const from = values ? v_ : k_;
    const std::int64_t stride = values ? call_.v.row_stride : call_.k.row_stride;
    key_copy::template start<Partial>(shared_ + query_tile::bytes + next_slot_ * key_tile::bytes, from + block * keys * stride, stride, call_.keys - block * keys);
    next_slot_ = next_slot_ + 1 == Tile::stages ? 0 : next_slot_ + 1;
  }

  /// Q and all tiles of K and V but the one for which tile 0 has to be used up first.
  __device__ void start_copies() {
    std::uint16_t const* const q = call_.q.data + batch_ * call_.q.batch_stride + head_ * call_.q.head_stride;
    tile_copy<query_tile, Tile::threads>::template start<true>(shared_, q + first_row_ * call_.q.row_stride, call_.q.row_stride, call_.queries - first_row_);
#pragma unroll
    for (int t = 0; t < Tile::stages - 1; ++t) {
      if (t / 2 < blocks_) {
        if (t < 2) start_copy<true>(blocks_ - 1 - t / 2, t % 2);
        else start_copy<false>(blocks_ - 1 - t / 2, t % 2);
      }
      gpu::cp_async_16::commit();
    }
  }

  /// Waits for the next tile and starts the copy of the one that comes stages − 1 tiles later, where the tile before it was.
  /// @returns the tile's address
  template <bool First, bool Values>
  __device__ std::uint32_t next_tile(int block) {
    gpu::cp_async_16::wait<Tile::stages - 2>();
    __syncthreads();
    constexpr int ahead = Values + Tile::stages - 1;  // tiles after K of this block
    if (block - ahead / 2 >= 0) start_copy<(First && ahead / 2 == 0)>(block - ahead / 2, ahead % 2);
    gpu::cp_async_16::commit();
    const std::uint32_t tile = shared_ + query_tile::bytes + slot_ * key_tile::bytes;
    slot_ = slot_ + 1 == Tile::stages ? 0 : slot_ + 1;
    return tile;
  }

  __device__ void clear() {
    if constexpr (Variant::beta) ties_.clear();
#pragma unroll
    for (int m = 0; m < strips; ++m) {
#pragma unroll
      for (int j = 0; j < d / 8; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) o_[m][j][i] = 0;
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        max_[m][h] = -INFINITY;
        sum_[m][h] = bf16_sum_[m][h] = 0;
      }
    }
  }

  /// @tparam Masked  some row of the tile does not see all keys of the block; a maximum of −inf counts as 0
  template <bool First, bool Masked>
  __device__ void take_block(int block) {
    float s[strips][keys / 8][4];                            // S[16·strips × keys] of the warp
    std::uint32_t p[strips][keys / 16][4];                   // P as operand A
    float rescale[strips][2], subtrahend[strips][2];
    const std::uint32_t k = next_tile<First, false>(block);  // K[keys × d]
    if constexpr (First && Tile::queries_in_registers) load_queries();
    multiply_by_keys(s, k);
    std::uint32_t v = 0;  // V[keys × d]
    if constexpr (Tile::overlapped) v = next_tile<First, true>(block);
    if constexpr (Masked) mask(s, block);
    take_maxima<First, Masked>(s, rescale, subtrahend);
    if constexpr (!Tile::overlapped) {
#pragma unroll
      for (int m = 0; m < strips; ++m) {
#pragma unroll
        for (int n = 0; n < keys / 16; ++n)
#pragma unroll
          for (int i = 0; i < 4; ++i) p[m][n][i] = weights<First>(s[m], n, i, m, rescale[m], subtrahend[m]);
        if constexpr (!First && !Tile::rescaled_late)
#pragma unroll
          for (int j = 0; j < d / 16; ++j) rescale_output(m, j, rescale[m]);
      }
      v = next_tile<First, true>(block);
    }
    multiply_by_values<First>(s, p, rescale, subtrahend, v);
  }

  __device__ void load_queries() {
    const std::uint32_t q = query_tile::lane_address_of_a(warp_queries(), lane());
#pragma unroll
    for (int m = 0; m < strips; ++m)
#pragma unroll
      for (int j = 0; j < d / 16; ++j) gpu::ldmatrix_x4::load(q_[Tile::queries_in_registers ? m : 0][Tile::queries_in_registers ? j : 0], query_tile::at(q, m, j));
  }

  /// S = Q Kᵀ: chains over ascending d.
  __device__ void multiply_by_keys(float (&s)[strips][keys / 8][4], std::uint32_t k) {
    const std::uint32_t q_lane = query_tile::lane_address_of_a(warp_queries(), lane()), k_lane = key_tile::lane_address_of_b(k, lane());
#pragma unroll
    for (int m = 0; m < strips; ++m)
#pragma unroll
      for (int n = 0; n < keys / 8; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) s[m][n][i] = 0;
#pragma unroll
    for (int j = 0; j < d / 16; ++j) {
      std::uint32_t a[strips][4];  // Q[16 × 16] of each strip
#pragma unroll
      for (int m = 0; m < strips; ++m) {
        if constexpr (Tile::queries_in_registers) {
#pragma unroll
          for (int i = 0; i < 4; ++i) a[m][i] = q_[m][j][i];
        } else {
          gpu::ldmatrix_x4::load(a[m], query_tile::at(q_lane, m, j));
        }
      }
#pragma unroll
      for (int n = 0; n < keys / 16; ++n) {
        std::uint32_t b[4];  // Kᵀ[16 × 16]
        gpu::ldmatrix_x4::load(b, key_tile::at(k_lane, n, j));
#pragma unroll
        for (int m = 0; m < strips; ++m) {
          mma::fma(s[m][2 * n], a[m], {b[0], b[1]}, s[m][2 * n]);
          mma::fma(s[m][2 * n + 1], a[m], {b[2], b[3]}, s[m][2 * n + 1]);
        }
      }
    }
  }

  /// O += P V: chains over ascending keys. Overlapped, S becomes P and O is rescaled on the way.
  template <bool First>
  __device__ void multiply_by_values(float const (&s)[strips][keys / 8][4], std::uint32_t (&p)[strips][keys / 16][4], float const (&rescale)[strips][2],
                                     float const (&subtrahend)[strips][2], std::uint32_t v) {
    const std::uint32_t v_lane = key_tile::lane_address_of_a(v, lane());
    /// Part `part` of `parts` of the weights of keys 16n to 16n + 15.
    const auto make_weights = [&](int n, int part, int parts) {
#pragma unroll
      for (int word = 4 * strips * part / parts; word < 4 * strips * (part + 1) / parts; ++word)
        p[word / 4][n][word % 4] = weights<First>(s[word / 4], n, word % 4, word / 4, rescale[word / 4], subtrahend[word / 4]);
    };
    if constexpr (Tile::overlapped) make_weights(0, 0, 1);
#pragma unroll
    for (int n = 0; n < keys / 16; ++n)
#pragma unroll
      for (int j = 0; j < d / 16; ++j) {
        std::uint32_t b[4];  // V[16 × 16]
        gpu::ldmatrix_x4::load_transposed(b, key_tile::at(v_lane, n, j));
        if (Tile::rescaled_late && !First && n == 0)
#pragma unroll
          for (int m = 0; m < strips; ++m) rescale_output(m, j, rescale[m]);
#pragma unroll
        for (int m = 0; m < strips; ++m) {
          mma::fma(o_[m][2 * j], p[m][n], {b[0], b[1]}, o_[m][2 * j]);
          mma::fma(o_[m][2 * j + 1], p[m][n], {b[2], b[3]}, o_[m][2 * j + 1]);
        }
        if (Tile::overlapped && n + 1 < keys / 16) make_weights(n + 1, j, d / 16);
      }
  }

  /// Of columns 16j to 16j + 15.
  __device__ void rescale_output(int m, int j, float const (&rescale)[2]) {
#pragma unroll
    for (int i = 0; i < 8; ++i) o_[m][2 * j + i / 4][i % 4] = gpu::mul_ftz_f32(o_[m][2 * j + i / 4][i % 4], rescale[i % 4 / 2]);
  }

  /// Scores of keys that are not there, or that a row does not see, become −inf.
  __device__ void mask(float (&s)[strips][keys / 8][4], int block) const {
#pragma unroll
    for (int m = 0; m < strips; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = first_row_ + row_in_tile(m, h);
        const int seen = Variant::causal ? min(call_.keys, row + call_.keys - call_.queries + 1) : call_.keys;
        const int limit = seen - block * keys - column_in_eight();
#pragma unroll
        for (int n = 0; n < keys / 8; ++n)
#pragma unroll
          for (int i = 0; i < 2; ++i)
            if (8 * n + i >= limit) s[m][n][2 * h + i] = -INFINITY;
      }
  }

  /// The rows' maxima go on to this block.
  /// @param rescale     for sums and O so far
  /// @param subtrahend  of the exponent
  template <bool First, bool Masked>
  __device__ void take_maxima(float const (&s)[strips][keys / 8][4], float (&rescale)[strips][2], float (&subtrahend)[strips][2]) {
    float before[strips][2], largest[strips][2];  // largest: of the thread's scores of the block
#pragma unroll
    for (int m = 0; m < strips; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        before[m][h] = max_[m][h];
        float& x = largest[m][h];
        x = gpu::max_ftz_f32(s[m][0][2 * h], s[m][0][2 * h + 1]);
#pragma unroll
        for (int n = 1; n < keys / 8; ++n) x = gpu::max_ftz_f32(x, gpu::max_ftz_f32(s[m][n][2 * h], s[m][n][2 * h + 1]));
        if constexpr (!Variant::beta) max_[m][h] = largest_of_row(gpu::max_ftz_f32(max_[m][h], x));
      }
    if constexpr (Variant::beta) ties_.template move_maxima<First>(call_, s, largest, max_);
#pragma unroll
    for (int m = 0; m < strips; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float guarded = Masked && max_[m][h] == -INFINITY ? 0.0f : max_[m][h];
        rescale[m][h] = First ? 1.0f : gpu::ex2_approx_ftz_f32(gpu::mul_ftz_f32(gpu::sub_ftz_f32(before[m][h], guarded), call_.scale_log2));
        subtrahend[m][h] = Variant::subtract_first ? guarded : gpu::mul_ftz_f32(guarded, call_.scale_log2);
      }
  }

  /// Scores of columns 16n + 8(i/2) + 2q, and the next, of row i%2 of a strip become weights and are added to the row's sums; in the first
  /// columns of a block as sum = fma(rescale, sum, weight).
  /// @returns  the weights in BF16
  template <bool First>
  __device__ std::uint32_t weights(float const (&s)[keys / 8][4], int n, int i, int m, float const (&rescale)[2], float const (&subtrahend)[2]) {
    const int h = i % 2;
    const bool start = n == 0 && i < 2;
    const auto weight = [&](float x) {
      return gpu::ex2_approx_ftz_f32(Variant::subtract_first ? gpu::mul_ftz_f32(gpu::sub_ftz_f32(x, subtrahend[h]), call_.scale_log2)
                                                             : gpu::fma_ftz_f32(x, call_.scale_log2, -subtrahend[h]));
    };
    const auto add = [&](float& sum, float x, float y) {
      if (!start) sum = gpu::add_ftz_f32(sum, x);
      else sum = First ? x : gpu::fma_ftz_f32(rescale[h], sum, x);
      sum = gpu::add_ftz_f32(sum, y);
    };
    const float x = weight(s[2 * n + i / 2][2 * h]), y = weight(s[2 * n + i / 2][2 * h + 1]);
    const std::uint32_t pair = gpu::cvt_rn_bf16x2_f32(x, y);
    add(sum_[m][h], x, y);
    if constexpr (Variant::two_row_sums) add(bf16_sum_[m][h], gpu::low_of_bf16x2(pair), gpu::high_of_bf16x2(pair));
    return pair;
  }

  __device__ static float largest_of_row(float x) {
    x = gpu::max_ftz_f32(x, __shfl_xor_sync(~0U, x, 1));
    return gpu::max_ftz_f32(x, __shfl_xor_sync(~0U, x, 2));
  }

  __device__ static float joined(float sum) {
    sum = gpu::add_ftz_f32(sum, __shfl_xor_sync(~0U, sum, 2));
    return gpu::add_ftz_f32(sum, __shfl_xor_sync(~0U, sum, 1));
  }

  /// O is divided and stored, and lse.
  __device__ void finish() {
#pragma unroll
    for (int m = 0; m < strips; ++m)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float sum = joined(sum_[m][h]), divisor = Variant::two_row_sums ? joined(bf16_sum_[m][h]) : sum;
        const bool empty = sum == 0 || sum != sum;
        const float inverse = empty ? 0.0f : gpu::rcp_approx_ftz_f32(divisor);
        const float lse = empty ? -INFINITY : gpu::fma_ftz_f32(max_[m][h], call_.scale, gpu::mul_ftz_f32(gpu::lg2_approx_ftz_f32(sum), 0x1.62e430p-1f));
        const int row = first_row_ + row_in_tile(m, h);
        if (call_.lse != nullptr && lane() % 4 == 0 && row < call_.queries) call_.lse[(std::int64_t(batch_) * call_.heads + head_) * call_.queries + row] = lse;
#pragma unroll
        for (int j = 0; j < d / 8; ++j)
#pragma unroll
          for (int i = 0; i < 2; ++i) o_[m][j][2 * h + i] = gpu::mul_ftz_f32(o_[m][j][2 * h + i], inverse);
      }
    store(call_.o, [](float x, float y) { return gpu::cvt_rn_bf16x2_f32(x, y); });
    if (call_.o_low.data != nullptr)
      store(call_.o_low, [](float x, float y) {
        const std::uint32_t high = gpu::cvt_rn_bf16x2_f32(x, y);
        return gpu::cvt_rn_bf16x2_f32(gpu::sub_ftz_f32(x, gpu::low_of_bf16x2(high)), gpu::sub_ftz_f32(y, gpu::high_of_bf16x2(high)));
      });
  }

  /// The warp's rows by way of where its rows of Q were.
  template <class Cast>
  __device__ void store(output_tensor const& to, Cast const& cast) const {
    using tile = shared_tile<d, Tile::warp_rows>;
    const std::uint32_t rows = warp_queries();
    __syncwarp();
#pragma unroll
    for (int m = 0; m < strips; ++m)
#pragma unroll
      for (int j = 0; j < d / 8; ++j)
#pragma unroll
        for (int h = 0; h < 2; ++h) {
          const std::uint32_t address = tile::place(rows, 16 * m + 8 * h + lane() / 4, j) + 4 * (lane() % 4);
          asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(cast(o_[m][j][2 * h], o_[m][j][2 * h + 1])) : "memory");
        }
    __syncwarp();
    const int row = lane() / tile::chunks, chunk = lane() % tile::chunks, first = first_row_ + warp() * Tile::warp_rows;
    std::uint16_t* const out = to.data + batch_ * to.batch_stride + head_ * to.head_stride + 8 * chunk;
    constexpr int rows_at_once = 32 / tile::chunks;
#pragma unroll
    for (int r = 0; r < Tile::warp_rows; r += rows_at_once) {
      uint4 x;
      asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "r"(tile::place(rows, row + r, chunk)) : "memory");
      if (first + row + r < call_.queries) *reinterpret_cast<uint4*>(out + (first + row + r) * to.row_stride) = x;
    }
  }

  forward_arguments const& call_;
  std::uint32_t shared_;
  int head_, batch_, first_row_;
  std::uint16_t const *k_, *v_;
  int blocks_, whole_blocks_;  // that the tile visits, of these seen whole by every row
  int slot_ = 0, next_slot_ = 0;
  std::uint32_t q_[Tile::queries_in_registers ? strips : 1][Tile::queries_in_registers ? d / 16 : 1][4];  // Q[16·strips × d] of the warp
  float o_[strips][d / 8][4];                                                                              // O[16·strips × d] of the warp
  float max_[strips][2], sum_[strips][2], bf16_sum_[strips][2];                                            // sums: of the thread's columns
  row_ties<strips, keys> ties_;  // of beta
};

/// Grid: heads of all batches × tiles of queries. Where the mask makes later tiles longer, they come first.
template <class Tile, class Variant>
__global__ __launch_bounds__(Tile::threads, Tile::blocks_of_multiprocessor) void forward_kernel(const __grid_constant__ forward_arguments call) {
  extern __shared__ __align__(1024) unsigned char shared[];
  const int head = blockIdx.x % call.heads, batch = blockIdx.x / call.heads;
  const int tile = Variant::causal ? call.tiles - 1 - int(blockIdx.y) : int(blockIdx.y);
  forward_thread<Tile, Variant>(call, gpu::shared_address(shared), tile, head, batch).run();
}

}  // namespace stickybit::kernel::sm80
