#pragma once
#include <span>
#include <string>

#include "stickybit/format/code.hpp"
#include "stickybit/machine/unit.hpp"

namespace stickybit {

/// One inner product on a tensor core, block by block: each term's exponent, its shift to the block's quantum, what was cut, the integer
/// sum, and the rounding; beside the result the exact value and the error.
/// In: the unit's input format, BF16, FP16, E4M3FN or E5M2.
/// @throws shape_error when a and b differ in length, or the unit takes another format
template <format In>
[[nodiscard]] std::string explain_dot(machine_unit const& unit, std::span<code<In> const> a, std::span<code<In> const> b, f32_code c);

}  // namespace stickybit
