#pragma once
#include <cstdint>

#include "../../instruction/cp_async.cuh"
#include "../../instruction/ldmatrix.cuh"
#include "../attention.hpp"

// Facts about tiles of Q, K, V, dO and O in shared memory: rows of 64 or 128 BF16, swizzled so that eight rows' chunks of 16 bytes at
// the same column fall into different banks, whichever column it is. Both ldmatrix and 16-byte copies then run without conflicts.

namespace stickybit::kernel::sm80 {

/// [Rows × HeadDim] BF16. Chunk c (8 elements) of row r lies at byte r·row_bytes + 16·(c ^ (r mod 8)).
/// @pre the tile begins at a multiple of 256 bytes
template <int HeadDim, int Rows>
struct shared_tile {
  static constexpr int rows = Rows, head_dim = HeadDim, row_bytes = 2 * HeadDim, chunks = HeadDim / 8, bytes = Rows * row_bytes;

  __device__ static std::uint32_t place(std::uint32_t tile, int row, int chunk) { return tile + row * row_bytes + ((chunk ^ (row & 7)) << 4); }

  /// Addresses for ldmatrix of a 16×16 part. The part at rows 16i, columns 16j begins at at(lane_address, i, j): one XOR a column, and
  /// rows are an immediate.
  __device__ static std::uint32_t at(std::uint32_t lane_address, int i, int j) { return (lane_address ^ (j << 5)) + 16 * i * row_bytes; }
  /// As mma's A (rows of the tile are rows of A); transposed, as mma's B: rows of the tile are k, r[0..1] columns 0..7, r[2..3] columns 8..15.
  __device__ static std::uint32_t lane_address_of_a(std::uint32_t tile, int lane) { return place(tile, lane & 15, lane >> 4); }
  /// As mma's B, not transposed: rows of the tile are n, r[0..1] rows 0..7, r[2..3] rows 8..15.
  __device__ static std::uint32_t lane_address_of_b(std::uint32_t tile, int lane) { return place(tile, (lane & 7) + ((lane >> 4) << 3), (lane >> 3) & 1); }
};

/// Copies tiles from global memory by all threads of a block: each thread the same chunk of every Threads/chunks-th row.
template <class Tile, int Threads>
struct tile_copy {
  static constexpr int rows_at_once = Threads / Tile::chunks, steps = Tile::rows / rows_at_once;
  static_assert(Threads % Tile::chunks == 0 && rows_at_once % 8 == 0 && Tile::rows % rows_at_once == 0);

  /// @param from  row 0 of the tile   @param rows  that there are from there on; the others become zeros where Partial
  template <bool Partial>
  __device__ static void start(std::uint32_t tile, std::uint16_t const* from, std::int64_t row_stride, int rows) {
    const int row = threadIdx.x / Tile::chunks, chunk = threadIdx.x % Tile::chunks;
    const std::uint32_t to = Tile::place(tile, row, chunk);
    from += row * row_stride + 8 * chunk;
#pragma unroll
    for (int i = 0; i < steps; ++i)
      gpu::cp_async_16::copy(to + i * rows_at_once * Tile::row_bytes, from + i * rows_at_once * row_stride, !Partial || row + i * rows_at_once < rows);
  }
};

}  // namespace stickybit::kernel::sm80
