#pragma once
#include "../../instruction/bf16x2.cuh"
#include "../../instruction/m16n8k16_f32_bf16_bf16_f32.cuh"
#include "../../instruction/scalar_ftz.cuh"
#include "../../instruction/special_functions.cuh"
#include "backward_layout.cuh"
#include "dq_turn.cuh"

// The backward kernel proper. A block of threads holds one block of 128 keys, K and V in shared memory, dK and dV in registers, and goes
// over the blocks of 64 queries that see it, descending. Everything is formed transposed, keys as rows of the products:
//
//   Sᵀ = K Qᵀ, dPᵀ = V dOᵀ    a warp: 32 keys × 32 queries at once; Pᵀ and dSᵀ from them in the same registers
//   dV += Pᵀ dO, dK += dSᵀ Q  a warp: 32 keys × 64 columns. With d = 64 Pᵀ and dSᵀ are there already: mma's D is laid out as its A is
//   dQ part = dS K            a warp: 32 queries × 32 columns, over all 128 keys, dSᵀ from shared memory
//
// dQ's part of each block of keys, a chain of its own from +0, is added to FP32 sums in global memory: in ascending order of the blocks
// where the call is deterministic (dq_turn.cuh).

namespace stickybit::kernel::sm80 {

template <int HeadDim, bool Causal, bool Deterministic>
class backward_block {
 public:
  using tile = backward_tile<HeadDim>;
  using rows = typename tile::rows;
  using key_rows = typename tile::key_rows;
  using weights = typename tile::weights;
  using mma = gpu::m16n8k16_f32_bf16_bf16_f32;

  __device__ backward_block(backward_arguments const& a, std::uint32_t shared)
      : a_(a), shared_(shared), warp_(int(threadIdx.x) / 32), lane_(int(threadIdx.x) % 32), key_warp_(warp_ % tile::key_warps), column_warp_(warp_ / tile::key_warps) {
    // Blocks of keys outermost: where many blocks of threads start at once, few of them wait for each other's dQ.
    const int heads = a.batch * a.heads;
    key_block_ = int(blockIdx.x) / heads;
    batch_head_ = int(blockIdx.x) % heads;
    batch_ = batch_head_ / a.heads;
    head_ = batch_head_ % a.heads;
  }

  __device__ void run() {
    const int first = first_query_block<Causal>(key_block_, a_.queries, a_.keys);
    int block = a_.query_blocks - 1, stage = 0;
    if (block >= first) {
      load_keys();
      load_queries(block, 0);
    }
    gpu::cp_async_16::commit();
    for (; block >= first; --block, stage ^= 1) {
      gpu::cp_async_16::wait<0>();
      __syncthreads();  // this stage has arrived, nobody reads the other one, Pᵀ or dSᵀ any more, and all of the last block's dQ is on its way
      if (Deterministic && warp_ == 0 && block + 1 < a_.query_blocks) dq_turn::pass(turn_of(block + 1), key_block_ + 1);
      if (block > first) load_queries(block - 1, stage ^ 1);
      gpu::cp_async_16::commit();
#pragma unroll 1  // two at once do not fit into the registers
      for (int part = 0; part < tile::query_parts; ++part) take_part(block, stage, tile::query_parts * column_warp_ + part);
      __syncthreads();  // Pᵀ and dSᵀ are complete
      add_to_dq(block);
      if constexpr (tile::shares_weights) {
        accumulate_from_shared(dv_, shared_ + tile::p, d_o_of(stage));
        accumulate_from_shared(dk_, shared_ + tile::ds, q_of(stage));
      }
    }
    if (Deterministic && first < a_.query_blocks) {
      __syncthreads();
      if (warp_ == 0) dq_turn::pass(turn_of(first), key_block_ + 1);
    }
    store();
  }

 private:
  using part_of_weights = float[2][4][4];      // [2 × 16 keys][4 × 8 queries]
  using part_of_gradient = float[2][8][4];     // [2 × 16 keys][8 × 8 columns]

  __device__ std::uint32_t q_of(int stage) const { return shared_ + tile::q + stage * rows::bytes; }
  __device__ std::uint32_t d_o_of(int stage) const { return shared_ + tile::d_o + stage * rows::bytes; }

  __device__ void load_keys() {
    const int first = tile::keys * key_block_, key_head = head_ / a_.group;
    const auto load = [&](input_tensor const& t, int place) {
      tile_copy<key_rows, tile::threads>::template start<true>(shared_ + place, t.data + batch_ * t.batch_stride + first * t.row_stride + key_head * t.head_stride, t.row_stride,
                                                               a_.keys - first);
    };
    load(a_.k, tile::k);
    load(a_.v, tile::v);
  }

  __device__ void load_queries(int block, int stage) {
    const int first = tile::queries * block;
    const auto load = [&](input_tensor const& t, std::uint32_t place) {
      tile_copy<rows, tile::threads>::template start<true>(place, t.data + batch_ * t.batch_stride + first * t.row_stride + head_ * t.head_stride, t.row_stride, a_.queries - first);
    };
    load(a_.q, q_of(stage));
    load(a_.d_o, d_o_of(stage));
    if (threadIdx.x < 32) {
      const int of_delta = int(threadIdx.x) / 16, four = 4 * (int(threadIdx.x) % 16);
      float const* const from = (of_delta != 0 ? a_.delta : a_.lse_log2) + (std::int64_t(batch_head_) * a_.query_blocks + block) * tile::queries + four;
      gpu::cp_async_16::copy(shared_ + (of_delta != 0 ? tile::delta : tile::lse) + 4 * (stage * tile::queries + four), from);
    }
  }

  /// Two neighbouring numbers of a row of lse or delta.
  __device__ static float2 load_two(std::uint32_t address) {
    float2 x;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(x.x), "=f"(x.y) : "r"(address));
    return x;
  }

  /// 32 of the block's queries: Pᵀ and dSᵀ of the warp's 32 keys, and with d = 64 what follows of them for dV and dK.
  __device__ void take_part(int block, int stage, int part) {
    const int query = 32 * part + 2 * (lane_ % 4);  // of the lane's first column
    part_of_weights p, ds;  // [32 keys × 32 queries]
    multiply(p, shared_ + tile::k, q_of(stage), part);
    mask(p, block, part);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float2 lse = load_two(shared_ + tile::lse + 4 * (stage * tile::queries + query + 8 * j));
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int r = 0; r < 4; ++r) p[i][j][r] = gpu::ex2_approx_ftz_f32(gpu::fma_ftz_f32(p[i][j][r], a_.scale_log2, -(r % 2 == 0 ? lse.x : lse.y)));
    }
    if constexpr (tile::shares_weights) share(p, shared_ + tile::p, part);
    else accumulate(dv_, p, d_o_of(stage), part);
    multiply(ds, shared_ + tile::v, d_o_of(stage), part);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float2 delta = load_two(shared_ + tile::delta + 4 * (stage * tile::queries + query + 8 * j));
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int r = 0; r < 4; ++r) ds[i][j][r] = gpu::mul_ftz_f32(p[i][j][r], gpu::sub_ftz_f32(ds[i][j][r], r % 2 == 0 ? delta.x : delta.y));
    }
    share(ds, shared_ + tile::ds, part);
    if constexpr (!tile::shares_weights) accumulate(dk_, ds, q_of(stage), part);
  }

  /// x[32 keys × 32 queries] = keys[32 × d] · queries[32 × d]ᵀ
  __device__ void multiply(part_of_weights& x, std::uint32_t keys, std::uint32_t queries, int part) const {
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j)
#pragma unroll
        for (int r = 0; r < 4; ++r) x[i][j][r] = 0;
    const std::uint32_t key_lane = key_rows::lane_address_of_a(keys + tile::warp_keys * key_warp_ * key_rows::row_bytes, lane_);
    const std::uint32_t query_lane = rows::lane_address_of_b(queries + 32 * part * rows::row_bytes, lane_);
#pragma unroll
    for (int step = 0; step < HeadDim / 16; ++step) {
      std::uint32_t a[2][4], b[2][4];  // [2 × 16 keys × 16], [2 × 16 × 16 queries]
#pragma unroll
      for (int i = 0; i < 2; ++i) gpu::ldmatrix_x4::load(a[i], key_rows::at(key_lane, i, step));
#pragma unroll
      for (int j = 0; j < 2; ++j) gpu::ldmatrix_x4::load(b[j], rows::at(query_lane, j, step));
      multiply_step(x, a, b);
    }
  }

  /// x[32 × 32] += a[32 × 16] · b[16 × 32]
  template <int Columns>
  __device__ static void multiply_step(float (&x)[2][2 * Columns][4], std::uint32_t const (&a)[2][4], std::uint32_t const (&b)[Columns][4]) {
#pragma unroll
    for (int j = 0; j < 2 * Columns; ++j)
#pragma unroll
      for (int i = 0; i < 2; ++i) mma::fma(x[i][j], a[i], {b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]}, x[i][j]);
  }

  /// Scores of keys that are not there or not visible become −∞.
  __device__ void mask(part_of_weights& s, int block, int part) const {
    const int first_key = tile::keys * key_block_ + tile::warp_keys * key_warp_, first_query = tile::queries * block + 32 * part;
    const int shift = a_.keys - a_.queries;
    if (first_key + tile::warp_keys <= a_.keys && (!Causal || first_key + tile::warp_keys - 1 <= first_query + shift)) return;
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j)
#pragma unroll
        for (int r = 0; r < 4; ++r) {
          const int key = first_key + 16 * i + lane_ / 4 + 8 * (r / 2), query = first_query + 8 * j + 2 * (lane_ % 4) + r % 2;
          if (key >= a_.keys || (Causal && key > query + shift)) s[i][j][r] = __uint_as_float(0xff800000U);
        }
  }

  /// Writes 32 keys × 32 queries as BF16 into the tile that all warps read.
  __device__ void share(part_of_weights const& x, std::uint32_t to, int part) const {
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int key = tile::warp_keys * key_warp_ + 16 * i + 8 * half + lane_ / 4;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const std::uint32_t pair = gpu::cvt_rn_bf16x2_f32(x[i][j][2 * half], x[i][j][2 * half + 1]);
          asm volatile("st.shared.b32 [%0], %1;" ::"r"(weights::place(to, key, 4 * part + j) + 4 * (lane_ % 4)), "r"(pair) : "memory");
        }
      }
  }

  /// sum[32 keys × 64] += x[32 keys × 32 queries] · queries[32 × 64], x from the warp's registers as BF16
  __device__ void accumulate(part_of_gradient& sum, part_of_weights const& x, std::uint32_t queries, int part) const {
    const std::uint32_t query_lane = rows::lane_address_of_a(queries + 32 * part * rows::row_bytes, lane_);
#pragma unroll
    for (int step = 0; step < 2; ++step) {
      std::uint32_t a[2][4];  // [2 × 16 keys × 16 queries]
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int r = 0; r < 4; ++r) a[i][r] = gpu::cvt_rn_bf16x2_f32(x[i][2 * step + r / 2][r % 2 * 2], x[i][2 * step + r / 2][r % 2 * 2 + 1]);
      accumulate_step(sum, a, query_lane, step);
    }
  }

  /// The same over all 64 queries of the block, xᵀ[128 keys × 64 queries] from shared memory.
  __device__ void accumulate_from_shared(part_of_gradient& sum, std::uint32_t x, std::uint32_t queries) const {
    const std::uint32_t x_lane = weights::lane_address_of_a(x + tile::warp_keys * key_warp_ * weights::row_bytes, lane_);
    const std::uint32_t query_lane = rows::lane_address_of_a(queries, lane_) ^ (column_warp_ * tile::warp_columns * 2);
#pragma unroll
    for (int step = 0; step < tile::queries / 16; ++step) {
      std::uint32_t a[2][4];  // [2 × 16 keys × 16 queries]
#pragma unroll
      for (int i = 0; i < 2; ++i) gpu::ldmatrix_x4::load(a[i], weights::at(x_lane, i, step));
      accumulate_step(sum, a, query_lane, step);
    }
  }

  /// 16 queries: sum[32 keys × 64] += a[32 keys × 16 queries] · queries[16 × 64]
  __device__ static void accumulate_step(part_of_gradient& sum, std::uint32_t const (&a)[2][4], std::uint32_t query_lane, int step) {
    std::uint32_t b[4][4];  // [4 × 16 × 16 columns]
#pragma unroll
    for (int j = 0; j < 4; ++j) gpu::ldmatrix_x4::load_transposed(b[j], rows::at(query_lane, step, j));
    multiply_step(sum, a, b);
  }

  __device__ std::int64_t tile_of(int block) const { return std::int64_t(batch_head_) * a_.query_blocks + block; }
  __device__ int* turn_of(int block) const { return a_.turns + tile_of(block); }

  /// The warp's 32 × 32 of dS[64 × 128] · K[128 × d], added to the sums.
  __device__ void add_to_dq(int block) {
    int added = 0;
    if constexpr (Deterministic) added = dq_turn::early(turn_of(block));
    part_of_weights dq = {};  // [2 × 16 queries][4 × 8 columns]
    const int query_part = warp_ % 2, columns = warp_ / 2;
    const std::uint32_t ds_lane = weights::lane_address_of_a(shared_ + tile::ds, lane_) ^ (query_part * 64);
    const std::uint32_t key_lane = key_rows::lane_address_of_a(shared_ + tile::k, lane_) ^ (columns * 64);
#pragma unroll
    for (int step = 0; step < tile::keys / 16; ++step) {
      std::uint32_t a[2][4], b[2][4];  // [2 × 16 queries × 16 keys], [2 × 16 keys × 16 columns]
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        std::uint32_t t[4];
        gpu::ldmatrix_x4::load_transposed(t, weights::at(ds_lane, step, i));
        a[i][0] = t[0], a[i][1] = t[2], a[i][2] = t[1], a[i][3] = t[3];
      }
#pragma unroll
      for (int j = 0; j < 2; ++j) gpu::ldmatrix_x4::load_transposed(b[j], key_rows::at(key_lane, step, j));
      multiply_step(dq, a, b);
    }
    if (Deterministic && added != key_block_) dq_turn::wait(turn_of(block), key_block_);
    float* const to = a_.dq + (tile_of(block) * tile::dq_parts + warp_) * tile::dq_part_size + 4 * lane_;
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) red_add_f32x4(to + 128 * (4 * i + j), dq[i][j]);
  }

  /// dV, and dK times s: as BF16, or with grouped heads as FP32 into the workspace.
  __device__ void store() {
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int key = tile::keys * key_block_ + tile::warp_keys * key_warp_ + 16 * i + 8 * half + lane_ / 4;
        if (key >= a_.keys) continue;
#pragma unroll
        for (int j = 0; j < 8; ++j) {
          const int column = tile::warp_columns * column_warp_ + 8 * j + 2 * (lane_ % 4);
          const float2 dk = {gpu::mul_ftz_f32(dk_[i][j][2 * half], a_.scale), gpu::mul_ftz_f32(dk_[i][j][2 * half + 1], a_.scale)};
          const float2 dv = {dv_[i][j][2 * half], dv_[i][j][2 * half + 1]};
          if (a_.group_dk != nullptr) {
            const std::int64_t to = (std::int64_t(batch_head_) * a_.keys + key) * HeadDim + column;
            *reinterpret_cast<float2*>(a_.group_dk + to) = dk;
            *reinterpret_cast<float2*>(a_.group_dv + to) = dv;
          } else {
            const auto put = [&](output_tensor const& t, float2 x) {
              *reinterpret_cast<std::uint32_t*>(t.data + batch_ * t.batch_stride + key * t.row_stride + head_ * t.head_stride + column) = gpu::cvt_rn_bf16x2_f32(x.x, x.y);
            };
            put(a_.dk, dk);
            put(a_.dv, dv);
          }
        }
      }
  }

  backward_arguments const& a_;
  std::uint32_t shared_;
  int warp_, lane_, key_warp_, column_warp_;
  int key_block_, batch_head_, head_;
  std::int64_t batch_;
  part_of_gradient dk_ = {}, dv_ = {};  // [32 keys × 64]
};

template <int HeadDim, bool Causal, bool Deterministic>
__global__ void __launch_bounds__(backward_tile<HeadDim>::threads, backward_tile<HeadDim>::blocks_on_sm) backward_kernel(__grid_constant__ const backward_arguments a) {
  extern __shared__ __align__(1024) unsigned char shared[];
  backward_block<HeadDim, Causal, Deterministic>(a, gpu::shared_address(shared)).run();
}

}  // namespace stickybit::kernel::sm80
