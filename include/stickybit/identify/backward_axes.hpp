#pragma once
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "stickybit/identify/schedule_axes.hpp"

namespace stickybit {

/// The gradients in the order in which a kernel's choices show in them: dV depends on the axes of its stage, dK on those and its own, dQ on all.
enum class gradient_stage : std::uint8_t { dv, dk, dq };
inline constexpr std::array gradient_stages{gradient_stage::dv, gradient_stage::dk, gradient_stage::dq};
[[nodiscard]] constexpr std::string_view name_of(gradient_stage stage) noexcept {
  return stage == gradient_stage::dv ? "dv" : stage == gradient_stage::dk ? "dk" : "dq";
}

/// Every axis on which known backward kernels differ, for one call: what this call cannot have (grouped heads, a mask, more blocks than
/// queries) is left out. delta is of the stored BF16 O.
class backward_space : public axis_product {
 public:
  explicit backward_space(attention_problem const& problem);

  [[nodiscard]] gradient_stage stage(std::size_t axis) const { return stages_.at(axis); }
  /// The schedule at a point: its backward pass. It refers to tiles inside the space, which must outlive it.
  [[nodiscard]] attention_schedule make(schedule_point const& point) const;

 private:
  void add(gradient_stage stage, schedule_axis axis);

  std::vector<gradient_stage> stages_;
  std::vector<int> query_rows_, key_columns_;      // by value of the two axes that decide a tile
  std::vector<std::vector<attention_tile>> tiles_;  // [query_rows × key_columns]
  std::size_t query_axis_ = 0, key_axis_ = 0;
};

}  // namespace stickybit
