#pragma once
#include <array>
#include <span>

#include "../attention/backward_plan.hpp"
#include "rounded_doubles.hpp"
#include "stickybit/bias/backward_points.hpp"
#include "stickybit/exact/double_double.hpp"

namespace stickybit::detail {

/// delta of one row with each choice of its two points.
struct delta_values {
  std::array<double_double, 4> value{};
  std::array<double, 4> error{};  ///< value − exact
  static constexpr std::size_t index(backward_points set) noexcept {
    return std::size_t(set.has(backward_point::stored_o)) + 2 * std::size_t(set.has(backward_point::delta_sum));
  }
};

/// @param d_o, stored, o_f32  the row's {d}; o_f32 empty where the rules do not read it
/// @param exact_o  {d}  @param exact_delta  Σ P·dP  @param kernel  the kernel's delta
[[nodiscard]] delta_values delta_of_row(backward_plan const& plan, std::span<bf16_code const> d_o, std::span<bf16_code const> stored, std::span<f32_code const> o_f32,
                                        std::span<double_double const> exact_o, double_double exact_delta, f32_code kernel);

}  // namespace stickybit::detail
