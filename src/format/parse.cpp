#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

#include "stickybit/format/text.hpp"
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

/// "FP32", "BF16": as people write it.
std::string spoken_name(format f) {
  std::string name(traits_of(f).name);
  if (name[0] == 'f') name.insert(1, 1, 'p');
  std::transform(name.begin(), name.end(), name.begin(), [](char c) { return c >= 'a' && c <= 'z' ? char(c - 'a' + 'A') : c; });
  return name;
}

std::string with_article(format f) {
  const std::string name = spoken_name(f);
  return (name[0] == 'E' || name[0] == 'F' ? "an " : "a ") + name;
}

template <format F>
std::string code_and_value(code<F> c) {
  return fmt::format("{} ({})", hex_code(c), decimal(c));
}

/// Infinity and NaN as F has them.
template <format F>
code<F> read_special(std::string_view text, double number) {
  constexpr format_traits t = traits_of(F);
  if (std::isnan(number)) {
    if constexpr (t.has_nan()) return code<F>::nan();
    throw parse_error(fmt::format("'{}': {} has no NaN", text, spoken_name(F)));
  }
  if constexpr (t.has_infinity()) return code<F>::infinity(number < 0);
  throw parse_error(fmt::format("'{}': {} has no infinity, its largest number is {}", text, spoken_name(F), code_and_value(code<F>::largest(t.is_signed && number < 0))));
}

/// The code of a finite number that F holds.  @throws parse_error with the two neighbours
template <format F>
code<F> read_exact(std::string_view text, double number) {
  constexpr format_traits t = traits_of(F);
  const bool negative = std::signbit(number);
  const double magnitude = std::fabs(number);
  const std::string not_held = fmt::format("'{}' is not {} number", text, with_article(F));
  if ((!t.is_signed && negative) || (!t.has_zero && magnitude < to_double(code<F>::from_magnitude(0))))
    throw parse_error(fmt::format("{}; the smallest is {}", not_held, code_and_value(code<F>::from_magnitude(0))));
  // The last magnitude that is not above: codes are in the order of their values.
  std::uint32_t lower = 0, end = t.largest_magnitude() + 1;
  while (end - lower > 1) {
    const std::uint32_t middle = lower + (end - lower) / 2;
    (to_double(code<F>::from_magnitude(middle)) <= magnitude ? lower : end) = middle;
  }
  const code<F> found = code<F>::from_magnitude(lower, negative);
  if (std::fabs(to_double(found)) == magnitude) return found;
  if (end > t.largest_magnitude()) {
    if constexpr (t.has_infinity()) throw parse_error(fmt::format("{}; its neighbours are {} and {}", not_held, code_and_value(found), code_and_value(code<F>::infinity(negative))));
    else throw parse_error(fmt::format("{}; the largest is {}", not_held, code_and_value(found)));
  }
  throw parse_error(fmt::format("{}; its neighbours are {} and {}", not_held, code_and_value(found), code_and_value(code<F>::from_magnitude(end, negative))));
}

template <format F>
code<F> parse_narrow(std::string_view text) {
  constexpr std::size_t digits = (std::size_t(traits_of(F).width_bits) + 3) / 4;
  std::uint32_t bits = 0;
  if (text.size() == 2 + digits && read_code(text, bits)) return code<F>::from_bits(typename code<F>::bits_type(bits));
  const bool is_f32_code = text.size() == 10 && read_code(text, bits);
  if (!is_f32_code && is_prefixed_hex(text) && !has_exponent_or_point(text))
    throw parse_error(fmt::format("'{}': {} code has {} hex digit{}, an FP32 code eight", text, with_article(F), digits, digits == 1 ? "" : "s"));
  const auto number = is_f32_code ? std::optional<double>(to_double(f32_code::from_bits(bits))) : read_number<double>(text);
  if (!number) throw parse_error(fmt::format("'{}' is not a number: expected a decimal (-2.40625), a code ({}) or a hex float (0x1.8p+1)", text, hex_code(code<F>::from_magnitude(1))));
  return std::isfinite(*number) ? read_exact<F>(text, *number) : read_special<F>(text, *number);
}

}  // namespace

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

template <format F>
code<F> parse(std::string_view text) {
  if constexpr (F == format::f32) return parse_f32(text);
  else return parse_narrow<F>(text);
}

template f16_code parse<format::f16>(std::string_view);
template tf32_code parse<format::tf32>(std::string_view);
template e4m3fn_code parse<format::e4m3fn>(std::string_view);
template e5m2_code parse<format::e5m2>(std::string_view);
template e4m3fnuz_code parse<format::e4m3fnuz>(std::string_view);
template e5m2fnuz_code parse<format::e5m2fnuz>(std::string_view);
template e8m0_code parse<format::e8m0>(std::string_view);
template e2m1_code parse<format::e2m1>(std::string_view);
template e3m2_code parse<format::e3m2>(std::string_view);
template e2m3_code parse<format::e2m3>(std::string_view);
template bf16_code parse<format::bf16>(std::string_view);
template f32_code parse<format::f32>(std::string_view);

bf16_code parse_bf16(std::string_view text) { return parse<format::bf16>(text); }

}  // namespace stickybit
