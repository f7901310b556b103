#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace stickybit {

/// The floating-point formats. Everything about one is its line in traits_of(). FP64 is named by units only: there is no code<f64>.
enum class format : std::uint8_t { bf16, f32, f16, tf32, e4m3fn, e5m2, e4m3fnuz, e5m2fnuz, e8m0, e2m1, e3m2, e2m3, f64 };

inline constexpr std::array all_formats{format::bf16, format::f32,      format::f16,      format::tf32, format::e4m3fn,
                                        format::e5m2, format::e4m3fnuz, format::e5m2fnuz, format::e8m0, format::e2m1,
                                        format::e3m2, format::e2m3};

/// Which codes are no finite numbers.
enum class special_codes : std::uint8_t {
  ieee,               ///< the top biased exponent: fraction 0 is infinity, any other NaN
  nan_all_ones,       ///< every bit but the sign set is NaN; no infinity
  nan_negative_zero,  ///< the code of −0 is NaN; no infinity, no −0
  none,               ///< every code is a number
};

/// One binary format: sign, biased exponent, fraction, padding. The biased exponent 0 holds zero and the subnormals, where
/// the format has them.
/// @source IEEE 754-2019 §3.4; BF16 is the upper half of FP32, TF32 FP32 without its low 13 fraction bits (PTX ISA "Alternate
///   floating-point data formats"); E4M3FN, E5M2: OCP 8-bit Floating Point Specification 1.0 §5; FNUZ: ml_dtypes 0.6.0
///   README, Noune et al. arXiv:2206.02915; E8M0, E3M2, E2M3, E2M1: OCP Microscaling Formats Specification 1.0 §5.3
struct format_traits {
  std::string_view name;
  int width_bits;     ///< of the number; storage is the next of 8, 16, 32 bits, and what is above the width is 0
  int exponent_bits;
  int padding_bits = 0;  ///< low bits of the code that are always 0
  bool is_signed = true;
  bool has_zero = true;  ///< without zero, no subnormals either
  special_codes special = special_codes::ieee;

  /// p: the hidden bit counts.
  [[nodiscard]] constexpr int precision() const noexcept { return width_bits - exponent_bits - padding_bits + (is_signed ? 0 : 1); }
  [[nodiscard]] constexpr int fraction_bits() const noexcept { return precision() - 1; }
  [[nodiscard]] constexpr int bias() const noexcept { return (1 << (exponent_bits - 1)) - (special == special_codes::nan_negative_zero ? 0 : 1); }
  /// Exponents of the largest and the smallest normal number.
  [[nodiscard]] constexpr int e_max() const noexcept { return int(largest_magnitude() >> fraction_bits()) - bias(); }
  [[nodiscard]] constexpr int e_min() const noexcept { return (has_zero ? 1 : 0) - bias(); }

  [[nodiscard]] constexpr bool has_infinity() const noexcept { return special == special_codes::ieee; }
  [[nodiscard]] constexpr bool has_nan() const noexcept { return special != special_codes::none; }
  [[nodiscard]] constexpr bool has_negative_zero() const noexcept { return is_signed && has_zero && special != special_codes::nan_negative_zero; }
  [[nodiscard]] constexpr bool has_subnormals() const noexcept { return has_zero; }

  /// The code of the largest finite number without sign and padding. Magnitudes are in the order of their values: the
  /// finite ones are 0 to this.
  [[nodiscard]] constexpr std::uint32_t largest_magnitude() const noexcept {
    const std::uint32_t fields = (std::uint32_t{1} << (exponent_bits + fraction_bits())) - 1;
    switch (special) {
      case special_codes::ieee: return fields - (std::uint32_t{1} << fraction_bits());
      case special_codes::nan_all_ones: return fields - 1;
      case special_codes::nan_negative_zero:
      case special_codes::none: return fields;
    }
    return fields;
  }
};

/// Names carry their length: nvcc 13.0 drops, without a warning, device code behind a run-time call that measures a literal.
[[nodiscard]] constexpr format_traits traits_of(format f) noexcept {
  using enum special_codes;
  switch (f) {
    case format::bf16: return {.name{"bf16", 4}, .width_bits = 16, .exponent_bits = 8};
    case format::f32: return {.name{"f32", 3}, .width_bits = 32, .exponent_bits = 8};
    case format::f16: return {.name{"f16", 3}, .width_bits = 16, .exponent_bits = 5};
    case format::tf32: return {.name{"tf32", 4}, .width_bits = 32, .exponent_bits = 8, .padding_bits = 13};
    case format::e4m3fn: return {.name{"e4m3fn", 6}, .width_bits = 8, .exponent_bits = 4, .special = nan_all_ones};
    case format::e5m2: return {.name{"e5m2", 4}, .width_bits = 8, .exponent_bits = 5};
    case format::e4m3fnuz: return {.name{"e4m3fnuz", 8}, .width_bits = 8, .exponent_bits = 4, .special = nan_negative_zero};
    case format::e5m2fnuz: return {.name{"e5m2fnuz", 8}, .width_bits = 8, .exponent_bits = 5, .special = nan_negative_zero};
    case format::e8m0: return {.name{"e8m0", 4}, .width_bits = 8, .exponent_bits = 8, .is_signed = false, .has_zero = false, .special = nan_all_ones};
    case format::e2m1: return {.name{"e2m1", 4}, .width_bits = 4, .exponent_bits = 2, .special = none};
    case format::e3m2: return {.name{"e3m2", 4}, .width_bits = 6, .exponent_bits = 3, .special = none};
    case format::e2m3: return {.name{"e2m3", 4}, .width_bits = 6, .exponent_bits = 2, .special = none};
    case format::f64: return {.name{"f64", 3}, .width_bits = 64, .exponent_bits = 11};
  }
  return {};
}

}  // namespace stickybit
