#include "words.hpp"

#include <fmt/format.h>

#include <bit>
#include <cmath>

namespace stickybit::detail {
namespace {

std::string bits_of(std::uint64_t value, int width) {
  std::string bits(std::size_t(width), '0');
  for (int i = 0; i < width; ++i)
    if ((value >> i & 1) != 0) bits[std::size_t(width - 1 - i)] = '1';
  return bits;
}

/// The cut bits with trailing zeros removed, shortened in the middle when there are too many to look at.
std::string cut_bits(std::uint64_t significand, int drop) {
  const int stored = std::min(drop, 64);
  std::string bits = std::string(std::size_t(std::max(0, drop - 64)), '0') + bits_of(significand, stored);
  const std::size_t last = bits.find_last_of('1');
  bits.resize(last == bits.npos ? 1 : std::max<std::size_t>(last + 1, 1));
  if (bits.size() > 48) bits = fmt::format("{}…{}", bits.substr(0, 24), bits.substr(bits.size() - 8));
  return bits;
}

bool is_bit_set(std::uint64_t value, int bit) { return bit < 64 && (value >> bit & 1) != 0; }

/// Kept bits with a point after the leading one of a normal number.
std::string kept_bits(rounded const& e) {
  const std::uint64_t kept = e.drop < 64 ? e.significand >> e.drop : 0;
  const int precision = traits_of(e.target).precision();
  const std::string bits = bits_of(kept, precision);
  return fmt::format("{}.{}", bits.substr(0, 1), bits.substr(1));
}

double quantum_of(rounded const& e) { return std::ldexp(1.0, e.exponent + std::max(e.drop, 0)); }

std::string direction(rounded const& e) {
  if (e.cut == tail::zero) return "nothing to round";
  const bool up = e.grew != e.negative;
  return fmt::format("{} ({})", e.grew ? "away from zero" : "toward zero", up ? "up, to the larger number" : "down, to the smaller number");
}

std::string rule_text(rounded const& e) {
  if (e.rule.mode == rounding::toward_zero) return "toward zero: what is cut is lost";
  switch (e.cut) {
    case tail::half: return fmt::format("exactly half: a tie, to the even neighbour; the last kept bit is {}", e.lsb ? 1 : 0);
    case tail::below_half: return "less than half: stays";
    case tail::above_half: return "more than half: grows by one";
    case tail::zero: break;
  }
  return "exact";
}

}  // namespace

template <format F>
std::string describe(code<F> c) {
  if (!c.is_finite() || c.is_zero()) return fmt::format("{}  {}", hex_code(c), decimal(c));
  return fmt::format("{}  {} = {}", hex_code(c), binary(c), decimal(c));
}
template std::string describe(bf16_code);
template std::string describe(f32_code);

double error_of(rounded const& e) {
  if (e.drop <= 0 || e.cut == tail::zero) return 0;
  const std::uint64_t cut = e.drop >= 64 ? e.significand : e.significand & ((std::uint64_t{1} << e.drop) - 1);
  // The magnitude moves by −cut, or by 2^drop − cut.
  const double magnitude = std::ldexp(e.grew ? std::ldexp(1.0, e.drop) - double(cut) : -double(cut), e.exponent);
  return e.negative ? -magnitude : magnitude;
}

double error_in_ulp(rounded const& e) { return error_of(e) / quantum_of(e); }

std::string signed_ulps(double ulps) { return fmt::format("{:+.4g}", ulps); }

std::string describe(rounded const& e, std::string_view indent) {
  std::string text;
  const int scale = e.exponent + e.drop + traits_of(e.target).fraction_bits();  // exponent of the bit before the point
  if (e.cut == tail::zero) return fmt::format("{}exact: nothing is cut\n", indent);
  text += fmt::format("{}kept {}{}  cut {}  (× 2^{})\n", indent, e.negative ? "-" : "", kept_bits(e), cut_bits(e.significand, e.drop), scale);
  const bool round_bit = is_bit_set(e.significand, e.drop - 1);
  const bool sticky = e.cut == tail::above_half || (e.cut == tail::below_half && !round_bit);
  text += fmt::format("{}round bit {}, sticky bit {}: {}\n", indent, round_bit ? 1 : 0, sticky ? 1 : 0, rule_text(e));
  text += fmt::format("{}direction {}; error {} ({} ulp)\n", indent, direction(e), error_of(e), signed_ulps(error_in_ulp(e)));
  if (e.flushed) text += fmt::format("{}the result is subnormal and is flushed to zero\n", indent);
  return text;
}

}  // namespace stickybit::detail
