#include "stickybit/format/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

#include "stickybit/format/decode.hpp"
#include "stickybit/format/value.hpp"

namespace stickybit {
namespace {

bool is_prefixed_hex(std::string_view text) { return text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X'); }
bool has_exponent_or_point(std::string_view hex) { return hex.find_first_of("pP.") != hex.npos; }

bool read_code(std::string_view text, std::uint32_t& bits) {
  if (!is_prefixed_hex(text) || has_exponent_or_point(text)) return false;
  const auto [end, error] = std::from_chars(text.data() + 2, text.data() + text.size(), bits, 16);
  return error == std::errc{} && end == text.data() + text.size();
}

/// Exponent of a written number's first digit that is not 0: is it far above 1 or far below? Only the sign counts.
/// @pre text is what std::from_chars reads as a number: digits, perhaps a point, perhaps an exponent
std::int64_t written_exponent(std::string_view text, bool hex) {
  const std::size_t mark = text.find_first_of(hex ? "pP" : "eE");
  const std::string_view digits = text.substr(0, mark);
  const std::size_t point = std::min(digits.find('.'), digits.size()), first = digits.find_first_not_of("0.");
  std::int64_t exponent = first == digits.npos ? 0 : std::int64_t(point) - std::int64_t(first) + (first > point);
  if (hex) exponent *= 4;
  if (mark == text.npos) return exponent;
  const char* start = text.data() + mark + 1;
  const bool negative = *start == '-';
  if (*start == '-' || *start == '+') ++start;
  std::int64_t power = 0;
  if (std::from_chars(start, text.data() + text.size(), power).ec != std::errc{}) power = std::numeric_limits<std::int64_t>::max() / 2;  // more than 18 digits
  return exponent + (negative ? -power : power);
}

/// A decimal or hex float, or inf or nan, rounded once to T (float or double), to nearest even.
template <class T>
std::optional<T> read_number(std::string_view text) {
  bool negative = false;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
    if (text.empty() || text[0] == '-' || text[0] == '+') return {};
  }
  const bool hex = is_prefixed_hex(text);
  if (hex) {
    text.remove_prefix(2);
    if (text.find_first_of("pP") == text.npos) return {};
  }
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, hex ? std::chars_format::hex : std::chars_format::general);
  if (end != text.data() + text.size() || (error != std::errc{} && error != std::errc::result_out_of_range)) return {};
  // from_chars leaves the value alone where it is out of range, on whichever side.
  if (error == std::errc::result_out_of_range) value = written_exponent(text, hex) > 0 ? std::numeric_limits<T>::infinity() : T{0};
  return negative ? -value : value;
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
  if (is_prefixed_hex(text) && !has_exponent_or_point(text))
    throw parse_error(fmt::format("'{}': an FP32 code has eight hex digits (0x3f800000), a hex float has an exponent (0x1.8p+1)", text));
  const auto number = read_number<float>(text);
  if (!number)
    throw parse_error(fmt::format("'{}' is not a number: expected a decimal (-2.40625), an FP32 code (0x3f800000) or a hex float (0x1.8p+1)", text));
  return std::isnan(*number) ? f32_code::nan() : code_of(*number);
}

bf16_code parse_bf16(std::string_view text) {
  std::uint32_t bits = 0;
  if (text.size() == 6 && read_code(text, bits)) return bf16_code::from_bits(std::uint16_t(bits));
  const bool is_f32_code = text.size() == 10 && read_code(text, bits);
  if (!is_f32_code && is_prefixed_hex(text) && !has_exponent_or_point(text))
    throw parse_error(fmt::format("'{}': a BF16 code has four hex digits (0x3f80), an FP32 code eight", text));
  const auto number = is_f32_code ? std::optional<double>(to_double(f32_code::from_bits(bits))) : read_number<double>(text);
  if (!number) throw parse_error(fmt::format("'{}' is not a number: expected a decimal (-2.40625), a code (0x3f80) or a hex float (0x1.8p+1)", text));
  if (std::isnan(*number)) return bf16_code::nan();
  // The codes that enclose the magnitude: codes are in the order of their values.
  const bool negative = std::signbit(*number);
  const double magnitude = std::fabs(*number);
  std::uint16_t lower = 0, upper = 0x7f80;
  while (upper - lower > 1) {
    const auto middle = std::uint16_t((lower + upper) / 2);
    (to_double(bf16_code::from_bits(middle)) <= magnitude ? lower : upper) = middle;
  }
  const auto with_sign = [&](std::uint16_t code_bits) { return negative ? bf16_code::from_bits(code_bits).negated() : bf16_code::from_bits(code_bits); };
  for (std::uint16_t candidate : {lower, upper})
    if (to_double(bf16_code::from_bits(candidate)) == magnitude) return with_sign(candidate);
  throw parse_error(fmt::format("'{}' is not a BF16 number; its neighbours are {} ({}) and {} ({})", text, hex_code(with_sign(lower)), decimal(with_sign(lower)),
                                hex_code(with_sign(upper)), decimal(with_sign(upper))));
}

}  // namespace stickybit
