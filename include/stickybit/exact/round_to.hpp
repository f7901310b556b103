#pragma once
#include <bit>
#include <cstdint>
#include <limits>

#include "stickybit/exact/double_double.hpp"
#include "stickybit/rounding/round_pack.hpp"

namespace stickybit {

/// A normalised double_double rounded once to format F: hi and lo are seen together, so there is no double rounding.
/// Infinity stays, NaN becomes the target's canonical NaN; a zero keeps the sign of hi.
template <format F>
[[nodiscard]] constexpr code<F> round_to(double_double x, rounding mode = rounding::nearest_even) noexcept {
  const auto bits = std::bit_cast<std::uint64_t>(x.hi);
  const bool negative = (bits >> 63) != 0;
  if (x.hi != x.hi) return code<F>::nan();
  if (x.hi == std::numeric_limits<double>::infinity() || x.hi == -std::numeric_limits<double>::infinity())
    return code<F>::infinity(negative);
  const int biased_e = int((bits >> 52) & 0x7ff);
  std::uint64_t significand = bits & ((std::uint64_t{1} << 52) - 1);
  if (biased_e != 0) significand |= std::uint64_t{1} << 52;
  // Eleven more bits below hi's last: lo is less than one unit of hi's last bit, so it only decides whether the value lies
  // a little above (last bit set) or a little below (all eleven bits set, borrowed from hi).
  constexpr int more = 11;
  significand <<= more;
  if (x.lo != 0) significand = (x.lo < 0) == negative ? significand | 1 : significand - 1;
  return round_pack<F>({.mode = mode}, negative, (biased_e == 0 ? -1074 : biased_e - 1075) - more, significand);
}

}  // namespace stickybit
