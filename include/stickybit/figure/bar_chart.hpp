#pragma once
#include <limits>
#include <string>
#include <vector>

#include "stickybit/figure/scene.hpp"

namespace stickybit::figure {

/// One bar. NaN in `standard_error` or `rms`: there is none.
struct bar {
  std::string name;
  double value;                                                     ///< signed, in the chart's unit
  double standard_error = std::numeric_limits<double>::quiet_NaN();  ///< whiskers reach value ± 2 · this
  double rms = std::numeric_limits<double>::quiet_NaN();             ///< ≥ 0, in the chart's unit; drawn beside, on a scale of its own
  bool total = false;                                               ///< set off from the parts above it by a rule
};

struct bar_chart_data {
  std::string title;
  std::string value_name = "mean";  ///< heads the bars: "mean signed error"
  std::string unit;                 ///< "ulp"
  std::vector<bar> bars;            ///< in the order drawn
};

/// Horizontal bars about a zero line, each with its number; a bar that is not finite has only the number.
[[nodiscard]] scene bar_chart(bar_chart_data const& data);

}  // namespace stickybit::figure
