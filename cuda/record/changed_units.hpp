#pragma once
#include <string>
#include <vector>

#include "stickybit/machine/unit.hpp"

namespace stickybit::gpu {

/// A unit with one rule changed: vectors that cannot tell it from the true one do not pin that rule.
struct changed_unit {
  std::string rule;
  machine_unit unit;
};

/// Can two operands give a product so small that the smallest alignment exponent, or one next to it, shows? FP8 products cannot: they are
/// multiples of 2^-32, and E is then at least -28; FP16 products reach the limit of FP16 results only.
[[nodiscard]] constexpr bool reaches_clamp(machine_unit const& unit) noexcept {
  const int least = traits_of(unit.input).e_min() + traits_of(unit.input_b).e_min() - traits_of(unit.input).fraction_bits() - traits_of(unit.input_b).fraction_bits();
  return least < unit.min_alignment_exponent - unit.alignment_fraction_bits - 1;
}

/// Every neighbour that the numbers of a unit can say. Those that give a wrong result only beyond one instruction need cases of two.
[[nodiscard]] inline std::vector<changed_unit> changed_units(machine_unit const& unit) {
  std::vector<changed_unit> changed;
  const auto add = [&](std::string rule, auto change) {
    changed.push_back({std::move(rule), unit});
    change(changed.back().unit);
  };
  if (unit.arithmetic != block_arithmetic::aligned_sum) return changed;
  add("F one less", [](machine_unit& u) { --u.alignment_fraction_bits; });
  add("F one more", [](machine_unit& u) { ++u.alignment_fraction_bits; });
  if (reaches_clamp(unit)) {
    add("E may be one less", [](machine_unit& u) { --u.min_alignment_exponent; });
    add("E is at least one more", [](machine_unit& u) { ++u.min_alignment_exponent; });
    add("E has no limit", [](machine_unit& u) { u.min_alignment_exponent = -1000; });
  }
  const bool converted = unit.accumulator == accumulator_place::added_last;
  if (unit.order == product_order::pairs) add("ascending k", [](machine_unit& u) { u.order = product_order::ascending; });
  add("blocks of half the size", [](machine_unit& u) { u.block_size /= 2, u.order = product_order::ascending; });
  if (unit.block_size < unit.instruction_k) add("one block", [](machine_unit& u) { u.block_size = u.instruction_k, u.order = product_order::ascending; });
  else if (unit.block_size <= 16) add("two instructions are one block", [](machine_unit& u) { u.block_size *= 2, u.instruction_k *= 2; });
  add("c the other way: added last, or aligned", [converted](machine_unit& u) { u.accumulator = converted ? accumulator_place::aligned : accumulator_place::added_last; });
  add("the other rounding: to nearest even, or toward zero",
      [](machine_unit& u) { u.output_rounding = u.output_rounding == rounding::toward_zero ? rounding::nearest_even : rounding::toward_zero; });
  add("rounding down", [](machine_unit& u) { u.output_rounding = rounding::toward_negative; });
  if (unit.output == format::f32) {
    add("results one bit shorter", [](machine_unit& u) { --u.output_fraction_bits; });
    if (unit.output_fraction_bits < 23) add("results one bit longer", [](machine_unit& u) { ++u.output_fraction_bits; });
    if (unit.output_fraction_bits < 23) add("whole FP32 results", [](machine_unit& u) { u.output_fraction_bits = 23; });
  }
  add("subnormals flushed", [](machine_unit& u) { u.flushes_subnormals = true; });
  if (converted && unit.input != unit.input_b) add("E4M3 subnormals keep exponent -6", [](machine_unit& u) { u.converts_to_f16 = false; });
  return changed;
}

}  // namespace stickybit::gpu
