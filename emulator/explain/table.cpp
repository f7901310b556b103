#include "table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "formula.hpp"

namespace stickybit::detail {
namespace {

constexpr std::size_t name_width = 19, formula_width = 31, value_width = 15, exact_width = 18, own_width = 10, error_width = 10;

std::string padded(std::string text, std::size_t width) {
  const std::size_t columns = columns_of(text);
  if (columns < width) text.append(width - columns, ' ');
  return text;
}

/// The first `width` columns; "…" as the last where something is left out.
std::string fitted(std::string const& text, std::size_t width) {
  if (columns_of(text) <= width) return padded(text, width);
  std::string cut;
  std::size_t columns = 0;
  for (char c : text) {
    const bool begins = (static_cast<unsigned char>(c) & 0xc0) != 0x80;
    if (begins && ++columns == width) break;
    cut += c;
  }
  return cut + "…";
}

double magnitude(double x) { return std::isnan(x) ? HUGE_VAL : std::fabs(x); }

/// Where the exact value is 0 its ulp says nothing: the error itself, in brackets.
std::string error_so_far(account const& a, std::size_t i) {
  const double error = a.error_in_ulp(i);
  return a[i].exact.hi == 0 && error != 0 && std::isfinite(error) ? fmt::format("({:+.1e})", a.value_of(i)) : signed_ulps(error);
}

/// `mark`: two columns, that steps before this one are not shown.
std::string row(account const& a, std::size_t i, std::string_view mark, ink const& pen) {
  const double own = a.own_error_in_ulp(i), error = a.error_in_ulp(i);
  const std::string exact = std::isnan(a[i].exact.hi) ? "nan" : fmt::format("{:.12g}", a[i].exact.hi);
  return fmt::format("{}{} {} {:>{}} {:>{}} {} {}\n", pen.faint(mark), fitted(label_of(a, i), name_width), fitted(formula_of(a, i, formula_width), formula_width), number(a.value_of(i)), value_width, exact,
                     exact_width, pen.error(own, fmt::format("{:>{}}", signed_ulps(own), own_width)), pen.error(error, fmt::format("{:>{}}", error_so_far(a, i), error_width)));
}

/// "⋮ 380 of 400 steps are not shown: 95 S, 95 x, 190 without a name"
std::string left_out(account const& a, std::vector<std::size_t> const& shown) {
  std::map<std::string_view, std::size_t> counts;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!std::ranges::binary_search(shown, i)) ++counts[a[i].name.symbol];
  std::string text = fmt::format("⋮ {} of {} steps are not shown:", a.size() - shown.size(), a.size());
  for (auto const& [symbol, count] : counts)
    if (!symbol.empty()) text += fmt::format(" {} {},", count, symbol);
  if (counts.contains("")) return text + fmt::format(" {} without a name\n", counts[""]);
  text.back() = '\n';
  return text;
}

}  // namespace

std::vector<std::size_t> steps_that_matter(account const& a, error_shares const& shares, std::size_t most) {
  std::vector<std::size_t> steps;
  if (a.size() <= most) {
    for (std::size_t i = 0; i < a.size(); ++i) steps.push_back(i);
    return steps;
  }
  struct run {
    std::size_t first, last, heaviest;
  };
  std::map<std::string_view, run> runs;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].name.symbol.empty()) continue;
    run& r = runs.try_emplace(a[i].name.symbol, run{i, i, i}).first->second;
    r.last = i;
    if (magnitude(shares.steps[i]) > magnitude(shares.steps[r.heaviest])) r.heaviest = i;
  }
  const auto keep = [&](std::size_t i) {
    if (std::ranges::find(steps, i) == steps.end()) steps.push_back(i);
  };
  keep(a.size() - 1);
  keep(shares.deciding);
  for (auto const& [symbol, r] : runs) keep(r.heaviest);
  for (auto const& [symbol, r] : runs) keep(r.last);
  for (auto const& [symbol, r] : runs) keep(r.first);
  if (steps.size() > most) steps.resize(most);
  std::vector<std::size_t> by_worth(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) by_worth[i] = i;
  std::ranges::stable_sort(by_worth, [&](std::size_t x, std::size_t y) { return magnitude(shares.steps[x]) > magnitude(shares.steps[y]); });
  constexpr double worth_a_row = 0.02;  // of the deciding step's worth
  for (std::size_t i : by_worth) {  // room that is left: what weighs most
    if (steps.size() >= most || !(magnitude(shares.steps[i]) > worth_a_row * magnitude(shares.steps[shares.deciding]))) break;
    keep(i);
  }
  std::ranges::sort(steps);
  return steps;
}

std::string table_of(account const& a, std::vector<std::size_t> const& steps, ink const& pen) {
  std::string text = pen.faint(fmt::format("  {} {} {:>{}} {:>{}} {:>{}} {:>{}}", padded("step", name_width), padded("operation", formula_width), "value", value_width, "exact", exact_width, "own ulp",
                                           own_width, "ulp so far", error_width)) +
                     "\n";
  std::size_t next = 0;
  for (std::size_t i : steps) {
    text += row(a, i, i > next ? "⋮ " : "  ", pen);
    next = i + 1;
  }
  const bool brackets = std::ranges::any_of(steps, [&](std::size_t i) { return error_so_far(a, i).starts_with('('); });
  if (brackets) text += pen.faint("( ): the exact value is 0, so this is the error itself, not in ulp\n");
  return steps.size() == a.size() ? text : text + pen.faint(left_out(a, steps));
}

}  // namespace stickybit::detail
