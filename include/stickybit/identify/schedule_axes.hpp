#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "stickybit/attention/problem.hpp"
#include "stickybit/schedule/attention_schedule.hpp"

namespace stickybit {

/// One axis of the space of forward kernels: its values by name, and how one enters a schedule.
struct schedule_axis {
  std::string name;
  std::vector<std::string> values;
  std::function<void(attention_schedule&, std::size_t value)> set;  ///< not for block width and parts, which make_schedule sets
};

/// A point of the space: one value index for each axis.
using schedule_point = std::vector<std::size_t>;

/// Axes, and the points of their product.
class axis_product {
 public:
  [[nodiscard]] std::vector<schedule_axis> const& axes() const noexcept { return axes_; }
  /// Index of an axis.  @throws std::out_of_range
  [[nodiscard]] std::size_t axis(std::string_view name) const;
  /// The number of points.
  [[nodiscard]] double size() const noexcept;
  /// All axes at their first value.
  [[nodiscard]] schedule_point origin() const { return schedule_point(axes_.size(), 0); }
  /// A line for each axis: "key block: 128".
  [[nodiscard]] std::string describe(schedule_point const& point) const;

 protected:
  axis_product() = default;
  std::vector<schedule_axis> axes_;
};

/// Every axis on which known forward kernels differ, for one call: a call without a mask has no mask axis.
class schedule_space : public axis_product {
 public:
  explicit schedule_space(attention_problem const& problem);

  /// The schedule at a point. It refers to tiles inside the space, which must outlive it.
  [[nodiscard]] attention_schedule make(schedule_point const& point) const;

 private:
  std::vector<std::vector<attention_tile>> tiles_;  // by value of the block axis
  std::size_t block_axis_ = 0;
};

}  // namespace stickybit
