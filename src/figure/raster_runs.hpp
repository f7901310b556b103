#pragma once
#include <vector>

#include "stickybit/figure/scene.hpp"

namespace stickybit::figure::detail {

/// Neighbours in a row whose level is in [lowest, highest], as one rectangle each: what keeps a drawn raster small.
inline std::vector<rectangle> runs_of(raster const& r, int lowest, int highest) {
  std::vector<rectangle> runs;
  const auto columns = std::size_t(r.columns);
  for (std::size_t first = 0; first < r.levels.size(); first += columns) {
    const auto inside = [&](std::size_t i) { return i < columns && r.levels[first + i] >= lowest && r.levels[first + i] <= highest; };
    for (std::size_t i = 0; i < columns; ++i) {
      std::size_t end = i;
      while (inside(end)) ++end;
      if (end == i) continue;
      runs.push_back({r.x + r.cell_width * double(i), r.y + r.cell_height * double(first / columns), r.cell_width * double(end - i), r.cell_height, role::neutral});
      i = end;
    }
  }
  return runs;
}

}  // namespace stickybit::figure::detail
