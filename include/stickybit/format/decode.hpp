#pragma once
#include <cstdint>
#include <string_view>

#include "stickybit/format/code.hpp"

namespace stickybit {

enum class number_class : std::uint8_t { zero, subnormal, normal, infinite, nan };

[[nodiscard]] constexpr std::string_view name_of(number_class c) noexcept {
  switch (c) {
    case number_class::zero: return "zero";
    case number_class::subnormal: return "subnormal";
    case number_class::normal: return "normal";
    case number_class::infinite: return "infinite";
    case number_class::nan: return "NaN";
  }
  return {};
}

/// A code taken apart. For zero, subnormal and normal: value = (-1)^negative · significand · 2^(e − (p−1)), and a
/// subnormal has the exponent of the smallest normal (so its significand is below 2^(p−1)). Infinity and NaN have significand 0.
struct decoded {
  number_class kind;
  bool negative;
  int e;
  std::uint32_t significand;
};

template <format F>
[[nodiscard]] constexpr decoded decode(code<F> c) noexcept {
  constexpr format_traits t = traits_of(F);
  const bool negative = c.negative();
  if (c.is_nan()) return {number_class::nan, negative, 0, 0};
  if (c.is_infinite()) return {number_class::infinite, negative, 0, 0};
  const std::uint32_t magnitude = c.magnitude();
  const std::uint32_t fraction = magnitude & ((std::uint32_t{1} << t.fraction_bits()) - 1);
  const int biased_e = int(magnitude >> t.fraction_bits());
  if (t.has_zero && biased_e == 0) return {fraction == 0 ? number_class::zero : number_class::subnormal, negative, t.e_min(), fraction};
  return {number_class::normal, negative, biased_e - t.bias(), fraction | (std::uint32_t{1} << t.fraction_bits())};
}

}  // namespace stickybit
