// One step in full.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "block_words.hpp"
#include "formula.hpp"
#include "function_words.hpp"
#include "step_words.hpp"
#include "stickybit/explain/teller.hpp"
#include "stickybit/format/with_format.hpp"
#include "words.hpp"

namespace stickybit {
namespace detail {
namespace {

bool is_arithmetic(operation op) { return op == operation::add || op == operation::multiply || op == operation::fma || op == operation::divide; }

bool is_mufu(operation op) { return op == operation::ex2 || op == operation::rcp || op == operation::lg2; }

std::string operand_name(account const& a, std::size_t i, std::size_t k) {
  account_operand const& o = a.operands(i)[k];
  if (o.step != account_operand::literal) return fmt::format("{}{}", o.negated ? "-" : "", label_of(a, std::size_t(o.step)));
  if (account::constant const* c = a.constant_of(o)) return fmt::format("{}{}", o.negated ? "-" : "", c->symbol);
  return {};
}

/// Operand, code, binary value; a subnormal that is read as zero says so.
std::vector<std::string> operand_lines(account const& a, std::size_t i) {
  std::vector<std::string> lines;
  const format f = is_arithmetic(a[i].op) ? a[i].result : format::f32;
  for (std::size_t k = 0; k < a[i].operands; ++k) {
    const std::uint32_t bits = a.bits_of(i, k);
    const bool flushes = a[i].op != operation::cast && (a[i].subnormal == subnormals::flushed || is_mufu(a[i].op));  // a cast flushes results only
    const bool flushed = flushes && with_format(f, [&]<format F>() { return decode(code_from<F>(bits)).kind == number_class::subnormal; });
    const std::string name = operand_name(a, i, k);
    lines.push_back(fmt::format("{:<20} {}{}", name.empty() ? fmt::format("operand {}", k + 1) : name, describe(f, bits), flushed ? "; subnormal, read as 0 (.ftz)" : ""));
  }
  return lines;
}

std::string special_text(account const& a, std::size_t i, special_result const& e) {
  if (e.raised.divide_by_zero) return "a number divided by 0: infinity";
  if (e.raised.invalid) return "no number is the answer (infinity - infinity, 0·infinity, 0/0): NaN";
  if (e.raised.overflow) return fmt::format("the format has no infinity: {}", decimal_of(e.target, e.bits));
  for (std::size_t k = 0; k < a[i].operands; ++k)
    if (std::isnan(a.value_of(i, k))) return "an operand is NaN, so is the result";
  return "an operand is infinite, so is the result";
}

std::vector<std::string> maximum_lines(account const& a, std::size_t i) {
  std::size_t winner = 0, equal = 0;
  double second = -HUGE_VAL;
  const double largest = a.value_of(i);
  for (std::size_t k = a[i].operands; k-- > 0;) {
    const double x = a.value_of(i, k);
    if (a.bits_of(i, k) == a[i].bits) winner = k, ++equal;
    else if (!(x <= second)) second = x;
  }
  const std::string name = operand_name(a, i, winner);
  std::vector<std::string> lines{fmt::format("the largest is operand {} of {}{}{}", winner + 1, a[i].operands, name.empty() ? "" : ", ", name)};
  if (equal > 1) lines.push_back(fmt::format("{} operands have this value", equal));
  if (std::isfinite(second)) lines.push_back(fmt::format("the next one is {}, {} below", number(second), number(largest - second)));
  return lines;
}

std::vector<std::string> arithmetic_lines(account const& a, std::size_t i, step_events const& events, ink const& pen) {
  std::vector<std::string> lines;
  for (special_result const& e : events.all<special_result>()) lines.push_back(special_text(a, i, e));
  for (rounded const& e : events.all<rounded>()) {
    if (a[i].op != operation::cast) lines.push_back(fmt::format("exact result {}", number(a.exact_on_codes(i))));
    for (std::string const& line : rounding_lines(e, pen)) lines.push_back(line);
  }
  return lines;
}

std::vector<std::string> event_lines(account const& a, std::size_t i, ink const& pen, std::size_t most_terms) {
  if (a[i].op == operation::input) return {};
  if (a[i].op == operation::maximum) return maximum_lines(a, i);
  step_events events;
  static_cast<void>(a.carry_out(i, &events));
  if (a[i].op == operation::block_fma) return block_lines(a, i, events, pen, most_terms);
  if (a[i].op == operation::cast || is_arithmetic(a[i].op)) return arithmetic_lines(a, i, events, pen);
  return function_lines(a, i, events, pen);
}

std::string rules_text(account_step const& s) {
  if (s.op == operation::input || s.op == operation::maximum) return fmt::format("{}{}", traits_of(s.result).name, s.subnormal == subnormals::flushed ? ", .ftz" : "");
  if (s.op == operation::block_fma) return std::string(s.unit->name);
  if (is_mufu(s.op)) return "MUFU, .ftz";
  if (!is_arithmetic(s.op) && s.op != operation::cast) return "CUDA's function";
  return fmt::format("{}, {}{}", traits_of(s.result).name, name_of(s.mode), s.subnormal == subnormals::flushed ? ", .ftz" : "");
}

}  // namespace

std::string step_reason(account const& a, std::size_t i) {
  step_events events;
  static_cast<void>(a.carry_out(i, &events));
  if (a[i].op == operation::block_fma) return block_reason(events);
  if (!is_arithmetic(a[i].op) && a[i].op != operation::cast) {
    const double off = a.own_error_in_ulp(i);
    return !std::isfinite(off) ? std::string("a special value of the function") : off == 0 ? std::string("exact here") : fmt::format("an approximation, {} ulp off", signed_ulps(off));
  }
  const auto roundings = events.all<rounded>();
  if (roundings.empty()) return "infinities or NaN among the operands decide it";
  rounded const& e = roundings.back();
  if (e.flushed) return "the result is subnormal and becomes zero";
  if (e.cut == tail::zero) return e.raised.overflow ? "it is beyond the largest finite number" : e.raised.inexact ? "it is below what the format holds" : "it is exact";
  return fmt::format("it cuts {}, {}{}", cut_bits(e.significand, e.drop), rule_text(e), e.raised.overflow ? "; that is beyond the largest finite number" : "");
}

}  // namespace detail

std::string tell_step(account const& a, std::size_t i, text_style style, std::size_t most_terms) {
  using namespace detail;
  const ink pen(style);
  account_step const& s = a[i];
  const std::string meaning = meaning_of(s.name);
  std::string text = fmt::format("{}{}{}\n", pen.heading(label_of(a, i)), meaning.empty() ? "" : ": ", meaning);
  if (s.op == operation::input) text += fmt::format("  given, in {}\n", traits_of(s.result).name);
  else text += fmt::format("  = {}   [{}]\n", formula_of(a, i), rules_text(s));
  if (s.op == operation::block_fma) text += indented(wrapped(unit_rule(*s.unit), 106), "    ");
  else if (s.operands <= 8)
    for (std::string const& line : operand_lines(a, i)) text += fmt::format("    {}\n", line);
  for (std::string const& line : event_lines(a, i, pen, most_terms)) text += fmt::format("    {}\n", line);
  text += fmt::format("  = {}\n", pen.kept(describe(s.result, s.bits)));
  const double error = a.error_in_ulp(i);
  if (!std::isfinite(error)) return text;
  const std::string amount = s.exact.hi == 0 && error != 0 ? fmt::format("{:+.4g}", a.value_of(i)) : fmt::format("{} ulp", signed_ulps(error));
  const bool given = s.op == operation::input;
  return text + fmt::format("    {}: {}; {} {}\n", given ? "it stands for" : "had nothing before been rounded", number(s.exact), given ? "off by" : "error so far", pen.error(error, amount));
}

}  // namespace stickybit
