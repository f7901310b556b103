#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace stickybit {

/// The floating-point formats. Everything about one is its line in traits_of().
enum class format : std::uint8_t { bf16, f32 };

inline constexpr std::array all_formats{format::bf16, format::f32};

/// One binary format: sign, biased exponent, fraction. The top biased exponent holds infinity and NaN; 0 holds zero and
/// the subnormals.  @source IEEE 754-2019 §3.4; BF16 is the upper half of FP32
struct format_traits {
  std::string_view name;
  int width_bits;
  int exponent_bits;

  /// p: the hidden bit counts.
  [[nodiscard]] constexpr int precision() const noexcept { return width_bits - exponent_bits; }
  [[nodiscard]] constexpr int fraction_bits() const noexcept { return precision() - 1; }
  [[nodiscard]] constexpr int bias() const noexcept { return (1 << (exponent_bits - 1)) - 1; }
  /// Exponents of the largest and the smallest normal number.
  [[nodiscard]] constexpr int e_max() const noexcept { return bias(); }
  [[nodiscard]] constexpr int e_min() const noexcept { return 1 - bias(); }
};

/// Names carry their length: nvcc 13.0 drops, without a warning, device code behind a run-time call that measures a literal.
[[nodiscard]] constexpr format_traits traits_of(format f) noexcept {
  switch (f) {
    case format::bf16: return {.name{"bf16", 4}, .width_bits = 16, .exponent_bits = 8};
    case format::f32: return {.name{"f32", 3}, .width_bits = 32, .exponent_bits = 8};
  }
  return {};
}

}  // namespace stickybit
