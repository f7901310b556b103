#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "stickybit/figure/scene.hpp"

namespace stickybit::figure {

/// What one block of keys does to one row of an online softmax.
struct softmax_block {
  std::int64_t first_key, keys;
  double max_before, max_after;  ///< running maximum of the scores; −infinity before the first block
  double rescale;                ///< factor of what was accumulated before, 0 to 1
  double row_sum;                ///< sum of the weights so far, after the block
  double output;                 ///< one element of the accumulated, undivided O after the block
  double heaviest_weight;        ///< largest exp(score − max_after) of the block, 0 to 1
};

struct softmax_life_data {
  std::string title;
  std::vector<softmax_block> blocks;  ///< in the order taken
};

/// Five small charts over one axis of blocks: running maximum, rescale factor, row sum, accumulated O, heaviest weight. Blocks whose
/// maximum rose are marked in each.
[[nodiscard]] scene softmax_life(softmax_life_data const& data);

}  // namespace stickybit::figure
