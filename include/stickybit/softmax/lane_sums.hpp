#pragma once
#include <array>
#include <span>

#include "stickybit/format/code.hpp"
#include "stickybit/rounding/round_pack.hpp"

namespace stickybit {

/// The lane that owns a column: four lanes share a row of a tensor core's result, two neighbouring columns of each eight are one lane's.
[[nodiscard]] constexpr std::size_t lane_of(std::size_t column) noexcept { return (column & 7) >> 1; }

namespace host {

/// sums[lane_of(i)] += x[i] in ascending order, in the vector registers of the machine that runs it; code for code what the
/// definition's additions give. Valid where is_ieee() is true.
void add_in_lanes(std::span<f32_code const> x, std::array<f32_code, 4>& sums, subnormals s) noexcept;

}  // namespace host
}  // namespace stickybit
