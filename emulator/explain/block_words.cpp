#include "block_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "formula.hpp"

namespace stickybit::detail {
namespace {

bool is_accumulator(term_aligned const& t) { return t.index == term_aligned::accumulator; }

std::string operands_text(account const& a, std::size_t i, term_aligned const& t) {
  if (is_accumulator(t)) return "c = " + number(value_of(t));
  const auto k = std::size_t(t.index);
  return fmt::format("{} × {}", number(a.value_of(i, 2 * k)), number(a.value_of(i, 2 * k + 1)));
}

std::string lost_text(term_aligned const& t, ink const& pen) {
  if (t.dropped == 0) return "nothing lost";
  const double quanta = std::ldexp(double(t.dropped), t.shift) * (t.negative ? -1 : 1);
  const std::string bits = -t.shift <= 24 ? bits_of(t.dropped, -t.shift) : cut_bits(t.dropped, -t.shift);
  return fmt::format("{} {} ({:+.4g} quanta)", t.kept == 0 ? "all lost:" : "lost", pen.cut(bits.size() > 24 ? bits.substr(0, 6) + "…" + bits.substr(bits.size() - 12) : bits), quanta);
}

std::string term_line(account const& a, std::size_t i, term_aligned const& t, ink const& pen) {
  const std::string shift = t.shift >= 0 ? fmt::format("<<{}", t.shift) : fmt::format(">>{}", -t.shift);
  const std::string quanta = fmt::format("{}{}", t.negative && t.kept != 0 ? "-" : "", t.kept);
  return fmt::format("{:>4}  {:<31} {:>6}  {:>5}  {} {}", is_accumulator(t) ? "c" : std::to_string(t.index), operands_text(a, i, t), t.exponent, shift,
                     pen.kept(fmt::format("{:>13}", quanta)), lost_text(t, pen));
}

/// "k = 0, 5 to 15": the terms of a list that take no part.
std::string zero_terms(std::vector<term_aligned> const& terms) {
  std::string text;
  for (std::size_t n = 0; n < terms.size(); ++n) {
    if (terms[n].significand != 0 || is_accumulator(terms[n])) continue;
    std::size_t end = n;
    while (end + 1 < terms.size() && terms[end + 1].significand == 0 && !is_accumulator(terms[end + 1])) ++end;
    text += fmt::format("{}{}", text.empty() ? "k = " : ", ", terms[n].index);
    if (end > n) text += fmt::format(" to {}", terms[end].index);
    n = end;
  }
  const bool c_zero = !terms.empty() && terms.back().significand == 0;
  if (c_zero) text += text.empty() ? "c" : " and c";
  return text;
}

/// The terms to list, in their order: all, or the `most` that lose most, then the largest.
std::vector<term_aligned> listed(std::vector<term_aligned> terms, std::size_t most) {
  std::erase_if(terms, [](term_aligned const& t) { return t.significand == 0; });
  if (terms.size() <= most) return terms;
  const auto heavier = [](term_aligned const& x, term_aligned const& y) {
    const double lost_x = std::fabs(lost_of(x)), lost_y = std::fabs(lost_of(y));
    return lost_x != lost_y ? lost_x > lost_y : std::fabs(value_of(x)) > std::fabs(value_of(y));
  };
  std::ranges::stable_sort(terms, heavier);
  terms.resize(most);
  std::ranges::sort(terms, [](term_aligned const& x, term_aligned const& y) { return unsigned(x.index) < unsigned(y.index); });
  return terms;
}

void add_sum_lines(std::vector<std::string>& lines, machine_unit const& unit, step_events const& events, ink const& pen) {
  for (block_summed const& s : events.all<block_summed>())
    lines.push_back(fmt::format("E = {}{}, quantum 2^{}: the sum is {} quanta = {}", s.max_exponent, s.clamped ? ", the unit's smallest" : "", s.quantum_exponent, pen.kept(std::to_string(s.sum)),
                                std::ldexp(double(s.sum), s.quantum_exponent)));
  for (sum_shortened const& s : events.all<sum_shortened>())
    lines.push_back(fmt::format("results of this unit have {} fraction bits, {}: {}", s.fraction_bits, name_of(s.mode),
                                s.dropped == 0 ? std::string("nothing is lost") : fmt::format("{} is lost ({})", pen.cut(bits_of(s.dropped, std::min(s.drop, 63))), number(std::ldexp(double(s.dropped), s.quantum_exponent)))));
  bool first = true;
  for (rounded const& e : events.all<rounded>()) {
    lines.push_back(first ? fmt::format("the sum is rounded to {}, {}:", traits_of(e.target).name, name_of(e.rule.mode))
                          : fmt::format("c is added in {}, {}:", traits_of(e.target).name, name_of(e.rule.mode)));
    for (std::string const& line : rounding_lines(e, pen)) lines.push_back("  " + line);
    first = false;
  }
  if (first && unit.output == format::f32)
    for (special_result const& e : events.all<special_result>()) lines.push_back(fmt::format("c is added: {}", decimal_of(e.target, e.bits)));
}

}  // namespace

double value_of(term_aligned const& t) {
  const double magnitude = std::ldexp(double(t.significand), t.exponent - t.scale_bits);
  return t.negative ? -magnitude : magnitude;
}

double lost_of(term_aligned const& t) {
  const double magnitude = std::ldexp(double(t.dropped), t.exponent - t.scale_bits);
  return t.negative ? -magnitude : magnitude;
}

std::string unit_rule(machine_unit const& unit) {
  const bool aligned = unit.accumulator == accumulator_place::aligned;
  return fmt::format("{} products{} are aligned at their largest exponent E, each is cut toward zero at 2^(E-{}), they are added exactly, and the sum is rounded to {} ({}){}",
                     unit.block_size, aligned ? " and c" : "", unit.alignment_fraction_bits, traits_of(unit.output).name, name_of(unit.output_rounding),
                     aligned ? "" : "; then c is added");
}

std::vector<std::string> block_lines(account const& a, std::size_t i, step_events const& events, ink const& pen, std::size_t most_terms) {
  machine_unit const& unit = *a[i].unit;
  std::vector<std::string> lines;
  for (block_special const& s : events.all<block_special>())
    lines.push_back(s.nan ? "decided by NaN: an operand is NaN, or infinity times zero, or infinities of both signs" : "decided by an infinity");
  if (unit.output == format::f16) lines.push_back("c is taken rounded to f16, to nearest even");
  const std::vector<term_aligned> terms = events.all<term_aligned>();
  const std::vector<term_aligned> shown = listed(terms, most_terms);
  if (!shown.empty()) lines.push_back(pen.faint(fmt::format("{:>4}  {:<31} {:>6}  {:>5}  {:>13} {}", "k", "a × b", "exp.", "shift", "kept quanta", "below the quantum")));
  for (term_aligned const& t : shown) lines.push_back(term_line(a, i, t, pen));
  const auto parts = std::size_t(std::ranges::count_if(terms, [](term_aligned const& t) { return t.significand != 0; }));
  if (shown.size() < parts) lines.push_back(pen.faint(fmt::format("   …  {} more terms, which lose less", parts - shown.size())));
  if (const std::string zero = zero_terms(terms); !zero.empty()) lines.push_back(pen.faint(fmt::format("      {}: zero, no part in the alignment", zero)));
  add_sum_lines(lines, unit, events, pen);
  return lines;
}

std::string block_reason(step_events const& events) {
  std::size_t cut = 0;
  for (term_aligned const& t : events.all<term_aligned>()) cut += t.dropped != 0;
  const auto sums = events.all<block_summed>();
  if (sums.empty()) return "infinities or NaN among the operands decide it";
  std::string text = cut == 0 ? "the alignment loses nothing" : fmt::format("the alignment at 2^{} cuts {} of its terms", sums.front().quantum_exponent, cut);
  const auto roundings = events.all<rounded>();
  const auto shortened = events.all<sum_shortened>();
  if (!shortened.empty() && shortened.front().dropped != 0)
    return text + fmt::format(", and of the sum the {} fraction bits that the unit gives are kept", shortened.front().fraction_bits);
  if (!roundings.empty() && roundings.back().cut != tail::zero)
    text += fmt::format(", and rounding the sum ({}) cuts {}", name_of(roundings.back().rule.mode), name_of(roundings.back().cut));
  else text += cut == 0 ? " and the sum fits" : ", and the sum fits";
  return text;
}

}  // namespace stickybit::detail
