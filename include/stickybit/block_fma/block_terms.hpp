#pragma once
#include <cstdint>

#include "stickybit/format/code.hpp"
#include "stickybit/format/decode.hpp"
#include "stickybit/machine/unit.hpp"
#include "stickybit/rounding/convert.hpp"

// What every unit does first: operands become terms with a sign, an exponent and an integer significand.

namespace stickybit {

/// The most products a unit may align in one step.
inline constexpr int max_block_size = 32;

namespace detail {

/// A term on its way into a sum, ± significand · 2^(exponent − scale_bits); significand 0 takes no part in the alignment.
struct block_term {
  bool negative;
  int exponent;
  int scale_bits;
  std::uint64_t significand;
};

/// NaN wins, then infinities: of both signs NaN, else that infinity.
struct special_state {
  bool nan = false, positive_infinity = false, negative_infinity = false;

  constexpr void see_infinity(bool negative) noexcept { (negative ? negative_infinity : positive_infinity) = true; }
  constexpr void see(special_state const& other) noexcept {
    nan |= other.nan;
    positive_infinity |= other.positive_infinity;
    negative_infinity |= other.negative_infinity;
  }
  [[nodiscard]] constexpr bool any() const noexcept { return nan || positive_infinity || negative_infinity; }
  [[nodiscard]] constexpr bool is_nan() const noexcept { return nan || (positive_infinity && negative_infinity); }
  /// @pre any()
  [[nodiscard]] constexpr f32_code result() const noexcept { return is_nan() ? f32_code::nan() : f32_code::infinity(negative_infinity); }
};

/// An operand as the unit reads it.  @param fraction_bits  of its format
constexpr decoded operand_of(machine_unit const& unit, decoded x, int fraction_bits) noexcept {
  if ((unit.flushes_subnormals || unit.flushes_operands) && x.kind == number_class::subnormal) return {number_class::zero, false, x.e, 0};
  if (unit.converts_to_f16)
    for (; x.significand != 0 && x.significand >> fraction_bits == 0 && x.e > traits_of(format::f16).e_min(); --x.e) x.significand <<= 1;
  return x;
}

/// @param scale_bits  fraction bits of a and b together
constexpr block_term product_term(decoded a, decoded b, int scale_bits, special_state& special) noexcept {
  const bool negative = a.negative != b.negative;
  const auto is = [&](number_class c) { return a.kind == c || b.kind == c; };
  if (is(number_class::nan) || (is(number_class::infinite) && is(number_class::zero))) special.nan = true;
  else if (is(number_class::infinite)) special.see_infinity(negative);
  return {negative, a.e + b.e, scale_bits, std::uint64_t{a.significand} * b.significand};
}

/// c as a term: a number of the output format, so an FP16 unit first rounds it to that.
template <format Out>
constexpr block_term accumulator_term(f32_code c, special_state& special) {
  const decoded d = decode(convert<Out>(c));
  if (d.kind == number_class::nan) special.nan = true;
  if (d.kind == number_class::infinite) special.see_infinity(d.negative);
  constexpr int fraction_bits = traits_of(Out).fraction_bits();
  return {d.negative, d.e, fraction_bits, d.significand};
}

}  // namespace detail
}  // namespace stickybit
