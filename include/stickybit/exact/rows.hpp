#pragma once
#include <algorithm>
#include <cstddef>
#include <span>

#include "stickybit/format/code.hpp"

namespace stickybit {

/// A matrix of BF16 codes that somebody else owns: each row is contiguous, rows are `stride` elements apart. Head h of a
/// tensor [s, heads, d] is {data + h·d, s, d, heads·d}.
struct bf16_rows {
  bf16_code const* data = nullptr;
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t stride = 0;

  /// @pre i < rows
  [[nodiscard]] std::span<bf16_code const> row(std::size_t i) const noexcept { return {data + i * stride, columns}; }
};

/// Which keys a query row may see. The schedules differ here: FlashAttention aligns a causal mask to the last query and the
/// last key, cuDNN to the first of each.
enum class mask_alignment { none, bottom_right, top_left };

/// Row i of `queries` sees the keys 0 … n−1; this is n. none: all; bottom_right: key j iff j ≤ i + keys − queries; top_left: iff j ≤ i.
[[nodiscard]] constexpr std::size_t visible_keys(mask_alignment mask, std::size_t i, std::size_t queries, std::size_t keys) noexcept {
  switch (mask) {
    case mask_alignment::none: return keys;
    case mask_alignment::top_left: return std::min(i + 1, keys);
    case mask_alignment::bottom_right: return i + 1 + keys <= queries ? 0 : std::min(i + 1 + keys - queries, keys);
  }
  return 0;
}

}  // namespace stickybit
