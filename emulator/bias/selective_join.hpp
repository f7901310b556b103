#pragma once
#include <span>
#include <vector>

#include "selective_arithmetic.hpp"

namespace stickybit::detail {

/// One part of split keys, as it enters the sum of the parts.
struct split_part {
  bool empty = true;  ///< no key, or a sum of 0: weighs nothing
  double_double lse;
  std::vector<double_double> o;  // [d], divided by the part's own sum
};

/// The natural logarithm of a part's Σ exp(s·S). Where the join rounds, by lse_form::scale_times_max, on the sum rounded to FP32.
[[nodiscard]] double_double part_lse(call_plan const& plan, selective_arithmetic const& arithmetic, double_double max, double_double sum);

/// o becomes the parts' sum weighted by exp(lse − joint lse), as row_worker::join_parts has it.
void join_parts(call_plan const& plan, selective_arithmetic const& arithmetic, std::span<split_part const> parts, std::span<double_double> o);

}  // namespace stickybit::detail
