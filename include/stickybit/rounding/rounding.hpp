#pragma once
#include <cstdint>
#include <string_view>

namespace stickybit {

/// Which neighbour a value between two representable numbers becomes.  @source IEEE 754-2019 §4.3
///   nearest_even  a tie goes to the even last bit; with one digit (E8M0) both are odd and the larger one is taken (§4.3.1)
///   nearest_away  a tie goes to the larger magnitude
///   to_odd        an inexact value becomes the neighbour with an odd last bit: a later rounding to a format with at least
///                 two bits less is then as good as one.  @source Boldo and Melquiond, IEEE Transactions on Computers 57(4), 2008
///   stochastic    as random bits say, see carries_out()
enum class rounding : std::uint8_t { nearest_even, toward_zero, toward_positive, toward_negative, nearest_away, to_odd, stochastic };

[[nodiscard]] constexpr std::string_view name_of(rounding mode) noexcept {
  switch (mode) {
    case rounding::nearest_even: return "nearest_even";
    case rounding::toward_zero: return "toward_zero";
    case rounding::toward_positive: return "toward_positive";
    case rounding::toward_negative: return "toward_negative";
    case rounding::nearest_away: return "nearest_away";
    case rounding::to_odd: return "to_odd";
    case rounding::stochastic: return "stochastic";
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
/// The mode stochastic is not decided by these: carries_out() does.
[[nodiscard]] constexpr bool rounds_up(rounding mode, tail t, bool lsb, bool negative) noexcept {
  switch (mode) {
    case rounding::nearest_even: return t == tail::above_half || (t == tail::half && lsb);
    case rounding::toward_zero: return false;
    case rounding::toward_positive: return t != tail::zero && !negative;
    case rounding::toward_negative: return t != tail::zero && negative;
    case rounding::nearest_away: return t == tail::half || t == tail::above_half;
    case rounding::to_odd: return t != tail::zero && !lsb;
    case rounding::stochastic: return false;
  }
  return false;
}

/// Is a value beyond the largest number infinite? The modes to nearest and stochastic say yes, those that stay inside no.
/// @source IEEE 754-2019 §7.4; to_odd: the largest number of IEEE formats is odd
[[nodiscard]] constexpr bool overflows_to_infinity(rounding mode, bool negative) noexcept {
  switch (mode) {
    case rounding::nearest_even:
    case rounding::nearest_away:
    case rounding::stochastic: return true;
    case rounding::toward_zero:
    case rounding::to_odd: return false;
    case rounding::toward_positive: return !negative;
    case rounding::toward_negative: return negative;
  }
  return true;
}

/// round(sig / 2^drop), drop ≥ 0 and of any size, in any mode but stochastic. @post may have one bit more than sig >> drop had: the caller renormalises
[[nodiscard]] constexpr std::uint64_t round_shift(rounding mode, std::uint64_t sig, int drop, bool negative) noexcept {
  const std::uint64_t kept = drop < 64 ? sig >> drop : 0;
  return kept + rounds_up(mode, tail_of(sig, drop), kept & 1, negative);
}

}  // namespace stickybit
