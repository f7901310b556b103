#pragma once
#include <cstdint>
#include <span>

namespace stickybit {

/// Does a sequence grow? The test of Mann and Kendall: pairs that rise less pairs that fall.
/// @source H. B. Mann, Econometrica 13(3), 1945; M. G. Kendall, Rank Correlation Methods, 1948
struct trend {
  std::int64_t count = 0;  ///< numbers used: NaN are left out
  std::int64_t score = 0;  ///< pairs (i < j) with x_i < x_j, less those with x_i > x_j; equal pairs count 0
  std::int64_t pairs = 0;  ///< all pairs: score = pairs where every number is above the one before it
  /// The chance of a score at least this far to its side if the order were random: one-sided, 1 for a score of 0. Equal numbers count as
  /// they stand, which makes it too large, not too small. Exact up to 40 numbers, beyond by the normal approximation.
  double p = 1;
};

[[nodiscard]] trend trend_of(std::span<double const> values);

}  // namespace stickybit
