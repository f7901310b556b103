#pragma once
#include <stdexcept>
#include <string>
#include <string_view>

#include "stickybit/format/code.hpp"

namespace stickybit {

/// A number that a person wrote cannot be read.
class parse_error : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

/// "0xC097": the code, as wide as the format.
template <format F>
[[nodiscard]] std::string hex_code(code<F> c);

/// "1 10000001 0010111": sign, biased exponent and fraction in binary, those that the format has, without padding.
template <format F>
[[nodiscard]] std::string fields(code<F> c);

/// The shortest decimal that reads back as the same value ("-4.71875", "inf", "nan").
template <format F>
[[nodiscard]] std::string decimal(code<F> c);

/// Every decimal digit of the value, without an exponent (2^-24 is "0.000000059604644775390625").
template <format F>
[[nodiscard]] std::string exact_decimal(code<F> c);

/// The value as a hex float whose first digit is 1 ("-0x1.2ep+2"); "0x0p+0", "inf", "nan" as such.
template <format F>
[[nodiscard]] std::string hex_float(code<F> c);

/// "-1.0010111 × 2^2": the significand in binary, as on paper; "0", "inf", "NaN" as such.
template <format F>
[[nodiscard]] std::string binary(code<F> c);

/// Reads an FP32 operand: decimal (-2.40625, rounded to nearest even if it must be), hex code (0x3f800000) or hex float
/// (0x1.8p+1). Also inf, nan.
/// @throws parse_error naming the text
[[nodiscard]] f32_code parse_f32(std::string_view text);

/// Reads an operand of F: a code of as many hex digits as F has (BF16 0x3f80, E2M1 0x7), an FP32 code of eight, or a number
/// that F holds exactly, infinity and NaN where F has them. Digits beyond the 53 bits of a double are not seen. A TF32 code loses its low 13
/// bits, as in a tensor core. parse<format::f32> is parse_f32.
/// @throws parse_error naming the text, and for an inexact number its two neighbours in F
template <format F>
[[nodiscard]] code<F> parse(std::string_view text);

[[nodiscard]] bf16_code parse_bf16(std::string_view text);

}  // namespace stickybit
