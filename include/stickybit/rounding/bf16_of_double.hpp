#pragma once
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace stickybit {

/// BF16(x), to nearest even, subnormals kept; for any double. Host arithmetic, in the default rounding mode.
/// @checked equal to round_to<format::bf16>, tests/predict/parts.cpp
[[nodiscard]] inline double bf16_of_double(double x) noexcept {
  if (std::fabs(x) < 0x1p-126) {  // multiples of 2^-133
    constexpr double shift = 0x1.8p-81;
    return std::copysign((std::fabs(x) + shift) - shift, x);
  }
  if (!std::isfinite(x)) return x;
  constexpr int dropped = 52 - 7;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const double rounded = std::bit_cast<double>((bits + (std::uint64_t{1} << (dropped - 1)) - 1 + (bits >> dropped & 1)) >> dropped << dropped);
  return std::fabs(rounded) < 0x1p128 ? rounded : std::copysign(std::numeric_limits<double>::infinity(), x);
}

}  // namespace stickybit
