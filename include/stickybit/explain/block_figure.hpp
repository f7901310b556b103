#pragma once
#include <optional>
#include <span>
#include <string>

#include "stickybit/block_fma/block_fma.hpp"
#include "stickybit/figure/aligned_bits.hpp"

namespace stickybit {

/// The picture's data of one tensor-core step, from its events: c first, then the products in order of k; sum and result below.
/// @param labels  of the products, by k; those that are absent are called by their k
/// @param c_label  of the accumulator.  @param packed  the rounding of the sum; absent, no result is drawn
[[nodiscard]] figure::aligned_bits_data block_figure(std::span<term_aligned const> terms, block_summed const& summed, std::optional<rounded> const& packed,
                                                     std::span<std::string const> labels = {}, std::string const& c_label = "c");

/// The same from the operands: the step is done, and its events drawn. A step decided by infinity or NaN has no terms, only words.
/// In: the unit's input format, BF16 or FP16.
/// @throws shape_error as block_fma does
template <format In>
[[nodiscard]] figure::aligned_bits_data block_figure(machine_unit const& unit, std::span<code<In> const> a, std::span<code<In> const> b, f32_code c);

}  // namespace stickybit
