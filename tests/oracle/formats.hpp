#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "oracle/round.hpp"

// Every format by the numbers of its specification, and rounding to it by looking for the two neighbours in the list of its values.

namespace oracle {

/// A whole multiple of 2^-64 below 2^62: holds sums of products of FP16 and of every 8-bit format with a sign.
__extension__ using narrow = __int128;
template <>
constexpr narrow times_pow2<narrow>(std::uint64_t m, int e) {
  assert(e >= -64);
  return narrow(m) << (e + 64);
}
/// Only where everything that is asked is exact: values of at most 24 bits, their doubles, sums of neighbours.
template <>
inline double times_pow2<double>(std::uint64_t m, int e) {
  return std::ldexp(double(m), e);
}

inline constexpr std::uint32_t none = 0xffffffff;

/// Codes here are without padding.
/// @source IEEE 754-2019 table 3.5; OCP 8-bit Floating Point Specification 1.0, tables 1 and 2; OCP Microscaling Formats
///   Specification 1.0, tables 3 to 7; arXiv:2206.02915 table 1 (FNUZ); PTX ISA (TF32)
struct number_format {
  char const* name;
  int exponent_width, fraction_width, bias, padding;
  std::uint32_t sign;      ///< 0: no sign
  std::uint32_t largest;   ///< of the finite codes without sign
  std::uint32_t infinity;  ///< without sign, or none
  std::uint32_t nan;       ///< the one that operations give, or none
  bool zero, minus_zero;

  [[nodiscard]] constexpr std::uint32_t magnitude(std::uint32_t code) const { return sign == 0 ? code : code % sign; }
  [[nodiscard]] constexpr bool is_nan(std::uint32_t code) const {
    if (nan == none) return false;
    if (infinity != none) return magnitude(code) > infinity;
    return minus_zero || !zero ? magnitude(code) == nan : code == nan;
  }
  [[nodiscard]] constexpr bool is_infinite(std::uint32_t code) const { return infinity != none && magnitude(code) == infinity; }
  [[nodiscard]] constexpr bool minus(std::uint32_t code) const { return sign != 0 && code >= sign && !(code == sign && !minus_zero); }
  /// The value of a code without sign: whole·2^weight. Also of the code after the largest, were it a number.
  [[nodiscard]] constexpr std::uint64_t whole(std::uint32_t code) const {
    const std::uint32_t hidden = std::uint32_t{1} << fraction_width;
    return zero && code < hidden ? code : hidden + code % hidden;
  }
  [[nodiscard]] constexpr int weight(std::uint32_t code) const {
    const int field = int(code >> fraction_width);
    return (zero && field == 0 ? 1 : field) - bias - fraction_width;
  }
  /// The code of the smallest normal number.
  [[nodiscard]] constexpr std::uint32_t smallest_normal() const { return zero ? std::uint32_t{1} << fraction_width : 0; }
};

inline constexpr number_format bf16_format{"bf16", 8, 7, 127, 0, 0x8000, 0x7f7f, 0x7f80, 0x7fff, true, true};
inline constexpr number_format f32_format{"f32", 8, 23, 127, 0, 0x80000000, 0x7f7fffff, 0x7f800000, 0x7fffffff, true, true};
inline constexpr number_format f16_format{"f16", 5, 10, 15, 0, 0x8000, 0x7bff, 0x7c00, 0x7fff, true, true};
inline constexpr number_format tf32_format{"tf32", 8, 10, 127, 13, 0x40000, 0x3fbff, 0x3fc00, 0x3ffff, true, true};
inline constexpr number_format e4m3fn_format{"e4m3fn", 4, 3, 7, 0, 0x80, 0x7e, none, 0x7f, true, true};
inline constexpr number_format e5m2_format{"e5m2", 5, 2, 15, 0, 0x80, 0x7b, 0x7c, 0x7f, true, true};
inline constexpr number_format e4m3fnuz_format{"e4m3fnuz", 4, 3, 8, 0, 0x80, 0x7f, none, 0x80, true, false};
inline constexpr number_format e5m2fnuz_format{"e5m2fnuz", 5, 2, 16, 0, 0x80, 0x7f, none, 0x80, true, false};
inline constexpr number_format e8m0_format{"e8m0", 8, 0, 127, 0, 0, 0xfe, none, 0xff, false, false};
inline constexpr number_format e2m1_format{"e2m1", 2, 1, 1, 0, 8, 7, none, none, true, true};
inline constexpr number_format e3m2_format{"e3m2", 3, 2, 3, 0, 0x20, 0x1f, none, none, true, true};
inline constexpr number_format e2m3_format{"e2m3", 2, 3, 1, 0, 0x20, 0x1f, none, none, true, true};

enum class beyond { by_mode, to_infinity, saturate };

struct rules {
  direction toward = direction::nearest_even;
  bool flush = false;
  beyond overflow = beyond::by_mode;
};

/// A code and what IEEE 754 §7 signals.
struct outcome {
  std::uint32_t code;
  bool inexact = false, underflow = false, overflow = false, invalid = false, divide_by_zero = false;

  friend bool operator==(outcome const&, outcome const&) = default;
};

/// Rounding to one format, on exact numbers.
template <class Number>
class rounder {
 public:
  explicit rounder(number_format const& f) : f_(f) {
    for (std::uint32_t code = 0; code <= f.largest + 1; ++code) values_.push_back(times_pow2<Number>(f.whole(code), f.weight(code)));
  }

  [[nodiscard]] number_format const& format() const { return f_; }
  [[nodiscard]] Number value(std::uint32_t code) const {
    const Number magnitude = values_[f_.magnitude(code)];
    return f_.minus(code) ? Number(-magnitude) : magnitude;
  }
  [[nodiscard]] std::uint32_t with_sign(bool minus, std::uint32_t code) const {
    return minus && f_.sign != 0 && (code != 0 || f_.minus_zero) ? code + f_.sign : code;
  }
  [[nodiscard]] outcome nan(bool invalid) const { return f_.nan == none ? outcome{.code = f_.largest, .invalid = true} : outcome{.code = f_.nan, .invalid = invalid}; }
  /// In place of infinity.
  [[nodiscard]] std::uint32_t infinite(bool saturate, bool minus) const {
    if (!saturate && f_.infinity != none) return with_sign(minus, f_.infinity);
    return saturate || f_.nan == none ? with_sign(minus, f_.largest) : f_.nan;
  }

  [[nodiscard]] outcome operator()(rules r, bool minus, Number const& magnitude) const {
    if (f_.sign == 0 && minus && magnitude != 0) return nan(true);
    if (!f_.zero && magnitude < values_[0]) return {.code = 0, .inexact = true, .underflow = true};
    if (magnitude == 0) return {.code = with_sign(minus, 0)};
    if (magnitude >= values_.back()) return too_large(r, minus);
    const bool tiny = is_tiny(r.toward, minus, magnitude);
    if (tiny && r.flush) return {.code = with_sign(minus, 0), .inexact = true, .underflow = true};
    const auto low = std::uint32_t(std::upper_bound(values_.begin(), values_.end(), magnitude) - values_.begin() - 1);
    const bool exact = values_[low] == magnitude;
    std::uint32_t code = exact ? low : pick(r.toward, minus, low, magnitude);
    if (r.flush && code < f_.smallest_normal()) code = f_.smallest_normal();
    if (code > f_.largest) return too_large(r, minus);
    return {.code = with_sign(minus, code), .inexact = values_[code] != magnitude, .underflow = tiny && !exact};
  }

 private:
  [[nodiscard]] static bool up(direction toward, bool minus, int against_half, bool odd) {
    switch (toward) {
      case direction::nearest_even: return against_half > 0 || (against_half == 0 && odd);
      case direction::nearest_away: return against_half >= 0;
      case direction::zero: return false;
      case direction::up: return !minus;
      case direction::down: return minus;
      case direction::odd: return !odd;
    }
    return false;
  }
  /// low or low + 1, between which the value lies.
  [[nodiscard]] std::uint32_t pick(direction toward, bool minus, std::uint32_t low, Number const& magnitude) const {
    const Number twice = magnitude + magnitude, sum = values_[low] + values_[low + 1];
    // A significand of one digit is 1 and always odd.
    return low + (up(toward, minus, twice < sum ? -1 : twice == sum ? 0 : 1, f_.fraction_width == 0 || low % 2 == 1) ? 1 : 0);
  }
  /// Below the smallest normal N after rounding to p digits with any exponent? The number before N would be N(1 − 2^-p), odd.
  [[nodiscard]] bool is_tiny(direction toward, bool minus, Number const& magnitude) const {
    const std::uint32_t n = f_.smallest_normal();
    if (!f_.zero || magnitude >= values_[n]) return false;
    const Number below = times_pow2<Number>(2 * f_.whole(n) - 1, f_.weight(n) - 1);
    if (magnitude <= below) return true;
    const Number twice = magnitude + magnitude, sum = below + values_[n];
    return !up(toward, minus, twice < sum ? -1 : twice == sum ? 0 : 1, true);
  }
  [[nodiscard]] outcome too_large(rules r, bool minus) const {
    const bool inside = r.overflow == beyond::by_mode && (r.toward == direction::zero || r.toward == direction::odd || r.toward == (minus ? direction::up : direction::down));
    return {.code = inside ? with_sign(minus, f_.largest) : infinite(r.overflow == beyond::saturate, minus), .inexact = true, .overflow = true};
  }

  number_format f_;
  std::vector<Number> values_;  ///< of the codes without sign, and one beyond the largest
};

}  // namespace oracle
