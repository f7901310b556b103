#pragma once
#include <cuda.h>

#include <cstdint>

#include "../../instruction/mbarrier.cuh"
#include "../../instruction/tensor_copy.cuh"
#include "../../instruction/warpgroup.cuh"
#include "../../instruction/wgmma_bf16_registers.cuh"
#include "softmax.cuh"
#include "tile.cuh"
#include "work.cuh"

// The forward kernel. A block stays on its multiprocessor and takes tiles of query rows one after another. Its first warpgroup copies Q, K and V
// into shared memory; each of the others computes 64 rows: S = Q Kᵀ of the next block of keys goes to the tensor core together
// with O += P V of this one, and the softmax of one warpgroup runs while the tensor core works for another; they take turns.

namespace stickybit::kernel::sm90 {

struct forward_parameters {
  CUtensorMap q, k, v;
  output_tensor o, o_low;
  float* lse;
  call_sizes sizes;
  softmax_numbers numbers;
};

template <int KeyColumns>
struct score_product;
template <>
struct score_product<128> : gpu::m64n128k16_f32_bf16_bf16_f32 {};
template <int HeadDim>
struct output_product;
template <>
struct output_product<64> : gpu::m64n64k16_f32_bf16_bf16_f32 {};
template <>
struct output_product<128> : gpu::m64n128k16_f32_bf16_bf16_f32 {};

/// Addresses in shared memory.
template <class Tile>
struct shared_tiles {
  std::uint32_t base;
  __device__ std::uint32_t queries(int warpgroup) const { return base + Tile::queries_at + warpgroup * Tile::query_bytes; }
  __device__ std::uint32_t keys(std::uint32_t stage) const { return base + Tile::keys_at + stage * Tile::key_bytes; }
  __device__ std::uint32_t values(std::uint32_t stage) const { return base + Tile::values_at + stage * Tile::key_bytes; }
  __device__ std::uint32_t barrier(std::uint32_t i) const { return base + Tile::barriers_at + 8 * i; }
};

/// The copying thread.
template <class Tile>
__device__ void produce(forward_parameters const& p, shared_tiles<Tile> shared) {
  using gpu::mbarrier;
  using gpu::tensor_copy;
  ring<Tile::stages> key, value;
  std::uint32_t query_parity = 0;
  const auto load = [&](CUtensorMap const& map, ring<Tile::stages>& at, int full, int empty, std::uint32_t to, int row, tile_place const& place) {
    mbarrier::wait(shared.barrier(empty + at.stage), at.parity ^ 1);
    mbarrier::arrive_expecting(shared.barrier(full + at.stage), Tile::key_bytes);
    for (int c = 0; c < Tile::chunks; ++c) tensor_copy::load(to + c * Tile::key_chunk_bytes, map, shared.barrier(full + at.stage), 64 * c, row, place.key_head, place.batch);
    at.next();
  };
  const auto load_keys = [&](int block, tile_place const& place) {
    load(p.k, key, Tile::key_full, Tile::key_empty, shared.keys(key.stage), block * Tile::key_columns, place);
  };
  const auto load_values = [&](int block, tile_place const& place) {
    load(p.v, value, Tile::value_full, Tile::value_empty, shared.values(value.stage), block * Tile::key_columns, place);
  };
  for (tile_walk walk(p.sizes); walk.inside(); walk.next()) {
    const tile_place place = place_of(p.sizes, walk.index());
    const int blocks = blocks_of<Tile>(p.sizes, place);
    if (blocks == 0) continue;
    load_keys(blocks - 1, place);
    for (int w = 0; w < Tile::warpgroups; ++w) {
      mbarrier::wait(shared.barrier(Tile::query_empty + w), query_parity ^ 1);
      const std::uint32_t full = shared.barrier(Tile::query_full + w);
      mbarrier::arrive_expecting(full, Tile::query_bytes);
      for (int c = 0; c < Tile::chunks; ++c)
        tensor_copy::load(shared.queries(w) + c * Tile::query_chunk_bytes, p.q, full, 64 * c, place.tile * Tile::query_rows + w * Tile::warpgroup_rows, place.head, place.batch);
    }
    query_parity ^= 1;
    for (int block = blocks - 2; block >= 0; --block) {
      load_keys(block, place);
      load_values(block + 1, place);
    }
    load_values(0, place);
  }
}

/// A warpgroup that multiplies.
template <class Tile, class Fixes>
class consumer {
 public:
  __device__ consumer(forward_parameters const& p, shared_tiles<Tile> shared, int warpgroup)
      : p_(p), shared_(shared), warpgroup_(warpgroup), warp_(int(threadIdx.x) / 32 % 4), lane_(int(threadIdx.x) % 32) {}

  __device__ void run() {
    if (warpgroup_ == Tile::warpgroups - 1) gpu::named_barrier::arrive(turn_of(0), 256);
    for (tile_walk walk(p_.sizes); walk.inside(); walk.next()) {
      const tile_place place = place_of(p_.sizes, walk.index());
      const int blocks = blocks_of<Tile>(p_.sizes, place);
      if (blocks == 0) write_nothing(place);
      else take_tile(place, blocks);
    }
  }

 private:
  static constexpr int score_registers = Tile::key_columns / 2, output_registers = Tile::head_dim / 2;

  __device__ void take_tile(tile_place const& place, int blocks) {
    using gpu::mbarrier;
    using gpu::warpgroup;
    const int first_row = place.tile * Tile::query_rows + warpgroup_ * Tile::warpgroup_rows;
    const int row = first_row + 16 * warp_ + lane_ / 4;  // and row + 8
    float rescale[2];
    softmax_.restart();

    int block = blocks - 1;
    const int own_blocks = blocks_of_rows<Tile>(p_.sizes, first_row);
    for (; block >= own_blocks; --block) skip_block(block);
    mbarrier::wait(barrier(Tile::query_full + warpgroup_), query_parity_);
    if (own_blocks == 0) {
      release_queries();
      return write_nothing(place);
    }
    mbarrier::wait(barrier(Tile::key_full + key_.stage), key_.parity);
    warpgroup::pin(s_);
    warpgroup::fence();
    multiply_keys();
    warpgroup::wait<0>();
    warpgroup::pin(s_);
    release(Tile::key_empty + key_.stage);
    key_.next();
    if (block == 0) release_queries();
    const int unmasked = first_unmasked(first_row);
    if (block >= unmasked) mask(row, block);
    softmax_.take_block(s_, rescale, true, p_.numbers);
    softmax_.cast(s_, weights_, rescale);

    bool add = false;  // O = P V at first
    for (--block; block >= unmasked && block >= 0; --block) take_block<true>(row, block, add);
    for (; block >= 0; --block) take_block<false>(row, block, add);

    mbarrier::wait(barrier(Tile::value_full + value_.stage), value_.parity);
    warpgroup::pin(o_);
    warpgroup::pin(weights_);
    warpgroup::fence();
    multiply_values(add);
    float inverse[2], lse[2];
    softmax_.finish(inverse, lse, p_.numbers);
    finish_values();
    write(place, row, inverse, lse);
  }

  /// A block that other warpgroups' rows see.
  __device__ void skip_block(int block) {
    gpu::mbarrier::wait(barrier(Tile::key_full + key_.stage), key_.parity);
    release(Tile::key_empty + key_.stage);
    key_.next();
    gpu::mbarrier::wait(barrier(Tile::value_full + value_.stage), value_.parity);
    release(Tile::value_empty + value_.stage);
    value_.next();
    if (block > 0) {  // one turn less than blocks in a tile
      wait_for_turn();
      pass_turn();
    }
  }

  /// S of this block and O += P V of the one before it in one go, then P of this block while the tensor core works for another warpgroup. Weights
  /// cannot be made when S alone is complete, their registers are still read by the product; the rows' maxima can, see log/sm90_forward.md.
  template <bool Masked>
  __device__ void take_block(int row, int block, bool& add) {
    using gpu::mbarrier;
    using gpu::warpgroup;
    mbarrier::wait(barrier(Tile::key_full + key_.stage), key_.parity);
    wait_for_turn();
    warpgroup::pin(s_);
    warpgroup::pin(o_);
    warpgroup::pin(weights_);
    warpgroup::fence();
    multiply_keys();
    mbarrier::wait(barrier(Tile::value_full + value_.stage), value_.parity);
    warpgroup::fence();
    multiply_values(add);
    pass_turn();
    float rescale[2], before[2];
    if constexpr (Tile::maxima_beside_values) {
      warpgroup::wait<1>();
      warpgroup::pin(s_);
      if (Masked) mask(row, block);
      softmax_.take_maxima(s_, before, p_.numbers);
    }
    finish_values();
    warpgroup::pin(s_);
    // Not right behind the first wait: the assembler then keeps the addresses of the tiles in vector registers.
    release(Tile::key_empty + key_.stage);
    key_.next();
    if (block == 0) release_queries();
    if constexpr (Tile::maxima_beside_values) {
      softmax_.weigh(s_, before, rescale, false, p_.numbers);
    } else {
      if (Masked) mask(row, block);
      softmax_.take_block(s_, rescale, false, p_.numbers);
    }
    softmax_.cast(s_, weights_, rescale);
#pragma unroll
    for (int i = 0; i < output_registers; ++i) o_[i] = __fmul_rn(o_[i], rescale[(i >> 1) & 1]);
    add = true;
  }

  /// O += P V is complete.
  __device__ void finish_values() {
    gpu::warpgroup::wait<0>();
    gpu::warpgroup::pin(o_);
    gpu::warpgroup::pin(weights_);
    release(Tile::value_empty + value_.stage);
    value_.next();
  }

  /// S[64×Bc] = Q Kᵀ, 16 columns of Q and K at a time, ascending.
  __device__ void multiply_keys() {
    const std::uint64_t q = gpu::swizzled_128::descriptor(shared_.queries(warpgroup_)), k = gpu::swizzled_128::descriptor(shared_.keys(key_.stage));
#pragma unroll
    for (int step = 0; step < Tile::head_dim / 16; ++step) {
      const int in_chunk = step % 4 * 32;
      score_product<Tile::key_columns>::multiply_shared(s_, q + (step / 4 * Tile::query_chunk_bytes + in_chunk) / 16, k + (step / 4 * Tile::key_chunk_bytes + in_chunk) / 16,
                                                        step > 0);
    }
    gpu::warpgroup::commit();
  }

  /// O[64×d] += P V, 16 keys at a time, ascending.
  __device__ void multiply_values(bool add) {
    const std::uint64_t v = gpu::swizzled_128::descriptor(shared_.values(value_.stage), Tile::key_chunk_bytes);
#pragma unroll
    for (int step = 0; step < Tile::key_columns / 16; ++step)
      output_product<Tile::head_dim>::multiply_registers(o_, weights_[4 * step], weights_[4 * step + 1], weights_[4 * step + 2], weights_[4 * step + 3],
                                                         v + step * (16 * Tile::row_bytes) / 16, add || step > 0);
    gpu::warpgroup::commit();
  }

  /// Blocks below this one hide no key from any of the warpgroup's rows.
  __device__ int first_unmasked(int first_row) const { return max(0, visible_keys(p_.sizes, first_row)) / Tile::key_columns; }

  /// Scores of keys that a row does not see become −inf.
  __device__ void mask(int row, int block) {
    const int lane_column = block * Tile::key_columns + 2 * (lane_ % 4);
    const int visible[2] = {visible_keys(p_.sizes, row) - lane_column, visible_keys(p_.sizes, row + 8) - lane_column};
#pragma unroll
    for (int i = 0; i < score_registers; ++i)
      if (8 * (i >> 2) + (i & 1) >= visible[(i >> 1) & 1]) s_[i] = minus_infinity;
  }

  /// O and lse of the tile's rows. Four lanes hold two neighbouring columns of each eight; they exchange them so that each has eight.
  __device__ void write(tile_place const& place, int row, float const (&inverse)[2], float const (&lse)[2]) {
#pragma unroll
    for (int i = 0; i < output_registers; ++i) o_[i] = __fmul_rn(o_[i], inverse[(i >> 1) & 1]);
    std::uint32_t high[2 * output_registers / 4];  // [columns / 8][half]
#pragma unroll
    for (int i = 0; i < output_registers / 2; ++i) high[i] = gpu::cvt_rn_bf16x2_f32(o_[2 * i], o_[2 * i + 1]);
    if (p_.o_low.data != nullptr) {
      std::uint32_t low[2 * output_registers / 4];
#pragma unroll
      for (int i = 0; i < output_registers / 2; ++i) low[i] = gpu::cvt_rn_bf16x2_f32(__fsub_rn(o_[2 * i], gpu::low_of_bf16x2(high[i])), __fsub_rn(o_[2 * i + 1], gpu::high_of_bf16x2(high[i])));
      store(p_.o_low, place, row, low);
    }
    store(p_.o, place, row, high);
    write_lse(place, row, lse);
  }

  __device__ void store(output_tensor const& to, tile_place const& place, int row, std::uint32_t const (&words)[output_registers / 2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r = row + 8 * half;
      std::uint16_t* at = to.data + place.batch * to.batch_stride + std::int64_t(r) * to.row_stride + place.head * to.head_stride;
#pragma unroll
      for (int first = 0; first < Tile::head_dim / 8; first += 4) {
        std::uint32_t x[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) x[j] = words[2 * (first + j) + half];
        transpose(x);
        if (r < p_.sizes.queries) *reinterpret_cast<uint4*>(at + 8 * (first + lane_ % 4)) = make_uint4(x[0], x[1], x[2], x[3]);
      }
    }
  }

  /// Word j of lane i of four goes to word i of lane j.
  __device__ void transpose(std::uint32_t (&x)[4]) const {
#pragma unroll
    for (int distance = 1; distance <= 2; distance *= 2) {
      const bool upper = (lane_ & distance) != 0;
#pragma unroll
      for (int j = 0; j < 4; ++j)
        if ((j & distance) == 0) {
          const std::uint32_t received = __shfl_xor_sync(0xffffffff, upper ? x[j] : x[j + distance], distance);
          if (upper) x[j] = received;
          else x[j + distance] = received;
        }
    }
  }

  __device__ void write_lse(tile_place const& place, int row, float const (&lse)[2]) {
    if (p_.lse == nullptr || lane_ % 4 != 0) return;
    float* at = p_.lse + (std::int64_t(place.batch) * p_.sizes.heads + place.head) * p_.sizes.queries;
    for (int half = 0; half < 2; ++half)
      if (row + 8 * half < p_.sizes.queries) at[row + 8 * half] = lse[half];
  }

  /// A tile that sees no key.
  __device__ void write_nothing(tile_place const& place) {
    const int row = place.tile * Tile::query_rows + warpgroup_ * Tile::warpgroup_rows + 16 * warp_ + lane_ / 4;
    const std::uint32_t zeros[output_registers / 2] = {};
    const float lse[2] = {minus_infinity, minus_infinity};
    if (p_.o_low.data != nullptr) store(p_.o_low, place, row, zeros);
    store(p_.o, place, row, zeros);
    write_lse(place, row, lse);
  }

  __device__ std::uint32_t barrier(std::uint32_t i) const { return shared_.barrier(i); }
  /// This warp needs what the barrier guards no more.
  __device__ void release(std::uint32_t i) const {
    if (lane_ == 0) gpu::mbarrier::arrive(barrier(i));
  }
  __device__ void release_queries() {
    release(Tile::query_empty + warpgroup_);
    query_parity_ ^= 1;
  }
  __device__ void wait_for_turn() const { gpu::named_barrier::sync(turn_of(warpgroup_), 256); }
  __device__ void pass_turn() const { gpu::named_barrier::arrive(turn_of((warpgroup_ + 1) % Tile::warpgroups), 256); }
  /// The named barrier at which a warpgroup waits for its turn to multiply.
  __device__ static int turn_of(int warpgroup) { return 1 + warpgroup; }

  forward_parameters const& p_;
  shared_tiles<Tile> shared_;
  int warpgroup_, warp_, lane_;
  online_softmax<Tile::key_columns, Fixes> softmax_;
  ring<Tile::stages> key_, value_;
  std::uint32_t query_parity_ = 0;
  float s_[score_registers];                    // S[64×Bc], then P
  float o_[output_registers];                   // O[64×d]
  std::uint32_t weights_[score_registers / 2];  // P[64×Bc] in BF16
};

template <class Tile, class Fixes>
__global__ void __launch_bounds__(Tile::threads, 1) forward_kernel(const __grid_constant__ forward_parameters p) {
  extern __shared__ std::uint8_t memory[];
  const shared_tiles<Tile> shared{(gpu::shared_address(memory) + 1023) / 1024 * 1024};
  const int group = __shfl_sync(0xffffffff, int(threadIdx.x) / 128, 0);
  if (threadIdx.x == 0) {
    constexpr int warps = 4 * Tile::warpgroups;
    for (int w = 0; w < Tile::warpgroups; ++w) {
      gpu::mbarrier::init(shared.barrier(Tile::query_full + w), 1);
      gpu::mbarrier::init(shared.barrier(Tile::query_empty + w), 4);
    }
    for (int s = 0; s < Tile::stages; ++s) {
      gpu::mbarrier::init(shared.barrier(Tile::key_full + s), 1);
      gpu::mbarrier::init(shared.barrier(Tile::key_empty + s), warps);
      gpu::mbarrier::init(shared.barrier(Tile::value_full + s), 1);
      gpu::mbarrier::init(shared.barrier(Tile::value_empty + s), warps);
    }
    gpu::mbarrier::fence_init();
    gpu::tensor_copy::prefetch(p.q);
    gpu::tensor_copy::prefetch(p.k);
    gpu::tensor_copy::prefetch(p.v);
  }
  __syncthreads();
  if (group == 0) {
    gpu::warpgroup::give_registers<Tile::producer_registers>();
    if (threadIdx.x == 0) produce<Tile>(p, shared);
  } else {
    gpu::warpgroup::take_registers<Tile::consumer_registers>();
    consumer<Tile, Fixes>(p, shared, group - 1).run();
  }
}

}  // namespace stickybit::kernel::sm90
