#pragma once
#include <span>
#include <string>

#include "stickybit/format/code.hpp"
#include "stickybit/format/format.hpp"

namespace stickybit {

/// Adds FP32 operands left to right in FP32, then rounds the sum to `result`, both to nearest even, and says of each step what
/// was exact, which bits were cut, the round bit, the sticky bit, the direction and the error. The account is made from the events
/// of the arithmetic that produced the bits.
/// @throws std::invalid_argument for fewer than two operands
[[nodiscard]] std::string explain_add(std::span<f32_code const> operands, format result);

}  // namespace stickybit
