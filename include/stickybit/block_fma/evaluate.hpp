#pragma once
#include <cstdint>
#include <span>

#include "stickybit/block_fma/block_fma.hpp"
#include "stickybit/machine/unit.hpp"

namespace stickybit {

/// The operands of one inner product as raw codes, for a unit that is known at run time only.
struct inner_product_operands {
  std::span<std::uint64_t const> a, b;              ///< codes of unit.input and unit.input_b, as many of each; any length
  std::span<std::uint64_t const> scale_a, scale_b;  ///< codes of unit.scale, one for every scale_block products begun; empty without scales
  std::uint64_t c;                                  ///< FP32 code, also for a unit with FP16 output; FP64 code for an FP64 unit
};

/// c + Σ a[k]·b[k] (times the scales of the block that k lies in) on any unit: what inner_product() computes, and units with scales or FP64.
/// @returns an FP32 code, also of an FP16 result; an FP64 code for an FP64 unit
/// @throws  shape_error when lengths do not go together
/// @source  scales: MMA-Sim c785138 simulator/nv_ptx.py; FP64: an IEEE FMA for each product
[[nodiscard]] std::uint64_t evaluate(machine_unit const& unit, inner_product_operands const& operands);

/// A code of the format, taken apart. @pre f is not FP64
[[nodiscard]] decoded decode_bits(format f, std::uint32_t bits) noexcept;

/// block_fma() of raw codes: one block of a unit without scales, with its events.  @throws shape_error as block_fma()
template <class Sink = null_sink>
f32_code block_of_bits(machine_unit const& unit, std::span<std::uint32_t const> a, std::span<std::uint32_t const> b, f32_code c, Sink&& sink = {}) {
  if (a.size() != std::size_t(unit.block_size) || b.size() != a.size()) throw shape_error("block_of_bits: a and b must have the unit's block_size elements each");
  if (unit.is_scaled() || unit.input == format::f64) throw shape_error("block_of_bits: a unit without scales, and not of FP64");
  machine_unit one_block = unit;
  one_block.instruction_k = unit.block_size;
  one_block.order = unit.order == product_order::pairs ? product_order::ascending : unit.order;
  one_block.permutation = {};
  one_block.join = block_join::chain;
  detail::require_blocks(one_block);
  const int scale_bits = traits_of(unit.input).fraction_bits() + traits_of(unit.input_b).fraction_bits();
  const auto product = [&](std::size_t k, detail::special_state& special) {
    const auto operand = [&](format f, std::uint32_t bits) { return detail::operand_of(unit, decode_bits(f, bits), traits_of(f).fraction_bits()); };
    return detail::product_term(operand(unit.input, a[k]), operand(unit.input_b, b[k]), scale_bits, special);
  };
  return detail::chain_of_blocks(one_block, 1, product, c, sink);
}

}  // namespace stickybit
