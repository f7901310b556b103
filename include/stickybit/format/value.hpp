#pragma once
#include <bit>
#include <cstdint>
#include <limits>

#include "stickybit/format/code.hpp"
#include "stickybit/format/decode.hpp"

namespace stickybit {

/// 2^e as a double, −1022 ≤ e ≤ 1023, exact.
[[nodiscard]] constexpr double pow2(int e) noexcept { return std::bit_cast<double>(std::uint64_t(e + 1023) << 52); }

/// The value as a double, exact for every code of every format here; NaN gives NaN.
[[nodiscard]] constexpr double to_double(f32_code c) noexcept { return double{std::bit_cast<float>(c.to_bits())}; }
[[nodiscard]] constexpr double to_double(bf16_code c) noexcept { return to_double(widen(c)); }
template <format F>
[[nodiscard]] constexpr double to_double(code<F> c) noexcept {
  const decoded d = decode(c);
  if (d.kind == number_class::nan) return std::numeric_limits<double>::quiet_NaN();
  const double magnitude = d.kind == number_class::infinite ? std::numeric_limits<double>::infinity()
                                                            : double(d.significand) * pow2(d.e - traits_of(F).fraction_bits());
  return d.negative ? -magnitude : magnitude;
}

/// The code of a host float: its bits, nothing rounded.
[[nodiscard]] constexpr f32_code code_of(float x) noexcept { return f32_code::from_bits(std::bit_cast<std::uint32_t>(x)); }
[[nodiscard]] constexpr float to_float(f32_code c) noexcept { return std::bit_cast<float>(c.to_bits()); }

/// Weight of the last bit of F's number with exponent that of x: 2^(max(e, e_min) − p + 1). x finite; 0 has that of the smallest
/// subnormal (E8M0, of 2^-127).
template <format F>
[[nodiscard]] constexpr double ulp_at(double x) noexcept {
  constexpr format_traits t = traits_of(F);
  const int biased_e = int((std::bit_cast<std::uint64_t>(x) >> 52) & 0x7ff);
  const int e = biased_e - 1023 < t.e_min() ? t.e_min() : biased_e - 1023;
  return pow2(e - t.fraction_bits());
}

}  // namespace stickybit
