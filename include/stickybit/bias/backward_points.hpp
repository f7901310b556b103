#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "stickybit/bias/point_set.hpp"

namespace stickybit {

/// Where a backward kernel rounds, in the order of computation.
enum class backward_point : std::uint8_t {
  stored_o,       ///< O as the forward pass left it (or its parts, where delta is formed from more than its BF16): its whole error
  delta_sum,      ///< products and additions of delta = rowsum(dO ∘ O)
  stored_lse,     ///< lse as the forward pass left it: its whole error
  s,              ///< the tensor core's chain of S = QKᵀ, once more
  exp_argument,   ///< the scale in FP32, lse·log2(e), scaling and subtraction
  exp2,           ///< MUFU (or expf) itself; what it loses by taking an FP32 argument belongs to exp_argument
  p_cast,         ///< P to BF16: for dV, and where dS is formed from it
  dp,             ///< the tensor core's chain of dP = dO·Vᵀ
  ds_arithmetic,  ///< dP − delta, the product with P, and the scale where the schedule puts it there
  ds_cast,        ///< dS to BF16
  dq_chain,       ///< the tensor core's chains of dS·K
  dq_sum,         ///< additions of the key blocks' parts of dQ; only where there are parts
  dk_chain,       ///< the tensor core's chain of dSᵀ·Q
  dv_chain,       ///< the tensor core's chain of Pᵀ·dO
  scale,          ///< the scale in FP32 and its product with the sums of dQ and dK; only where the schedule has it there
  group_sum,      ///< the sum over the query heads of a key head, with casts before it; only where there are several
  output_cast,    ///< dQ, dK, dV to BF16
};

inline constexpr std::array all_backward_points{
    backward_point::stored_o,  backward_point::delta_sum,     backward_point::stored_lse, backward_point::s,        backward_point::exp_argument,
    backward_point::exp2,      backward_point::p_cast,        backward_point::dp,         backward_point::ds_arithmetic, backward_point::ds_cast,
    backward_point::dq_chain,  backward_point::dq_sum,        backward_point::dk_chain,   backward_point::dv_chain, backward_point::scale,
    backward_point::group_sum, backward_point::output_cast};

[[nodiscard]] constexpr std::string_view name_of(backward_point point) noexcept {
  constexpr std::array<std::string_view, all_backward_points.size()> names{
      "stored_o", "delta_sum", "stored_lse", "s",        "exp_argument", "exp2",  "p_cast",    "dp",         "ds_arithmetic",
      "ds_cast",  "dq_chain",  "dq_sum",     "dk_chain", "dv_chain",     "scale", "group_sum", "output_cast"};
  return names[std::size_t(point)];
}

using backward_points = point_set<backward_point, all_backward_points>;

}  // namespace stickybit
