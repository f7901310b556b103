#pragma once
#include <cstdint>

// What the forward kernel's tiles are: how many rows, keys, stages and registers, and where each lies in shared memory. Chunk: 64 columns of a
// tile, rows of 128 bytes, swizzled by the copy engine; a tile with d = 128 is two chunks.

namespace stickybit::kernel::sm90 {

/// @param Warpgroups  that multiply; each owns 64 rows of Q
/// @param KeyColumns  keys of a block: between two rescalings
/// @param Stages      blocks of K, and of V, that are in shared memory at a time
template <int HeadDim, int Warpgroups, int KeyColumns, int Stages>
struct forward_tile {
  static constexpr int head_dim = HeadDim, warpgroups = Warpgroups, key_columns = KeyColumns, stages = Stages;
  static constexpr int warpgroup_rows = 64, query_rows = warpgroup_rows * Warpgroups;
  static constexpr int threads = 128 * (Warpgroups + 1);  ///< the first warpgroup copies
  static constexpr int producer_registers = Warpgroups == 2 ? 24 : 32, consumer_registers = Warpgroups == 2 ? 240 : 160;

  /// Maxima are taken as soon as S is complete, while O += P V of the block before still runs. d = 64 has too little of that.
  static constexpr bool maxima_beside_values = HeadDim == 128;

  static constexpr int chunks = HeadDim / 64, row_bytes = 128;
  static constexpr int query_chunk_bytes = warpgroup_rows * row_bytes, query_bytes = chunks * query_chunk_bytes;  // Q[64×d] of a warpgroup
  static constexpr int key_chunk_bytes = KeyColumns * row_bytes, key_bytes = chunks * key_chunk_bytes;            // K[Bc×d] or V[Bc×d]

  static constexpr int queries_at = 0, keys_at = queries_at + Warpgroups * query_bytes, values_at = keys_at + Stages * key_bytes,
                       barriers_at = values_at + Stages * key_bytes;
  // Barriers of 8 bytes.
  static constexpr int query_full = 0, query_empty = query_full + Warpgroups, key_full = query_empty + Warpgroups, key_empty = key_full + Stages,
                       value_full = key_empty + Stages, value_empty = value_full + Stages, barriers = value_empty + Stages;
  static constexpr int shared_bytes = barriers_at + 8 * barriers + 1024;  ///< 1024 to align by

  static_assert(key_chunk_bytes % 1024 == 0 && KeyColumns % 16 == 0 && shared_bytes <= 227 * 1024);
};

// The tiles that are used. A call's bits do not depend on how many warpgroups share a tile.
using tile_of_128 = forward_tile<128, 2, 128, 2>;
using tile_of_64 = forward_tile<64, 3, 128, 2>;
using small_tile_of_64 = forward_tile<64, 2, 128, 3>;

/// A stage of a ring and the parity of its barriers' phase.
template <int Stages>
struct ring {
  std::uint32_t stage = 0, parity = 0;
  __device__ void next() {
    if (++stage == Stages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

}  // namespace stickybit::kernel::sm90
