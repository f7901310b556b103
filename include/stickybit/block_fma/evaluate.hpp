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

}  // namespace stickybit
