#pragma once
#include <concepts>
#include <cstdint>
#include <type_traits>

#include "stickybit/format/format.hpp"

namespace stickybit {

/// A stored bit pattern of format F, a type of its own: codes of two formats do not mix, and neither do codes and numbers.
/// The only doors are from_bits, to_bits and std::bit_cast. `==` compares bit patterns: +0 and -0 differ, a NaN equals itself.
template <format F>
class code {
  static_assert(F != format::f64, "FP64 only names units");

 public:
  static constexpr format_traits traits = traits_of(F);  // in constant expressions only: nvcc has no such object on the device
  using bits_type = std::conditional_t<(traits.width_bits <= 8), std::uint8_t, std::conditional_t<(traits.width_bits <= 16), std::uint16_t, std::uint32_t>>;

  constexpr code() noexcept = default;
  /// Bits that are not the format's, TF32's low 13 and those above the four or six of E2M1, E3M2 and E2M3, are cut off: a tensor core reads a TF32
  /// operand so.  @source measured on an H200
  [[nodiscard]] static constexpr code from_bits(bits_type bits) noexcept {
    code c;
    c.bits_ = bits_type(bits & (sign_bit | exponent_mask | fraction_mask));
    return c;
  }
  [[nodiscard]] constexpr bits_type to_bits() const noexcept { return bits_; }

  friend constexpr bool operator==(code, code) noexcept = default;

  static constexpr bits_type sign_bit = traits.is_signed ? bits_type(bits_type{1} << (traits.width_bits - 1)) : bits_type{0};
  static constexpr bits_type fraction_mask = bits_type(((std::uint32_t{1} << traits.fraction_bits()) - 1) << traits.padding_bits);
  static constexpr bits_type exponent_mask = bits_type(((std::uint32_t{1} << traits.exponent_bits) - 1) << (traits.fraction_bits() + traits.padding_bits));
  static constexpr bits_type magnitude_mask = bits_type(exponent_mask | fraction_mask);
  static constexpr int padding_bits = traits.padding_bits;

  /// The number that has `index` numbers of its sign between it and zero (E8M0: 2^-127); index ≤ largest_magnitude(). FNUZ has one zero, +0.
  [[nodiscard]] static constexpr code from_magnitude(std::uint32_t index, bool negative = false) noexcept {
    if constexpr (!traits.has_negative_zero()) negative = negative && index != 0;
    return from_bits(bits_type((index << padding_bits) | (negative ? sign_bit : bits_type{0})));
  }
  /// The inverse: the code without sign and padding. Infinity has largest_magnitude() + 1.
  [[nodiscard]] constexpr std::uint32_t magnitude() const noexcept { return std::uint32_t(bits_ & magnitude_mask) >> padding_bits; }

  [[nodiscard]] static constexpr code zero(bool negative = false) noexcept
    requires(traits.has_zero)
  {
    return from_magnitude(0, negative);
  }
  [[nodiscard]] static constexpr code infinity(bool negative = false) noexcept
    requires(traits.has_infinity())
  {
    return from_bits(bits_type(exponent_mask | (negative ? sign_bit : bits_type{0})));
  }
  [[nodiscard]] static constexpr code largest(bool negative = false) noexcept { return from_magnitude(traits.largest_magnitude(), negative); }
  /// The one NaN that our machines produce: every bit but the sign set (FP32 7fffffff, BF16 7fff); FNUZ has only 80.
  /// @source measured on an H200: no other NaN pattern in any output of attention, mma.sync, wgmma or MUFU
  [[nodiscard]] static constexpr code nan() noexcept
    requires(traits.has_nan())
  {
    constexpr bits_type bits = traits.special == special_codes::nan_negative_zero ? sign_bit : magnitude_mask;
    return from_bits(bits);
  }

  /// Of the sign bit; the NaN of FNUZ is not negative.
  [[nodiscard]] constexpr bool negative() const noexcept {
    if constexpr (traits.special == special_codes::nan_negative_zero) return bits_ > sign_bit;
    else return (bits_ & sign_bit) != 0;
  }
  [[nodiscard]] constexpr bool is_nan() const noexcept {
    if constexpr (traits.special == special_codes::ieee) return (bits_ & magnitude_mask) > exponent_mask;
    else if constexpr (traits.special == special_codes::nan_all_ones) return (bits_ & magnitude_mask) == magnitude_mask;
    else if constexpr (traits.special == special_codes::nan_negative_zero) return bits_ == sign_bit;
    else return false;
  }
  [[nodiscard]] constexpr bool is_infinite() const noexcept {
    if constexpr (traits.has_infinity()) return (bits_ & magnitude_mask) == exponent_mask;
    else return false;
  }
  [[nodiscard]] constexpr bool is_finite() const noexcept {
    if constexpr (traits.has_infinity()) return (bits_ & exponent_mask) != exponent_mask;
    else return !is_nan();
  }
  [[nodiscard]] constexpr bool is_zero() const noexcept {
    if constexpr (traits.has_negative_zero()) return (bits_ & magnitude_mask) == 0;
    else if constexpr (traits.has_zero) return bits_ == 0;
    else return false;
  }
  [[nodiscard]] constexpr bool is_subnormal() const noexcept {
    if constexpr (traits.has_subnormals()) return (bits_ & exponent_mask) == 0 && (bits_ & fraction_mask) != 0;
    else return false;
  }

  /// Same magnitude, other sign; NaN too. The one zero and the one NaN of FNUZ stay.
  [[nodiscard]] constexpr code negated() const noexcept
    requires(traits.is_signed)
  {
    if constexpr (!traits.has_negative_zero())
      if ((bits_ & magnitude_mask) == 0) return *this;
    return from_bits(bits_type(bits_ ^ sign_bit));
  }

 private:
  bits_type bits_ = 0;
};

using bf16_code = code<format::bf16>;
using f32_code = code<format::f32>;
using f16_code = code<format::f16>;
using tf32_code = code<format::tf32>;
using e4m3fn_code = code<format::e4m3fn>;
using e5m2_code = code<format::e5m2>;
using e4m3fnuz_code = code<format::e4m3fnuz>;
using e5m2fnuz_code = code<format::e5m2fnuz>;
using e8m0_code = code<format::e8m0>;
using e2m1_code = code<format::e2m1>;
using e3m2_code = code<format::e3m2>;
using e2m3_code = code<format::e2m3>;

/// The FP32 code of the same value: BF16 is FP32's upper half, so nothing is rounded. NaN keeps its payload.
[[nodiscard]] constexpr f32_code widen(bf16_code c) noexcept { return f32_code::from_bits(std::uint32_t{c.to_bits()} << 16); }

}  // namespace stickybit
