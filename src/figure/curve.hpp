#pragma once
#include <span>

#include "axis.hpp"

namespace stickybit::figure::detail {

/// What draw_curve did with the values.
struct curve_notes {
  bool thinned = false;         ///< pixels show the least and greatest of several values
  std::int64_t not_finite = 0;  ///< values left out
};

/// values[i] at x(i): a line, broken where a value is not finite; a lone value is a dot. With more values than pixels each pixel shows
/// its values' least and greatest, in the order they came.
curve_notes draw_curve(scene& picture, std::span<double const> values, scale const& x, scale const& y, role stroke, double pixels);

}  // namespace stickybit::figure::detail
