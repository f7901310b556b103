#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace stickybit {

/// In the shape that tensor_file::require expects: a dimension of any size.
inline constexpr std::int64_t any_size = -1;

/// Product of the sizes; 1 for a scalar, whose shape is empty, and 0 where a size is 0.
/// @returns nothing where a size is negative, or where the product of the sizes other than 0 is above 2^63 - 1: the product
///          of any part of a shape that has a count fits too.
[[nodiscard]] std::optional<std::int64_t> element_count(std::span<std::int64_t const> shape) noexcept;

/// `[2, 3]`
[[nodiscard]] std::string shape_text(std::span<std::int64_t const> shape);
/// `[*, 3]`: any_size is written `*`.
[[nodiscard]] std::string shape_pattern_text(std::span<std::int64_t const> pattern);

}  // namespace stickybit
