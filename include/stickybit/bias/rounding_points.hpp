#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "stickybit/bias/point_set.hpp"

namespace stickybit {

/// Where a forward kernel that goes block by block rounds, in the order of computation.
enum class rounding_point : std::uint8_t {
  s,             ///< the tensor core's chain of S = QKᵀ
  exp_argument,  ///< the scale in FP32, scaling, subtraction of the maximum
  exp2,          ///< MUFU (or expf) itself; what it loses by taking an FP32 argument belongs to exp_argument
  p_cast,        ///< P to BF16
  pv,            ///< the tensor core's chain of P·V
  rescale,       ///< the factor when the maximum grows, and its products with O and, where they are rounded apart, with the sums
  row_sum,       ///< additions of the row sum, with a product that is fused into one
  o_bar_cast,    ///< O-bar to BF16 before the division; only where the schedule does so
  inverse,       ///< 1/sum and the product with O, or the quotient
  join,          ///< the parts of split keys: their lse, their weights, the weighted sum; only where the keys are split
  o_cast,        ///< O to BF16
};

inline constexpr std::array all_rounding_points{
    rounding_point::s,       rounding_point::exp_argument, rounding_point::exp2,    rounding_point::p_cast, rounding_point::pv,    rounding_point::rescale,
    rounding_point::row_sum, rounding_point::o_bar_cast,   rounding_point::inverse, rounding_point::join,   rounding_point::o_cast};

[[nodiscard]] constexpr std::string_view name_of(rounding_point point) noexcept {
  constexpr std::array<std::string_view, all_rounding_points.size()> names{"s",       "exp_argument", "exp2",    "p_cast", "pv",    "rescale",
                                                                           "row_sum", "o_bar_cast",   "inverse", "join",   "o_cast"};
  return names[std::size_t(point)];
}

using rounding_points = point_set<rounding_point, all_rounding_points>;

}  // namespace stickybit
