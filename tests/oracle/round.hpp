#pragma once
#include "oracle/exact.hpp"

namespace oracle {

enum class direction { nearest_even, nearest_away, zero, up, down, odd };

struct rounding_rules {
  direction toward = direction::nearest_even;
  bool flush = false;                 ///< a subnormal result becomes zero of its sign
  bool always_to_infinity = false;    ///< overflow is infinity in every direction
};

namespace detail {

/// whole or whole + 1?
inline std::uint64_t pick(direction toward, bool minus, division d) {
  if (d.exact) return d.whole;
  switch (toward) {
    case direction::nearest_even: return d.whole + (d.against_half > 0 || (d.against_half == 0 && d.whole % 2 == 1) ? 1 : 0);
    case direction::nearest_away: return d.whole + (d.against_half >= 0 ? 1 : 0);
    case direction::odd: return d.whole + (d.whole % 2 == 0 ? 1 : 0);
    case direction::zero: return d.whole;
    case direction::up: return d.whole + (minus ? 0 : 1);
    case direction::down: return d.whole + (minus ? 1 : 0);
  }
  return d.whole;
}

inline std::uint32_t too_large(shape f, rounding_rules r, bool minus) {
  const bool infinite = r.always_to_infinity || r.toward == direction::nearest_even || r.toward == direction::nearest_away || r.toward == (minus ? direction::down : direction::up);
  return (minus ? f.sign() : 0) + (infinite ? f.infinity() : f.infinity() - 1);
}

}  // namespace detail

/// ± magnitude in format f, rounded once.  @source IEEE 754-2019 §4.3, §7.4
/// Flushing is decided on the value rounded to the format's precision with an exponent of any size.
/// @source measured on an H200: 2^-126·(1 − 2^-46) is kept as 2^-126 by MUL.FTZ and FFMA.FTZ, 2^-126·(1 − 2^-24) is flushed
template <class Number>
std::uint32_t round_to(shape f, rounding_rules r, bool minus, Number const& magnitude) {
  const std::uint32_t sign = minus ? f.sign() : 0;
  if (magnitude == 0) return sign;
  const std::uint64_t hidden = std::uint64_t{1} << f.fraction_width;
  const int exponent = floor_log2(magnitude);

  // With an exponent of any size: n·2^(exponent − fraction_width), hidden ≤ n ≤ 2·hidden.
  const std::uint64_t n = detail::pick(r.toward, minus, divide_pow2(magnitude, exponent - f.fraction_width));
  const int rounded_exponent = n == 2 * hidden ? exponent + 1 : exponent;
  if (rounded_exponent > f.largest_exponent()) return detail::too_large(f, r, minus);
  if (rounded_exponent < f.smallest_exponent() && r.flush) return sign;
  if (exponent >= f.smallest_exponent()) {
    const std::uint64_t fraction = n == 2 * hidden ? 0 : n - hidden;
    return std::uint32_t(sign + std::uint64_t(rounded_exponent + f.largest_exponent()) * hidden + fraction);
  }
  // Among the subnormals the quantum is the smallest one; the code of k quanta is k. What may be here in spite of `flush`
  // rounds up to the smallest normal by this quantum too.
  return std::uint32_t(sign + detail::pick(r.toward, minus, divide_pow2(magnitude, f.smallest_exponent() - f.fraction_width)));
}

/// The same for finite results without flushing, found by looking for the two neighbouring codes: slow, and with nothing in
/// common with the above but the value of a code.
template <class Number>
std::uint32_t round_by_search(shape f, direction toward, bool minus, Number const& magnitude) {
  const std::uint32_t sign = minus ? f.sign() : 0;
  std::uint32_t low = 0, high = f.infinity();  // value(low) ≤ magnitude < value(high), infinity standing for 2^(largest + 1)
  const Number beyond = times_pow2<Number>(1, f.largest_exponent() + 1);
  if (magnitude >= beyond) return detail::too_large(f, {.toward = toward}, minus);
  while (high - low > 1) {
    const std::uint32_t middle = low + (high - low) / 2;
    (magnitude_of<Number>(f, middle) <= magnitude ? low : high) = middle;
  }
  const Number below = magnitude - magnitude_of<Number>(f, low);
  const Number above = (high == f.infinity() ? beyond : magnitude_of<Number>(f, high)) - magnitude;
  if (below == 0) return sign + low;
  switch (toward) {
    case direction::nearest_even: return sign + (below < above || (below == above && low % 2 == 0) ? low : high);
    case direction::nearest_away: return sign + (below < above ? low : high);
    case direction::odd: return sign + (low % 2 == 1 ? low : high);
    case direction::zero: return sign + low;
    case direction::up: return sign + (minus ? low : high);
    case direction::down: return sign + (minus ? high : low);
  }
  return sign + low;
}

}  // namespace oracle
