#pragma once
#include <cstdint>
#include <string_view>

namespace stickybit {

/// Which neighbour a value between two representable numbers becomes.  @source IEEE 754-2019 §4.3
enum class rounding : std::uint8_t { nearest_even, toward_zero, toward_positive, toward_negative };

[[nodiscard]] constexpr std::string_view name_of(rounding mode) noexcept {
  switch (mode) {
    case rounding::nearest_even: return "nearest_even";
    case rounding::toward_zero: return "toward_zero";
    case rounding::toward_positive: return "toward_positive";
    case rounding::toward_negative: return "toward_negative";
  }
  return {};
}

/// What was cut off, against half a unit of what is kept.
enum class tail : std::uint8_t { zero, below_half, half, above_half };

[[nodiscard]] constexpr std::string_view name_of(tail t) noexcept {
  switch (t) {
    case tail::zero: return "nothing";
    case tail::below_half: return "less than half an ulp";
    case tail::half: return "exactly half an ulp";
    case tail::above_half: return "more than half an ulp";
  }
  return {};
}

/// The low `drop` bits of sig, drop ≥ 0 and of any size.
[[nodiscard]] constexpr tail tail_of(std::uint64_t sig, int drop) noexcept {
  if (drop == 0 || sig == 0) return tail::zero;
  if (drop > 64) return tail::below_half;
  const std::uint64_t half = std::uint64_t{1} << (drop - 1);
  const std::uint64_t cut = drop == 64 ? sig : sig & ((half << 1) - 1);
  if (cut == 0) return tail::zero;
  return cut < half ? tail::below_half : cut == half ? tail::half : tail::above_half;
}

/// Does the magnitude grow by one unit?  `lsb`: last kept bit.  @source IEEE 754-2019 §4.3
[[nodiscard]] constexpr bool rounds_up(rounding mode, tail t, bool lsb, bool negative) noexcept {
  switch (mode) {
    case rounding::nearest_even: return t == tail::above_half || (t == tail::half && lsb);
    case rounding::toward_zero: return false;
    case rounding::toward_positive: return t != tail::zero && !negative;
    case rounding::toward_negative: return t != tail::zero && negative;
  }
  return false;
}

/// round(sig / 2^drop), drop ≥ 0 and of any size. @post may have one bit more than sig >> drop had: the caller renormalises
[[nodiscard]] constexpr std::uint64_t round_shift(rounding mode, std::uint64_t sig, int drop, bool negative) noexcept {
  const std::uint64_t kept = drop < 64 ? sig >> drop : 0;
  return kept + rounds_up(mode, tail_of(sig, drop), kept & 1, negative);
}

}  // namespace stickybit
