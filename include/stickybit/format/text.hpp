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

/// The shortest decimal that reads back as the same value ("-4.71875", "inf", "nan").
template <format F>
[[nodiscard]] std::string decimal(code<F> c);

/// "-1.0010111 × 2^2": the significand in binary, as on paper; "0", "inf", "NaN" as such.
template <format F>
[[nodiscard]] std::string binary(code<F> c);

/// Reads an FP32 operand: decimal (-2.40625, rounded to nearest even if it must be), hex code (0x3f800000) or hex float
/// (0x1.8p+1). Also inf, nan.
/// @throws parse_error naming the text
[[nodiscard]] f32_code parse_f32(std::string_view text);

/// Reads a BF16 operand: a code of four hex digits (0x3f80), or a number that BF16 holds exactly.
/// @throws parse_error naming the text, and for an inexact number its two BF16 neighbours
[[nodiscard]] bf16_code parse_bf16(std::string_view text);

}  // namespace stickybit
