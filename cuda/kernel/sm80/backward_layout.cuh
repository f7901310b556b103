#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "../attention.hpp"
#include "shared_tile.cuh"

// Facts about the backward kernel's tiles: who computes what, and where it lies in shared memory and in the workspace.

namespace stickybit::kernel::sm80 {

/// One block of threads takes 128 keys and goes over the blocks of 64 queries that see them. Warp (g, h) owns the keys 32g … 32g + 31 and,
/// of dK and dV, the columns 64h … 64h + 63; with d = 64 there is one h.
template <int HeadDim>
struct backward_tile {
  static constexpr int head_dim = HeadDim, queries = 64, keys = 128;
  static constexpr int warp_keys = 32, warp_columns = 64;
  static constexpr int key_warps = keys / warp_keys, column_warps = HeadDim / warp_columns, warps = key_warps * column_warps, threads = 32 * warps;
  static constexpr int query_parts = 64 / 32 / column_warps;  ///< parts of 32 queries of which a warp forms S and dP
  static constexpr int stages = 2;
  static constexpr int blocks_on_sm = 8 / warps;  ///< eight warps of 255 registers fill the register file

  using rows = shared_tile<HeadDim, queries>;        // Q or dO: [64 × d]
  using key_rows = shared_tile<HeadDim, keys>;       // K or V: [128 × d]
  using weights = shared_tile<queries, keys>;        // Pᵀ or dSᵀ: [128 × 64]

  static constexpr bool shares_weights = column_warps > 1;  ///< Pᵀ passes through shared memory; else a warp's own registers hold all that it needs
  static constexpr int k = 0, v = k + key_rows::bytes, q = v + key_rows::bytes, d_o = q + stages * rows::bytes, ds = d_o + stages * rows::bytes,
                       p = ds + weights::bytes, lse = p + (shares_weights ? weights::bytes : 0), delta = lse + stages * queries * 4,
                       shared_bytes = delta + stages * queries * 4;

  /// dQ[64 × d] in parts of 32 × 32, one a warp: warp w has the rows 32(w mod 2), columns 32(w/2).
  static constexpr int dq_parts = warps, dq_part_size = 32 * 32;
};

/// Where element (row, column) of a part of dQ lies in its 1024 numbers: the four of one of mma's D of a lane together, a warp's behind
/// each other, and so D by D.
__host__ __device__ constexpr int place_in_dq_part(int row, int column) {
  const int d = 4 * (row / 16) + column / 8, lane = 4 * (row % 8) + column % 8 / 2;
  return 128 * d + 4 * lane + 2 * (row / 8 % 2) + column % 2;
}

/// The workspace, in bytes from its beginning; every part is aligned to 256.
struct backward_workspace {
  std::int64_t query_blocks, key_blocks;
  std::size_t lse_log2 = 0, delta = 0;  ///< FP32 [batch, heads, query_blocks·64]; past the end +∞ and +0
  std::size_t dq = 0;                   ///< FP32 [batch, heads, query_blocks, dq_parts, 1024]
  std::size_t turns = 0;                ///< int [batch, heads, query_blocks]: blocks of keys whose parts these rows of dQ have; deterministic only
  std::size_t dk = 0, dv = 0;           ///< FP32 [batch, heads, keys, d], dk times s; grouped heads only
  std::size_t bytes = 0;

  backward_workspace(attention_shape const& s, bool deterministic)
      : query_blocks((s.queries + 63) / 64), key_blocks((s.keys + 127) / 128) {
    const auto take = [&](std::size_t& place, std::int64_t numbers) {
      place = bytes;
      bytes += (std::size_t(numbers) * 4 + 255) / 256 * 256;
    };
    const std::int64_t tiles = s.batch * s.heads * query_blocks, group = s.heads == s.key_heads ? 0 : s.batch * s.heads * s.keys * s.head_dim;
    take(lse_log2, tiles * 64);
    take(delta, tiles * 64);
    take(dq, tiles * 64 * s.head_dim);
    take(turns, deterministic ? tiles : 0);
    take(dk, group);
    take(dv, group);
  }
};

/// What the device sees of a call.
struct backward_arguments {
  input_tensor q, k, v, d_o;
  output_tensor dk, dv;
  float const *lse_log2, *delta;
  float* dq;
  int* turns;
  float *group_dk, *group_dv;  ///< null unless heads are grouped
  int batch, heads, group, queries, keys, query_blocks, key_blocks;
  float scale, scale_log2;
};

/// The first query block that visits a block of keys; query_blocks or more where none does.
template <bool Causal>
__host__ __device__ int first_query_block(int key_block, int queries, int keys) {
  const int first = key_block * 128 + queries - keys;
  return Causal && first > 0 ? first / 64 : 0;
}

}  // namespace stickybit::kernel::sm80
