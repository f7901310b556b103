#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "stickybit/figure/scene.hpp"

namespace stickybit::figure {

/// A step to be named in the picture.
struct step_mark {
  std::int64_t step;  ///< index of `values`
  std::string label;
};

struct step_chart_data {
  std::string title;
  std::string step_name = "step";  ///< "key", "product"
  std::string value_name;          ///< "error so far"
  std::string unit;                ///< "ulp"
  std::vector<double> values;      ///< after step 0, 1, ...
  std::vector<step_mark> marks;    ///< a few; one outside the steps is left out
  bool symlog = false;             ///< linear near zero, logarithmic beyond the first decile of the |values| above 0
};

/// A value against the step number. With more steps than pixels each pixel shows its steps' least and greatest value, so peaks stay;
/// values that are not finite leave a gap. Both are said in the caption. Marks that would collide lose their words, not their dots.
[[nodiscard]] scene step_chart(step_chart_data const& data);

}  // namespace stickybit::figure
