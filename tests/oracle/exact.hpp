#pragma once
// The oracle: what codes mean and what operations give, on exact numbers, from raw integers. It includes nothing of the
// library and follows the texts (IEEE 754-2019, PTX ISA, the measured rules of the tensor core), not the library's code.
//
// Each function is written once and works on two kinds of exact number:
//   rational  any fraction; slow
//   fixed     a whole multiple of 2^-320 below 2^380: holds sums of products of FP32 or BF16 numbers; fast
#include <boost/multiprecision/cpp_int.hpp>
#include <cassert>
#include <cstdint>

namespace oracle {

namespace mp = boost::multiprecision;
using integer = mp::cpp_int;
using rational = mp::cpp_rational;
using fixed = mp::number<mp::cpp_int_backend<704, 704, mp::signed_magnitude, mp::unchecked, void>, mp::et_off>;
inline constexpr int fixed_scale = 320;

/// m·2^e
template <class Number>
Number times_pow2(std::uint64_t m, int e);
template <>
inline rational times_pow2<rational>(std::uint64_t m, int e) {
  return e >= 0 ? rational(integer(m) << unsigned(e)) : rational(integer(m), integer(1) << unsigned(-e));
}
template <>
inline fixed times_pow2<fixed>(std::uint64_t m, int e) {
  assert(e >= -fixed_scale);
  return fixed(m) << unsigned(e + fixed_scale);
}

/// The e with 2^e ≤ x < 2^(e+1); x > 0.
inline int floor_log2(rational const& x) {
  const int guess = int(mp::msb(mp::numerator(x))) - int(mp::msb(mp::denominator(x)));
  return times_pow2<rational>(1, guess) <= x ? guess : guess - 1;
}
inline int floor_log2(fixed const& x) { return int(mp::msb(x)) - fixed_scale; }

/// x / 2^e as a whole number and what is left over, against one half: x ≥ 0.
struct division {
  std::uint64_t whole;
  bool exact;
  int against_half;  ///< −1 below, 0 equal, +1 above
};
inline division divide_pow2(rational const& x, int e) {
  const rational quotient = x / times_pow2<rational>(1, e);
  const integer whole = mp::numerator(quotient) / mp::denominator(quotient);
  const rational rest = quotient - rational(whole);
  return {whole.convert_to<std::uint64_t>(), rest == 0, rational(rest * 2).compare(rational(1))};
}
inline division divide_pow2(fixed const& x, int e) {
  const int bits = e + fixed_scale;
  if (bits <= 0) return {fixed(x << unsigned(-bits)).convert_to<std::uint64_t>(), true, -1};
  const fixed whole = x >> unsigned(bits);
  const fixed rest = x - fixed(whole << unsigned(bits));
  return {whole.convert_to<std::uint64_t>(), rest == 0, rest.compare(fixed(fixed(1) << unsigned(bits - 1)))};
}

/// A binary interchange format.  @source IEEE 754-2019 table 3.5; BF16 is FP32 with 16 fraction bits less
struct shape {
  int exponent_width;
  int fraction_width;

  [[nodiscard]] constexpr int precision() const { return fraction_width + 1; }
  [[nodiscard]] constexpr int largest_exponent() const { return (1 << (exponent_width - 1)) - 1; }
  [[nodiscard]] constexpr int smallest_exponent() const { return 1 - largest_exponent(); }
  [[nodiscard]] constexpr std::uint32_t sign() const { return std::uint32_t{1} << (exponent_width + fraction_width); }
  [[nodiscard]] constexpr std::uint32_t infinity() const { return ((std::uint32_t{1} << exponent_width) - 1) << fraction_width; }
  [[nodiscard]] constexpr std::uint32_t nan() const { return sign() - 1; }
};
inline constexpr shape bf16{8, 7}, f32{8, 23};

/// A code taken apart. Finite: value = ± whole·2^weight.
struct parts {
  bool minus;
  bool nan;
  bool infinite;
  std::uint32_t whole;
  int weight;
  int exponent;  ///< a subnormal has that of the smallest normal

  [[nodiscard]] constexpr bool zero() const { return !nan && !infinite && whole == 0; }
};
constexpr parts take_apart(shape f, std::uint32_t code) {
  const bool minus = (code / f.sign()) % 2 == 1;
  const std::uint32_t magnitude = code % f.sign();
  const std::uint32_t hidden = std::uint32_t{1} << f.fraction_width;
  const std::uint32_t field = magnitude / hidden, fraction = magnitude % hidden;
  if (magnitude > f.infinity()) return {minus, true, false, 0, 0, 0};
  if (magnitude == f.infinity()) return {minus, false, true, 0, 0, 0};
  const int exponent = field == 0 ? f.smallest_exponent() : int(field) - f.largest_exponent();
  return {minus, false, false, field == 0 ? fraction : hidden + fraction, exponent - f.fraction_width, exponent};
}

/// The magnitude of a finite code.
template <class Number>
Number magnitude_of(shape f, std::uint32_t code) {
  const parts p = take_apart(f, code);
  return times_pow2<Number>(p.whole, p.weight);
}
/// The value of a finite code.
template <class Number>
Number value_of(shape f, std::uint32_t code) {
  const Number magnitude = magnitude_of<Number>(f, code);
  return take_apart(f, code).minus ? Number(-magnitude) : magnitude;
}

}  // namespace oracle
