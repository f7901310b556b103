#include "function_words.hpp"

#include <fmt/format.h>

#include <cmath>
#include <variant>

#include "formula.hpp"

namespace stickybit::detail {
namespace {

/// Which function an `interpolated` came from: a MUFU step's own, or EX2 inside a larger one.
operation evaluated_by(operation op) { return op == operation::rcp || op == operation::lg2 ? op : operation::ex2; }

std::string reduction(operation op, interpolated const& e) {
  const double fraction = std::ldexp(double(e.fraction), -23);
  switch (op) {
    case operation::ex2: return fmt::format("x = n + f, f cut to 23 bits: n = {}, f = {} = 0.{}", e.exponent, number(fraction), bits_of(e.fraction, 23));
    default: return fmt::format("|x| = (1 + f)·2^e: e = {}, f = {} = 0.{}", e.exponent, number(fraction), bits_of(e.fraction, 23));
  }
}

std::vector<std::string> polynomial_lines(operation op, interpolated const& e, ink const& pen) {
  const int low_bits = op == operation::rcp ? 16 : 17;
  const std::int64_t sum = e.constant_term + e.linear_term + e.square_term + e.rounding_constant;
  const std::string square = e.c_shift == 0 ? "c·SQ(x)" : fmt::format("c·SQ(x)·2^{}", e.c_shift);
  std::vector<std::string> lines{reduction(op, e),
                                 fmt::format("segment {} of {}, from f's top {} bits: a = {}, b = {}, c = {}; x = its low {} bits = {}", e.segment, 1 << (23 - low_bits), 23 - low_bits, e.row.a, e.row.b,
                                             e.row.c, low_bits, e.x)};
  const auto term = [&](std::string_view sign, std::string_view what, std::int64_t value) { lines.push_back(fmt::format("  {} {:<18} {:>16}", sign, what, value)); };
  term(" ", fmt::format("a·2^{}", e.a_shift), e.constant_term);
  term("+", "b·x", e.linear_term);
  term("+", square, e.square_term);
  term("+", "rounding constant", e.rounding_constant);
  const std::string bits = sum < 0 ? std::string{} : bits_of(std::uint64_t(sum), std::max(bit_width_of(std::uint64_t(sum)), e.cut_bits + 1));
  const std::size_t kept = bits.size() < std::size_t(e.cut_bits) ? 0 : bits.size() - std::size_t(e.cut_bits);
  lines.push_back(fmt::format("  = {:<18} {:>16}   {}", "", sum, bits.empty() ? "" : fmt::format("{} | {}", pen.kept(bits.substr(0, kept)), pen.cut(bits.substr(kept)))));
  return lines;
}

std::string packing(operation op, interpolated const& e) {
  const std::int64_t kept = kept_of(e);
  if (op == operation::lg2)
    return fmt::format("its low {} bits are cut; e + the rest·2^-36 = {}, of which the top 24 bits are kept", e.cut_bits, double(e.exponent) + std::ldexp(double(kept), -36));
  const double value = std::ldexp(double(kept), e.result_exponent - 23);
  return fmt::format("its low {} bits are cut, whatever they are: {}·2^{} = {}{}", e.cut_bits, kept, e.result_exponent - 23, value,
                     value < 0x1p-126 ? "; subnormal, so 0" : op == operation::rcp ? ", with the sign of x" : "");
}

std::string_view meaning(function_part part, operation op) {
  switch (part) {
    case function_part::half_argument: return "below -126 EX2 would give 0: x/2";
    case function_part::root: return "EX2(x/2), to be squared";
    case function_part::scaled_position: return "fma(x, log2(e)/252, 1/2), kept in [0, 1]";
    case function_part::shifted: return "252 times that, rounded down onto 2^23 + 2^22 + 1";
    case function_part::power: return "the power of two, as a number";
    case function_part::rest: return "fma(x, log2(e), -power)";
    case function_part::corrected_rest: return "fma(x, low part of log2(e), rest)";
    case function_part::ex2_of_rest: return "EX2 of it";
    case function_part::two_to_power: return "2^power, made of bits; the product of the two is rounded:";
    case function_part::exponent: return "exponent e of x = 2^e·(1 + f)";
    case function_part::fraction: return "f, exact";
    case function_part::polynomial: return op == operation::logf ? "logarithm of 1 + f; fma(e, ln 2, that) is rounded:" : "base-2 logarithm of 1 + f; e + that is rounded:";
  }
  return {};
}

/// Nothing was evaluated: the operand's class or size decides.
std::string special_reason(account const& a, std::size_t i) {
  const double x = a.value_of(i, 0);
  if (std::isnan(x)) return "the operand is NaN, so is the result";
  switch (a[i].op) {
    case operation::ex2:
    case operation::exp2:
      if (x >= 128) return "x >= 128: infinity";
      if (x <= -128) return "x <= -128: 0";
      return "below -126 the result would be subnormal: 0";
    case operation::rcp: return std::isinf(x) ? "1/infinity is 0" : "0, or a subnormal, which counts as 0: infinity of its sign";
    default: break;
  }
  if (x < 0) return "the logarithm of a negative number is NaN";
  if (x == 1) return "log(1) = 0 exactly";
  return std::isinf(x) ? "the logarithm of infinity is infinity" : "the logarithm of 0 (a subnormal counts as 0 in MUFU) is -infinity";
}

}  // namespace

std::int64_t kept_of(interpolated const& e) noexcept { return (e.constant_term + e.linear_term + e.square_term + e.rounding_constant) >> e.cut_bits; }

std::vector<std::string> function_lines(account const& a, std::size_t i, step_events const& events, ink const& pen) {
  const operation evaluated = evaluated_by(a[i].op);
  std::vector<std::string> lines;
  for (auto const& event : events.events()) {
    if (auto const* e = std::get_if<interpolated>(&event)) {
      for (std::string const& line : polynomial_lines(evaluated, *e, pen)) lines.push_back(line);
      lines.push_back(packing(evaluated, *e));
    } else if (auto const* part = std::get_if<function_step>(&event)) {
      lines.push_back(fmt::format("{:<22} {}", decimal(part->value), meaning(part->part, a[i].op)));
    } else if (auto const* r = std::get_if<rounded>(&event)) {
      for (std::string const& line : rounding_lines(*r, pen)) lines.push_back(line);
    }
  }
  if (lines.empty()) lines.push_back(special_reason(a, i));
  return lines;
}

}  // namespace stickybit::detail
