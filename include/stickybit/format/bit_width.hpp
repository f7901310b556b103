#pragma once
#include <bit>
#include <cstdint>

namespace stickybit {

/// Position of the highest set bit, plus one; 0 for 0. In 32-bit halves: nvcc 13.0 with libstdc++ 12 compiles
/// std::bit_width(std::uint64_t) for the device to the constant 0, without a warning.
[[nodiscard]] constexpr int bit_width_of(std::uint64_t x) noexcept {
  const auto high = std::uint32_t(x >> 32);
  return high != 0 ? 32 + int(std::bit_width(high)) : int(std::bit_width(std::uint32_t(x)));
}

}  // namespace stickybit
