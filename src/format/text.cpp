#include "stickybit/format/text.hpp"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <charconv>
#include <cmath>

#include "stickybit/format/decode.hpp"
#include "stickybit/format/value.hpp"

namespace stickybit {
namespace {

/// "inf", "-inf" or "nan", and "" for a number.
template <format F>
std::string special_word(code<F> c) {
  if (c.is_nan()) return "nan";
  if (c.is_infinite()) return c.negative() ? "-inf" : "inf";
  return {};
}

template <class... Format>
std::string written(double value, Format... format) {
  std::array<char, 256> text{};  // -0. and at most 149 digits, or 39 digits: FP32's
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value, format...).ptr;
  return {text.data(), end};
}

}  // namespace

template <format F>
std::string hex_code(code<F> c) {
  return fmt::format("0x{:0{}X}", c.to_bits(), (traits_of(F).width_bits + 3) / 4);
}

template <format F>
std::string fields(code<F> c) {
  constexpr format_traits t = traits_of(F);
  const std::uint32_t magnitude = c.magnitude(), fraction = magnitude & ((std::uint32_t{1} << t.fraction_bits()) - 1);
  std::string text = t.is_signed ? ((c.to_bits() & code<F>::sign_bit) != 0 ? "1 " : "0 ") : "";
  text += fmt::format("{:0{}b}", magnitude >> t.fraction_bits(), t.exponent_bits);
  return t.fraction_bits() == 0 ? text : text + fmt::format(" {:0{}b}", fraction, t.fraction_bits());
}

template <format F>
std::string decimal(code<F> c) {
  const std::string special = special_word(c);
  return special.empty() ? fmt::format("{}", to_double(c)) : special;
}

template <format F>
std::string exact_decimal(code<F> c) {
  if (const std::string special = special_word(c); !special.empty()) return special;
  // An odd number of units of 2^-q has q digits after the point.
  const decoded d = decode(c);
  const int lowest_bit = d.significand == 0 ? 0 : d.e - traits_of(F).fraction_bits() + std::countr_zero(d.significand);
  return written(to_double(c), std::chars_format::fixed, lowest_bit < 0 ? -lowest_bit : 0);
}

template <format F>
std::string hex_float(code<F> c) {
  if (const std::string special = special_word(c); !special.empty()) return special;
  const std::string sign = c.negative() ? "-" : "";
  return sign + "0x" + written(std::fabs(to_double(c)), std::chars_format::hex);
}

template <format F>
std::string binary(code<F> c) {
  const decoded d = decode(c);
  const char* sign = d.negative ? "-" : "";
  switch (d.kind) {
    case number_class::nan: return "NaN";
    case number_class::infinite: return fmt::format("{}inf", sign);
    case number_class::zero: return fmt::format("{}0", sign);
    default: break;
  }
  constexpr int fraction_bits = traits_of(F).fraction_bits();
  if constexpr (fraction_bits == 0) return fmt::format("1 × 2^{}", d.e);
  return fmt::format("{}{}.{:0{}b} × 2^{}", sign, d.significand >> fraction_bits, d.significand & ((std::uint32_t{1} << fraction_bits) - 1), fraction_bits, d.e);
}

template std::string hex_code(bf16_code);
template std::string hex_code(f32_code);
template std::string hex_code(f16_code);
template std::string hex_code(tf32_code);
template std::string hex_code(e4m3fn_code);
template std::string hex_code(e5m2_code);
template std::string hex_code(e4m3fnuz_code);
template std::string hex_code(e5m2fnuz_code);
template std::string hex_code(e8m0_code);
template std::string hex_code(e2m1_code);
template std::string hex_code(e3m2_code);
template std::string hex_code(e2m3_code);
template std::string fields(bf16_code);
template std::string fields(f32_code);
template std::string fields(f16_code);
template std::string fields(tf32_code);
template std::string fields(e4m3fn_code);
template std::string fields(e5m2_code);
template std::string fields(e4m3fnuz_code);
template std::string fields(e5m2fnuz_code);
template std::string fields(e8m0_code);
template std::string fields(e2m1_code);
template std::string fields(e3m2_code);
template std::string fields(e2m3_code);
template std::string decimal(bf16_code);
template std::string decimal(f32_code);
template std::string decimal(f16_code);
template std::string decimal(tf32_code);
template std::string decimal(e4m3fn_code);
template std::string decimal(e5m2_code);
template std::string decimal(e4m3fnuz_code);
template std::string decimal(e5m2fnuz_code);
template std::string decimal(e8m0_code);
template std::string decimal(e2m1_code);
template std::string decimal(e3m2_code);
template std::string decimal(e2m3_code);
template std::string exact_decimal(bf16_code);
template std::string exact_decimal(f32_code);
template std::string exact_decimal(f16_code);
template std::string exact_decimal(tf32_code);
template std::string exact_decimal(e4m3fn_code);
template std::string exact_decimal(e5m2_code);
template std::string exact_decimal(e4m3fnuz_code);
template std::string exact_decimal(e5m2fnuz_code);
template std::string exact_decimal(e8m0_code);
template std::string exact_decimal(e2m1_code);
template std::string exact_decimal(e3m2_code);
template std::string exact_decimal(e2m3_code);
template std::string hex_float(bf16_code);
template std::string hex_float(f32_code);
template std::string hex_float(f16_code);
template std::string hex_float(tf32_code);
template std::string hex_float(e4m3fn_code);
template std::string hex_float(e5m2_code);
template std::string hex_float(e4m3fnuz_code);
template std::string hex_float(e5m2fnuz_code);
template std::string hex_float(e8m0_code);
template std::string hex_float(e2m1_code);
template std::string hex_float(e3m2_code);
template std::string hex_float(e2m3_code);
template std::string binary(bf16_code);
template std::string binary(f32_code);
template std::string binary(f16_code);
template std::string binary(tf32_code);
template std::string binary(e4m3fn_code);
template std::string binary(e5m2_code);
template std::string binary(e4m3fnuz_code);
template std::string binary(e5m2fnuz_code);
template std::string binary(e8m0_code);
template std::string binary(e2m1_code);
template std::string binary(e3m2_code);
template std::string binary(e2m3_code);

}  // namespace stickybit
