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
 public:
  using bits_type = std::conditional_t<(traits_of(F).width_bits <= 16), std::uint16_t, std::uint32_t>;

  constexpr code() noexcept = default;
  [[nodiscard]] static constexpr code from_bits(bits_type bits) noexcept {
    code c;
    c.bits_ = bits;
    return c;
  }
  [[nodiscard]] constexpr bits_type to_bits() const noexcept { return bits_; }

  friend constexpr bool operator==(code, code) noexcept = default;

  static constexpr bits_type sign_bit = bits_type(bits_type{1} << (traits_of(F).width_bits - 1));
  static constexpr bits_type fraction_mask = bits_type((bits_type{1} << traits_of(F).fraction_bits()) - 1);
  static constexpr bits_type exponent_mask = bits_type(sign_bit - 1 - fraction_mask);

  [[nodiscard]] static constexpr code zero(bool negative = false) noexcept { return from_bits(negative ? sign_bit : bits_type{0}); }
  [[nodiscard]] static constexpr code infinity(bool negative = false) noexcept {
    return from_bits(bits_type(exponent_mask | (negative ? sign_bit : bits_type{0})));
  }
  /// The one NaN that our machines produce: every bit but the sign set (FP32 7fffffff, BF16 7fff).
  /// @source measured on an H200: no other NaN pattern in any output of attention, mma.sync, wgmma or MUFU
  [[nodiscard]] static constexpr code nan() noexcept { return from_bits(bits_type(sign_bit - 1)); }

  [[nodiscard]] constexpr bool negative() const noexcept { return (bits_ & sign_bit) != 0; }
  [[nodiscard]] constexpr bool is_nan() const noexcept { return (bits_ & (sign_bit - 1)) > exponent_mask; }
  [[nodiscard]] constexpr bool is_infinite() const noexcept { return (bits_ & (sign_bit - 1)) == exponent_mask; }
  [[nodiscard]] constexpr bool is_finite() const noexcept { return (bits_ & exponent_mask) != exponent_mask; }
  [[nodiscard]] constexpr bool is_zero() const noexcept { return (bits_ & (sign_bit - 1)) == 0; }
  [[nodiscard]] constexpr bool is_subnormal() const noexcept { return (bits_ & exponent_mask) == 0 && !is_zero(); }

  /// Same magnitude, other sign; NaN too.
  [[nodiscard]] constexpr code negated() const noexcept { return from_bits(bits_type(bits_ ^ sign_bit)); }

 private:
  bits_type bits_ = 0;
};

using bf16_code = code<format::bf16>;
using f32_code = code<format::f32>;

/// The FP32 code of the same value: BF16 is FP32's upper half, so nothing is rounded. NaN keeps its payload.
[[nodiscard]] constexpr f32_code widen(bf16_code c) noexcept { return f32_code::from_bits(std::uint32_t{c.to_bits()} << 16); }

}  // namespace stickybit
