#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "set_list.hpp"
#include "stickybit/bias/tensor_attribution.hpp"

namespace stickybit::detail {

/// What one row of a tensor contributes to its attribution: sums over its columns.
struct attributed_row {
  struct point {
    double split = 0, split_squares = 0, alone = 0, without = 0;
    double along = 0, alone_along = 0, without_along = 0;  ///< inner products with the direction
  };
  std::vector<point> points;
  double total = 0, total_squares = 0, total_along = 0, direction_squares = 0;
  std::int64_t counted = 0, scaled = 0;  ///< elements finite with every set; of these, those that have an ulp
  std::int64_t left_out = 0;

  /// Adds one element.
  /// @param errors  value − exact with each set, [sets], `stride` apart  @param ulp  unit of errors and direction; 0: none, counted alone
  void add(set_places const& list, double const* errors, std::size_t stride, double ulp, double direction);
  /// Sums of elements that were added with ulp 1 become those with this ulp; 0: none.
  void in_units_of(double ulp);
};

/// Means over rows of the means over a row's columns, as in tensor_error.
/// @param rows_of_head  heads follow each other; each has a direction of its own  @param names  of the points
[[nodiscard]] tensor_attribution summarize(std::span<attributed_row const> rows, std::int64_t rows_of_head, std::span<std::string const> names);

}  // namespace stickybit::detail
