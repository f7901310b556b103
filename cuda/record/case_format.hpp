#pragma once
#include <algorithm>
#include <cstdint>

namespace stickybit::gpu {

enum class case_specials : std::uint8_t {
  ieee,          ///< the top biased exponent: infinity and NaN
  nan_all_ones,  ///< E4M3: every bit but the sign set is NaN; no infinity
  none,          ///< every code is a number
};

/// A format as the case generators need it: sign, biased exponent, fraction, padding that the hardware ignores. Codes are in
/// the low bits of 64. An own description, so that a wrong one in the library cannot hide behind equally wrong operands.
struct case_format {
  int exponent_bits, fraction_bits, padding_bits = 0;
  case_specials specials = case_specials::ieee;

  friend constexpr bool operator==(case_format const&, case_format const&) = default;

  [[nodiscard]] constexpr int width_bits() const noexcept { return 1 + exponent_bits + fraction_bits + padding_bits; }
  [[nodiscard]] constexpr int storage_bytes() const noexcept { return (width_bits() + 7) / 8; }
  [[nodiscard]] constexpr int bias() const noexcept { return (1 << (exponent_bits - 1)) - 1; }
  [[nodiscard]] constexpr int e_min() const noexcept { return 1 - bias(); }
  [[nodiscard]] constexpr int e_max() const noexcept { return (1 << exponent_bits) - 1 - bias() - (specials == case_specials::ieee ? 1 : 0); }
  /// Exponent of the least subnormal.
  [[nodiscard]] constexpr int e_lowest() const noexcept { return e_min() - fraction_bits; }

  [[nodiscard]] constexpr std::uint64_t hidden_bit() const noexcept { return std::uint64_t{1} << fraction_bits; }
  [[nodiscard]] constexpr std::uint64_t sign() const noexcept { return std::uint64_t{1} << (width_bits() - 1); }
  [[nodiscard]] constexpr std::uint64_t code_mask() const noexcept { return sign() | (sign() - 1); }
  [[nodiscard]] constexpr std::uint64_t padding_mask() const noexcept { return (std::uint64_t{1} << padding_bits) - 1; }
  /// Exponent and fraction all ones, without padding.
  [[nodiscard]] constexpr std::uint64_t all_ones() const noexcept { return (std::uint64_t{1} << (exponent_bits + fraction_bits)) - 1; }
  /// The largest finite magnitude, without padding.
  [[nodiscard]] constexpr std::uint64_t largest() const noexcept {
    return specials == case_specials::ieee ? all_ones() - hidden_bit() : all_ones() - (specials == case_specials::nan_all_ones ? 1 : 0);
  }
  /// ± magnitude, where magnitude has no padding.
  [[nodiscard]] constexpr std::uint64_t code(bool negative, std::uint64_t magnitude) const noexcept {
    return magnitude << padding_bits | (negative ? sign() : 0);
  }
  /// Infinity; where there is none, the largest number.
  [[nodiscard]] constexpr std::uint64_t infinity(bool negative) const noexcept {
    return code(negative, specials == case_specials::ieee ? largest() + 1 : largest());
  }
  /// ± 1.fraction · 2^e, cut where it is subnormal; beyond the range, the nearest number that is not zero.
  [[nodiscard]] constexpr std::uint64_t number(bool negative, int e, std::uint64_t fraction) const noexcept {
    if (e > e_max()) return code(negative, largest());
    if (e >= e_min()) return code(negative, std::min(largest(), std::uint64_t(e + bias()) << fraction_bits | (fraction & (hidden_bit() - 1))));
    if (e < e_lowest()) return code(negative, 1);
    return code(negative, (hidden_bit() | (fraction & (hidden_bit() - 1))) >> (e_min() - e));
  }
  [[nodiscard]] constexpr std::uint64_t magnitude_of(std::uint64_t bits) const noexcept { return (bits & (sign() - 1)) >> padding_bits; }
  [[nodiscard]] constexpr bool is_finite(std::uint64_t bits) const noexcept { return magnitude_of(bits) <= largest(); }
  [[nodiscard]] constexpr bool is_zero(std::uint64_t bits) const noexcept { return magnitude_of(bits) == 0; }
  [[nodiscard]] constexpr bool is_negative(std::uint64_t bits) const noexcept { return (bits & sign()) != 0; }
  /// Exponent of a number's leading bit, also of a subnormal's.  @pre finite, not zero
  [[nodiscard]] constexpr int exponent_of(std::uint64_t bits) const noexcept {
    const std::uint64_t magnitude = magnitude_of(bits);
    if (magnitude >= hidden_bit()) return int(magnitude >> fraction_bits) - bias();
    int e = e_lowest();
    for (std::uint64_t left = magnitude; left > 1; left >>= 1) ++e;
    return e;
  }
};

inline constexpr case_format bf16_format{8, 7}, f16_format{5, 10}, tf32_format{8, 10, 13}, f32_format{8, 23}, f64_format{11, 52},
    e5m2_format{5, 2}, e4m3_format{4, 3, 0, case_specials::nan_all_ones}, e2m1_format{2, 1, 0, case_specials::none},
    e2m3_format{2, 3, 0, case_specials::none}, e3m2_format{3, 2, 0, case_specials::none};

/// FP16 to FP32, exactly; a NaN keeps its payload in the upper fraction bits.
[[nodiscard]] constexpr std::uint64_t widen_f16(std::uint64_t half) noexcept {
  constexpr case_format f16 = f16_format, f32 = f32_format;  // of this function: nvcc drops device code that names an object outside, without a warning
  const bool negative = f16.is_negative(half);
  const std::uint64_t magnitude = f16.magnitude_of(half);
  if (!f16.is_finite(half)) return f32.code(negative, std::uint64_t{0xff} << 23 | (magnitude & 0x3ff) << 13);
  if (magnitude == 0) return f32.code(negative, 0);
  const int e = f16.exponent_of(half);
  const std::uint64_t fraction = e >= f16.e_min() ? magnitude & 0x3ff : magnitude << (f16.e_min() - e) & 0x3ff;
  return f32.number(negative, e, fraction << 13);
}

}  // namespace stickybit::gpu
