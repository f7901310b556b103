// An account at three levels.
#include "stickybit/explain/teller.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <vector>

#include "formula.hpp"
#include "step_words.hpp"
#include "stickybit/explain/error_shares.hpp"
#include "table.hpp"
#include "words.hpp"

namespace stickybit {
namespace {

using namespace detail;

constexpr std::size_t screen_lines = 45, screen_columns = 110;

std::size_t lines_in(std::string_view text) { return std::size_t(std::ranges::count(text, '\n')); }

std::string ulps(double amount, ink const& pen) { return pen.error(amount, fmt::format("{} ulp", signed_ulps(amount))); }

std::string plural(std::size_t count, std::string_view what) { return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s"); }

/// "The result is -4.71875 (bf16 0xC097). Had nothing been rounded it would be …; the error is … ulp, away from zero."
std::string outcome(account const& a, ink const& pen) {
  const std::size_t last = a.size() - 1;
  account_step const& s = a[last];
  const std::string name = s.name.symbol == "result" ? "The result" : label_of(a, last);
  std::string text = fmt::format("{} is {} ({} {}).", name, pen.heading(decimal_of(s.result, s.bits)), traits_of(s.result).name, hex_of(s.result, s.bits));
  const double value = a.value_of(last), error = to_double(double_double{value, 0} - s.exact);
  if (std::isfinite(s.exact.hi) && !std::isfinite(value)) return text + fmt::format(" Had nothing been rounded it would be {}.", number(s.exact));
  if (!std::isfinite(error)) return text;
  if (error == 0) return text + " That is the exact value.";
  const bool away = std::fabs(value) > std::fabs(s.exact.hi) || (std::fabs(value) == std::fabs(s.exact.hi) && (error > 0) == (value > 0));
  return text + fmt::format(" Had nothing been rounded it would be {}: the error is {} = {}, {}.", number(s.exact), pen.error(error, fmt::format("{:+}", error)),
                            s.exact.hi == 0 ? "no number of ulp" : ulps(a.error_in_ulp(last), pen), away ? "away from zero" : "toward zero");
}

std::string step_in_a_sentence(account const& a, std::size_t i) {
  const std::string formula = formula_of(a, i);
  return i + 1 == a.size() ? fmt::format("the last, {}", formula) : fmt::format("that of {} = {}", label_of(a, i), formula);
}

/// Which rounding decided, and what the others are worth.
std::string cause(account const& a, error_shares const& w, ink const& pen) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!std::isfinite(a.value_of(i)) && a[i].op != operation::input)
      return fmt::format(" The first step that is no finite number is {} = {}: {}.", label_of(a, i), formula_of(a, i), step_reason(a, i));
  std::size_t operations = 0, rounding_steps = 0;
  double rest = w.of_constants(), rest_size = std::fabs(w.of_constants());
  for (std::size_t i = 0; i < a.size(); ++i) {
    operations += a[i].op != operation::input;
    rounding_steps += a[i].op != operation::input && a.own_error(i) != 0;
    if (i != w.deciding) rest += w.steps[i], rest_size += std::fabs(w.steps[i]);
  }
  if (operations == 1 && rest == 0) return fmt::format(" It is one operation, {}: {}.", formula_of(a, a.size() - 1), step_reason(a, a.size() - 1));
  std::string text = fmt::format(" It took {}, of which {} rounded.", plural(operations, "operation"), rounding_steps == 0 ? "none" : std::to_string(rounding_steps));
  if (w.steps[w.deciding] == 0) return text;
  if (a[w.deciding].op == operation::input)
    return text + fmt::format(" Most of the error was given: {} is off by {}.", label_of(a, w.deciding), ulps(w.steps[w.deciding], pen));
  const bool alone = rest_size <= std::fabs(w.steps[w.deciding]);
  text += fmt::format(" {} is {}: {}. It is worth {}", alone ? "The rounding that decides" : "No rounding decides alone; the largest", step_in_a_sentence(a, w.deciding), step_reason(a, w.deciding), ulps(w.steps[w.deciding], pen));
  if (rest == 0) return text + ", all of the error.";
  return text + fmt::format("; all others together are worth {}.", ulps(rest, pen));
}

/// Where the error comes from, by symbol, the largest shares first.
std::string composition(account const& a, error_shares const& w, ink const& pen) {
  if (!w.finite) return {};
  std::vector<error_group> groups = group_shares(a, w);
  constexpr double worth_telling = 1e-6;  // ulp
  std::erase_if(groups, [](error_group const& g) { return std::fabs(g.sum) < worth_telling; });
  if (groups.size() < 2) return {};
  std::string text = "The error, by the steps it was made in:";
  for (std::size_t n = 0; n < groups.size() && n < 12; ++n) {
    error_group const& g = groups[n];
    const std::string steps = g.symbol == "partial" ? "partial sums" : g.symbol.empty() ? "on the way" : std::string(g.symbol);
    text += fmt::format("{} {}{} {}", n == 0 ? "" : ",", steps, g.steps > 1 ? fmt::format(" ({}×)", g.steps) : "", pen.error(g.sum, signed_ulps(g.sum)));
  }
  return wrapped(text + " (in ulp of the result, to first order).", screen_columns);
}

std::string screen(account const& a, ink const& pen, text_style style) {
  const error_shares w = share_error(a);
  const std::string head = wrapped(outcome(a, pen) + cause(a, w, pen), screen_columns), shares = composition(a, w, pen);
  const std::size_t fixed = lines_in(head) + lines_in(shares) + (shares.empty() ? 0 : 1);
  std::string table;
  if (a.size() > 1) {
    const std::size_t for_step = std::min<std::size_t>(24, lines_in(tell_step(a, w.deciding, style, 8)) + 1), around = 4;  // blank line, head and at most two lines below the table
    const std::size_t taken = fixed + for_step + around;
    table = fmt::format("\n{}", table_of(a, steps_that_matter(a, w, taken < screen_lines ? screen_lines - taken : 1), pen));
  }
  std::string text = fmt::format("{}{}{}{}", head, table, shares.empty() ? "" : "\n", shares);
  const std::size_t room = screen_lines - std::min(screen_lines, lines_in(text) + 1);
  for (std::size_t terms : {33, 24, 16, 12, 8, 4, 2, 0}) {
    const std::string step = tell_step(a, w.deciding, style, terms);
    if (lines_in(step) <= room) return text + "\n" + step;
  }
  return text;
}

}  // namespace

std::string tell(account const& a, detail_level level, text_style style) {
  if (a.size() == 0) throw std::invalid_argument("an account without steps tells nothing");
  const ink pen(style);
  if (level == detail_level::screen) return screen(a, pen, style);
  std::string text;
  if (level == detail_level::everything)
    for (std::size_t i = 0; i < a.size(); ++i) text += tell_step(a, i, style) + "\n";
  return text + wrapped(outcome(a, pen) + cause(a, share_error(a), pen), screen_columns);
}

}  // namespace stickybit
