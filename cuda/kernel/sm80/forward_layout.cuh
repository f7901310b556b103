#pragma once
#include "../attention.hpp"
#include "shared_tile.cuh"

// What a forward kernel is told: sizes and fixes as template arguments, tensors and numbers of a call.

namespace stickybit::kernel::sm80 {

/// What is settled when the program is built.
template <int HeadDim, int Strips, int Warps, int Keys, int Stages, bool QueriesInRegisters, bool Overlapped, bool RescaledLate, int BlocksOfMultiprocessor>
struct forward_tile {
  static constexpr int head_dim = HeadDim;
  static constexpr int strips = Strips;  ///< of 16 rows, in a warp
  static constexpr int warps = Warps, threads = 32 * Warps;
  static constexpr int warp_rows = 16 * Strips, rows = Warps * warp_rows;
  static constexpr int keys = Keys;                                ///< of a block
  static constexpr int stages = Stages;                            ///< tiles of K and V, in turn, that shared memory has room for
  static constexpr bool queries_in_registers = QueriesInRegisters; ///< else Q is read from shared memory for every block of keys
  static constexpr bool overlapped = Overlapped;                   ///< weights are made while the tensor core multiplies those of earlier keys: takes more registers
  static constexpr bool rescaled_late = RescaledLate;              ///< O is rescaled between the first products by V, else between weights; overlapped, always
  static constexpr int blocks_of_multiprocessor = BlocksOfMultiprocessor;
  using query_tile = shared_tile<HeadDim, rows>;
  using key_tile = shared_tile<HeadDim, Keys>;  ///< also of V
  static constexpr int shared_bytes = query_tile::bytes + Stages * key_tile::bytes;
};

template <bool Causal, bool SubtractFirst = false, bool TwoRowSums = false, bool Beta = false>
struct forward_variant {
  static constexpr bool causal = Causal, subtract_first = SubtractFirst, two_row_sums = TwoRowSums, beta = Beta;
};

/// What a launch settles.
struct forward_arguments {
  input_tensor q, k, v;
  output_tensor o, o_low;
  float* lse;
  int queries, keys, heads, heads_of_group, tiles;
  float scale, scale_log2;  ///< s, and L = float(double(s)·log2(e))
  tie_numbers tie;
  float least_shift, most_shift;  ///< of a maximum that is moved away from its ties, in units of S
  float tie_distance;             ///< scores farther apart than this, but for the rounding of the maximum, are not tied
};

}  // namespace stickybit::kernel::sm80
