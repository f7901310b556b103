#include "words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "stickybit/format/with_format.hpp"

namespace stickybit::detail {
namespace {

bool is_bit_set(std::uint64_t value, int bit) { return bit < 64 && (value >> bit & 1) != 0; }

/// Kept bits with a point after the leading one of a normal number.
std::string kept_bits(rounded const& e) {
  const std::uint64_t kept = e.drop < 64 ? e.significand >> e.drop : 0;
  const std::string bits = bits_of(kept, traits_of(e.target).precision());
  return bits.size() == 1 ? bits : fmt::format("{}.{}", bits.substr(0, 1), bits.substr(1));
}

double quantum_of(rounded const& e) { return std::ldexp(1.0, e.exponent + std::max(e.drop, 0)); }

std::string direction(rounded const& e) {
  const bool up = e.grew != e.negative;
  return fmt::format("{} ({})", e.grew ? "away from zero" : "toward zero", up ? "up, to the larger number" : "down, to the smaller number");
}

std::string nearest_text(rounded const& e) {
  switch (e.cut) {
    case tail::half:
      if (e.rule.mode == rounding::nearest_away) return "exactly half, a tie: nearest_away grows by one ulp";
      return e.lsb ? "exactly half, a tie; the last kept bit is 1, odd: grows to the even neighbour"
                   : "exactly half, a tie; the last kept bit is 0, already even: stays";
    case tail::below_half: return "less than half: stays";
    case tail::above_half: return "more than half: grows by one ulp";
    case tail::zero: break;
  }
  return "exact";
}

/// Overflow, flush and tiny results in words; empty for an ordinary rounding.
std::string range_text(rounded const& e) {
  const std::string_view name = traits_of(e.target).name;
  if (e.raised.overflow) {
    const std::string result = decimal_of(e.target, e.bits);
    const bool inside = result != "inf" && result != "-inf" && result != "nan";
    return fmt::format("beyond the largest finite number of {}: {}{}", name, inside ? "stops there, at " : "becomes ", result);
  }
  if (e.raised.invalid) return fmt::format("{} has no such number: NaN", name);
  if (e.flushed) return "the result is subnormal and is flushed to the zero of its sign (.ftz)";
  const int e_min = traits_of(e.target).e_min();
  if (e.significand != 0 && e.exponent + bit_width_of(e.significand) - 1 < e_min)
    return fmt::format("below the normal numbers of {}: the last bit that counts stands for 2^{}, whatever the size", name, e_min - traits_of(e.target).fraction_bits());
  return {};
}

}  // namespace

std::string ink::in(std::string_view how, std::string_view text) const {
  return on_ && !text.empty() ? fmt::format("\x1b[{}m{}\x1b[0m", how, text) : std::string(text);
}

std::string wrapped(std::string_view text, std::size_t width) {
  std::string lines;
  std::size_t column = 0;
  while (!text.empty()) {
    const std::size_t blank = text.find(' ');
    const std::string_view word = text.substr(0, blank);
    std::size_t size = 0;
    bool escape = false;
    for (char c : word) {
      if (c == '\x1b') escape = true;
      else if (escape) escape = c != 'm';
      else size += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
    }
    if (column != 0 && column + 1 + size > width) lines += '\n', column = 0;
    if (column != 0) lines += ' ', ++column;
    lines += word;
    column += size;
    text.remove_prefix(blank == text.npos ? text.size() : blank + 1);
  }
  return lines + "\n";
}

std::string indented(std::string_view lines, std::string_view indent) {
  std::string text;
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find('\n'), lines.size() - 1) + 1;
    text += fmt::format("{}{}", indent, lines.substr(0, end));
    lines.remove_prefix(end);
  }
  return text;
}

std::string bits_of(std::uint64_t value, int width) {
  std::string bits(std::size_t(width), '0');
  for (int i = 0; i < width && i < 64; ++i)
    if ((value >> i & 1) != 0) bits[std::size_t(width - 1 - i)] = '1';
  return bits;
}

std::string cut_bits(std::uint64_t significand, int drop) {
  const int stored = std::min(drop, 64);
  std::string bits = std::string(std::size_t(std::max(0, drop - 64)), '0') + bits_of(significand, stored);
  const std::size_t last = bits.find_last_of('1');
  bits.resize(last == bits.npos ? 1 : std::max<std::size_t>(last + 1, 1));
  if (bits.size() > 48) bits = fmt::format("{}…{}", bits.substr(0, 24), bits.substr(bits.size() - 8));
  return bits;
}

template <format F>
std::string describe(code<F> c) {
  return describe(F, c.to_bits());
}
template std::string describe(bf16_code);
template std::string describe(f32_code);

std::string hex_of(format f, std::uint32_t bits) {
  return with_format(f, [&]<format F>() { return hex_code(code_from<F>(bits)); });
}
std::string binary_of(format f, std::uint32_t bits) {
  return with_format(f, [&]<format F>() { return binary(code_from<F>(bits)); });
}
std::string decimal_of(format f, std::uint32_t bits) {
  return with_format(f, [&]<format F>() { return decimal(code_from<F>(bits)); });
}
std::string describe(format f, std::uint32_t bits) {
  const bool plain = with_format(f, [&]<format F>() { return !code_from<F>(bits).is_finite() || code_from<F>(bits).is_zero(); });
  return plain ? fmt::format("{}  {}", hex_of(f, bits), decimal_of(f, bits)) : fmt::format("{}  {} = {}", hex_of(f, bits), binary_of(f, bits), decimal_of(f, bits));
}

double error_of(rounded const& e) {
  if (e.drop <= 0 || e.cut == tail::zero) return 0;
  const std::uint64_t cut = e.drop >= 64 ? e.significand : e.significand & ((std::uint64_t{1} << e.drop) - 1);
  // The magnitude moves by −cut, or by 2^drop − cut.
  const double magnitude = std::ldexp(e.grew ? std::ldexp(1.0, e.drop) - double(cut) : -double(cut), e.exponent);
  return e.negative ? -magnitude : magnitude;
}

double error_in_ulp(rounded const& e) { return error_of(e) / quantum_of(e); }

std::string signed_ulps(double ulps) {
  if (ulps == 0) return "0";
  if (!std::isfinite(ulps)) return "?";
  // Next to a half the fourth digit would make a tie of what is none.
  const double halves = std::fabs(ulps) * 2;
  return std::fabs(halves - 1) < 1e-3 && halves != 1 ? fmt::format("{:+.12g}", ulps) : fmt::format("{:+.4g}", ulps);
}

std::string rule_text(rounded const& e) {
  if (e.cut == tail::zero) return "exact: nothing is cut";
  switch (e.rule.mode) {
    case rounding::nearest_even:
    case rounding::nearest_away: return nearest_text(e);
    case rounding::toward_zero: return "toward zero: what is cut is lost, stays";
    case rounding::toward_positive: return e.negative ? "toward +infinity, and the number is negative: what is cut is lost, stays" : "toward +infinity, and something is cut: grows by one ulp";
    case rounding::toward_negative: return e.negative ? "toward -infinity, and something is cut: grows by one ulp" : "toward -infinity, and the number is positive: what is cut is lost, stays";
    case rounding::to_odd: return e.lsb ? "to odd: the last kept bit is 1, odd already: stays" : "to odd: something is cut and the last kept bit is 0: it becomes 1";
    case rounding::stochastic: return e.grew ? "stochastic: the random bits added to what is cut carry: grows by one ulp" : "stochastic: the random bits added to what is cut do not carry: stays";
  }
  return {};
}

std::vector<std::string> rounding_lines(rounded const& e, ink const& pen) {
  const std::string range = range_text(e);
  std::vector<std::string> lines;
  if (e.cut == tail::zero) lines.push_back(e.raised.overflow || e.raised.invalid || e.flushed ? range : "exact: nothing is cut");
  if (e.cut != tail::zero) {
    const int scale = e.exponent + e.drop + traits_of(e.target).fraction_bits();  // exponent of the bit before the point
    lines.push_back(fmt::format("kept {} | cut {}   × 2^{}", pen.kept(fmt::format("{}{}", e.negative ? "-" : "", kept_bits(e))), pen.cut(cut_bits(e.significand, e.drop)), scale));
    const bool round_bit = is_bit_set(e.significand, e.drop - 1);
    const bool sticky = e.cut == tail::above_half || (e.cut == tail::below_half && !round_bit);
    lines.push_back(fmt::format("round bit {}, sticky bit {}: {}", round_bit ? 1 : 0, sticky ? 1 : 0, rule_text(e)));
    const double error = error_of(e);
    if (!e.flushed && !e.raised.overflow) lines.push_back(fmt::format("{}; own error {}", direction(e), pen.error(error, fmt::format("{} ({} ulp)", error, signed_ulps(error_in_ulp(e))))));
    if (!range.empty()) lines.push_back(range);
  }
  return lines;
}

std::string describe(rounded const& e, std::string_view indent) {
  std::string text;
  for (std::string const& line : rounding_lines(e, ink(text_style::plain))) text += fmt::format("{}{}\n", indent, line);
  return text;
}

}  // namespace stickybit::detail
