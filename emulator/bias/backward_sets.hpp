#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "stickybit/bias/backward_points.hpp"
#include "stickybit/schedule/backward_rules.hpp"

// What has to be computed so that a tensor is known with each of some sets of points: many sets share their P, their dS and their
// products.

namespace stickybit::detail {

enum class gradient_tensor : std::uint8_t { delta, dp, ds, dq, dk, dv };
inline constexpr std::size_t gradient_tensors = 6;

/// Points that change P, in FP32; dS; and P as it meets dO.
inline constexpr backward_points points_of_weights{backward_point::stored_lse, backward_point::s, backward_point::exp_argument, backward_point::exp2};
inline constexpr backward_points points_of_delta{backward_point::stored_o, backward_point::delta_sum};

/// The points at which the rules round on the way to a tensor, in the order of computation.
/// @param grouped  several query heads share a key head
[[nodiscard]] std::vector<backward_point> points_of(backward_rules const& rules, bool grouped, gradient_tensor tensor);

/// dS, or P as dV meets it, with one set of points: what it is wanted as.
struct score_operand {
  backward_points set;
  std::size_t weights;      ///< which P, in score_plan::weights
  bool difference = false;  ///< operand − exact
  bool value = false;
  bool codes = false;       ///< BF16
};

enum class product_kind : std::uint8_t {
  nothing,      ///< of an exact operand the exact product: no difference
  difference,   ///< exact product of the operand's difference: the difference of the exact products
  exact_parts,  ///< exact products of the operand, where something after them rounds
  chain,        ///< the unit's, of codes
  wide_chain,   ///< the unit's, of a wide operand
};

struct score_product {
  std::size_t operand;
  product_kind kind;
  /// How the key blocks' parts are added; both may be wanted. In dK and dV there are no parts.
  bool rounded_sum = false, exact_sum = false;
};

/// What becomes of a product for one set of points.
struct product_use {
  std::size_t product;
  bool rounded_sum, scale, group, cast;
  bool complete;  ///< every point: the kernel's code
};

struct score_plan {
  std::vector<backward_points> weights;        ///< P, each with points of points_of_weights
  std::vector<score_operand> ds, p;
  std::vector<score_product> dq, dk, dv;
  std::vector<product_use> dq_uses, dk_uses, dv_uses;  ///< by the sets asked for
  std::vector<std::size_t> ds_uses;            ///< operands, likewise

  /// @param sets  of each tensor, in the order of gradient_tensor; of each only the tensor's own points count
  score_plan(backward_rules const& rules, bool grouped, std::span<std::vector<backward_points> const, gradient_tensors> sets);

 private:
  [[nodiscard]] std::size_t weights_of(backward_points set);
  [[nodiscard]] std::size_t operand_of(std::vector<score_operand>& operands, backward_points set);
  void add_use(backward_rules const& rules, gradient_tensor tensor, backward_points set, backward_points all);
};

/// A set of all these points.
[[nodiscard]] backward_points set_of(std::span<backward_point const> points) noexcept;

}  // namespace stickybit::detail
