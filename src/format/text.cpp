#include "stickybit/format/text.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>

#include "stickybit/format/decode.hpp"
#include "stickybit/format/value.hpp"

namespace stickybit {
namespace {

/// All of `text` as a number of type T in the given base or format.
template <class T, class How>
bool read_all(std::string_view text, T& value, How how) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, how);
  return error == std::errc{} && end == text.data() + text.size();
}

bool is_prefixed_hex(std::string_view text) { return text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X'); }

bool read_code(std::string_view text, std::uint32_t& bits) {
  return is_prefixed_hex(text) && text.find_first_of("pP.") == text.npos && read_all(text.substr(2), bits, 16);
}

bool read_float(std::string_view text, float& value) {
  bool negative = false;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
    if (text.empty() || text[0] == '-' || text[0] == '+') return false;
  }
  const bool hex = is_prefixed_hex(text);
  if (hex) text.remove_prefix(2);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, hex ? std::chars_format::hex : std::chars_format::general);
  if (end != text.data() + text.size()) return false;
  if (error == std::errc::result_out_of_range) {
    // Beyond the range: from_chars leaves the value alone. In double the same text says on which side it lies.
    double wide = 0;
    const auto again = std::from_chars(text.data(), text.data() + text.size(), wide, hex ? std::chars_format::hex : std::chars_format::general);
    if (again.ec != std::errc{}) return false;
    value = static_cast<float>(wide);
  } else if (error != std::errc{}) {
    return false;
  }
  if (negative) value = -value;
  return true;
}

}  // namespace

template <format F>
std::string hex_code(code<F> c) {
  return fmt::format("0x{:0{}X}", c.to_bits(), traits_of(F).width_bits / 4);
}

template <format F>
std::string decimal(code<F> c) {
  if (c.is_nan()) return "nan";
  if (c.is_infinite()) return c.negative() ? "-inf" : "inf";
  return fmt::format("{}", to_double(c));
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
  return fmt::format("{}{}.{:0{}b} × 2^{}", sign, d.significand >> fraction_bits, d.significand & code<F>::fraction_mask, fraction_bits, d.e);
}

template std::string hex_code(bf16_code);
template std::string hex_code(f32_code);
template std::string decimal(bf16_code);
template std::string decimal(f32_code);
template std::string binary(bf16_code);
template std::string binary(f32_code);

f32_code parse_f32(std::string_view text) {
  std::uint32_t bits = 0;
  if (text.size() == 10 && read_code(text, bits)) return f32_code::from_bits(bits);
  if (is_prefixed_hex(text) && text.find_first_of("pP.") == text.npos)
    throw parse_error(fmt::format("'{}': an FP32 code has eight hex digits (0x3f800000), a hex float has an exponent (0x1.8p+1)", text));
  float value = 0;
  if (!read_float(text, value))
    throw parse_error(fmt::format("'{}' is not a number: expected a decimal (-2.40625), an FP32 code (0x3f800000) or a hex float (0x1.8p+1)", text));
  return std::isnan(value) ? f32_code::nan() : code_of(value);
}

bf16_code parse_bf16(std::string_view text) {
  std::uint32_t bits = 0;
  if (text.size() == 6 && read_code(text, bits)) return bf16_code::from_bits(std::uint16_t(bits));
  if (is_prefixed_hex(text) && text.find_first_of("pP.") == text.npos && text.size() != 10)
    throw parse_error(fmt::format("'{}': a BF16 code has four hex digits (0x3f80)", text));
  const f32_code wide = parse_f32(text);
  if (wide.is_nan()) return bf16_code::nan();
  const std::uint32_t low = wide.to_bits() & 0xffff;
  const auto below = bf16_code::from_bits(std::uint16_t(wide.to_bits() >> 16));
  if (low != 0)
    throw parse_error(fmt::format("'{}' is not a BF16 number; its neighbours are {} ({}) and {} ({})", text, hex_code(below), decimal(below),
                                  hex_code(bf16_code::from_bits(std::uint16_t(below.to_bits() + 1))),
                                  decimal(bf16_code::from_bits(std::uint16_t(below.to_bits() + 1)))));
  return below;
}

}  // namespace stickybit
