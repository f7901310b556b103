#pragma once
#include <string>
#include <utility>
#include <vector>

#include "stickybit/identify/schedule_axes.hpp"

// Makers of axes that the spaces of forward and of backward kernels share.

namespace stickybit::detail {

/// An axis over values of any kind; `put(schedule, value)` enters one.
template <class Value, class Put>
schedule_axis axis_of(std::string name, std::vector<std::pair<std::string, Value>> values, Put put) {
  schedule_axis axis{std::move(name), {}, {}};
  std::vector<Value> options;
  for (auto& [text, value] : values) {
    axis.values.push_back(text);
    options.push_back(value);
  }
  axis.set = [put, options](attention_schedule& s, std::size_t value) { put(s, options[value]); };
  return axis;
}

/// For each axis the values other than the point's that fit too, each alone. @param fits  of a point
template <class Fits>
std::vector<std::vector<std::size_t>> alternatives(std::vector<schedule_axis> const& axes, schedule_point point, Fits fits) {
  std::vector<std::vector<std::size_t>> also(point.size());
  for (std::size_t axis = 0; axis < point.size(); ++axis) {
    const std::size_t chosen = point[axis];
    for (std::size_t value = 0; value < axes[axis].values.size(); ++value) {
      if (value == chosen) continue;
      point[axis] = value;
      if (fits(point)) also[axis].push_back(value);
    }
    point[axis] = chosen;
  }
  return also;
}

/// Units that give other bits: of those with equal numbers the first stands for all.
[[nodiscard]] schedule_axis unit_axis();

/// Which key a causal call's first or last query sees.
[[nodiscard]] schedule_axis causal_mask_axis();

}  // namespace stickybit::detail
