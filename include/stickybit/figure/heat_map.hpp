#pragma once
#include <span>
#include <string>

#include "stickybit/figure/scene.hpp"

namespace stickybit::figure {

/// Signed values over rows and columns.
struct heat_map_data {
  std::string title;
  std::string row_name, column_name;  ///< "query", "column of O"
  std::string unit;                   ///< of the values: "ulp"
  std::int64_t rows, columns;
  std::span<double const> values;     ///< [rows × columns], row by row
  double clip_quantile = 0.99;        ///< the scale ends at this quantile of the drawn |values|; what is larger gets its last colour
};

/// Red where positive; blue, with fine stripes, where negative; grey where no value is finite. At most 96 × 96 cells: a larger matrix is
/// drawn by means of finite values, as the caption says.
/// @throws std::invalid_argument unless values.size() == rows · columns, both ≥ 0
[[nodiscard]] scene heat_map(heat_map_data const& data);

}  // namespace stickybit::figure
