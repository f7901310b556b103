#pragma once
#include <cstdint>

// Which tile a block takes when, and which keys a tile and a row meet.

namespace stickybit::kernel::sm90 {

struct call_sizes {
  int batch, queries, keys, heads, key_heads;
  int tiles;  ///< of query rows, of one head
  int items;  ///< batch · heads · tiles
  bool causal;
};

/// The block with number b of n takes the items b, 2n − 1 − b, 2n + b, 4n − 1 − b, …: where later items are shorter, every block gets about as much.
class tile_walk {
 public:
  __device__ explicit tile_walk(call_sizes const& sizes) : items_(sizes.items), index_(int(blockIdx.x)), step_(2 * (int(gridDim.x) - int(blockIdx.x)) - 1) {}
  __device__ bool inside() const { return index_ < items_; }
  __device__ int index() const { return index_; }
  __device__ void next() {
    index_ += step_;
    step_ = 2 * int(gridDim.x) - step_;
  }

 private:
  int items_, index_, step_;
};

struct tile_place {
  int tile, head, key_head, batch;
};

/// Causal calls take the tiles with most keys of every head first; others a head after another, whose K and V then stay in the second-level cache.
__device__ inline tile_place place_of(call_sizes const& sizes, int item) {
  tile_place place;
  int head;
  if (sizes.causal) {
    const int all_heads = sizes.batch * sizes.heads;
    place.tile = sizes.tiles - 1 - item / all_heads;
    head = item % all_heads;
  } else {
    place.tile = item % sizes.tiles;
    head = item / sizes.tiles;
  }
  place.batch = head / sizes.heads;
  place.head = head % sizes.heads;
  place.key_head = place.head / (sizes.heads / sizes.key_heads);
  return place;
}

/// Row `row` sees the keys below this; may be negative.
__device__ inline int visible_keys(call_sizes const& sizes, int row) { return sizes.causal ? min(sizes.keys, row + 1 + sizes.keys - sizes.queries) : sizes.keys; }

/// How many blocks of keys the 64 rows of a warpgroup meet: those that the last of them, there or not, sees; none where no row is there.
template <class Tile>
__device__ int blocks_of_rows(call_sizes const& sizes, int first_row) {
  if (first_row >= sizes.queries) return 0;
  return max(0, visible_keys(sizes, first_row + Tile::warpgroup_rows - 1) + Tile::key_columns - 1) / Tile::key_columns;
}

/// How many blocks a tile meets: the most of its warpgroups.
template <class Tile>
__device__ int blocks_of(call_sizes const& sizes, tile_place const& place) {
  int blocks = 0;
  for (int w = 0; w < Tile::warpgroups; ++w) blocks = max(blocks, blocks_of_rows<Tile>(sizes, place.tile * Tile::query_rows + w * Tile::warpgroup_rows));
  return blocks;
}

}  // namespace stickybit::kernel::sm90
