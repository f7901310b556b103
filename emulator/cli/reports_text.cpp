#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "reports.hpp"

namespace stickybit::cli {
namespace {

constexpr std::size_t columns = 100, who_width = 38, id_width = 30;

/// "   symptom  ...", the text wrapped under itself.
std::string labelled(std::string_view label, std::string_view text) { return fmt::format("  {:<9} {}\n", label, wrapped(text, columns - 12, 12)); }

std::string result_line(report_result const& r) {
  const std::string who = wrapped(r.who, who_width, 6);
  const std::size_t last = who.rfind('\n');
  const std::size_t used = last == who.npos ? who.size() : who.size() - last - 1 - 4;
  return fmt::format("    {}{:{}}  {:>21} {:>10} {:>12}  {}\n", who, "", who_width - std::min(used, who_width), r.value, r.code, error_text(r), name_of(r.judged));
}

}  // namespace

std::string error_text(report_result const& r) {
  if (r.judged == accuracy::exact) return "0";
  if (r.error_ulp && std::fabs(*r.error_ulp) < 1000) return fmt::format("{:+.3f} ulp", *r.error_ulp);
  if (r.relative_error) return fmt::format("{:+.3g} %", 100 * *r.relative_error);
  return "-";
}

std::string wrapped(std::string_view text, std::size_t width, std::size_t indent) {
  std::string all, line;
  const auto end_line = [&] {
    if (!all.empty()) all.append(1, '\n').append(indent, ' ');
    all.append(line);
    line.clear();
  };
  while (!text.empty()) {
    const std::size_t blank = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, blank);
    text.remove_prefix(std::min(blank + 1, text.size()));
    if (!line.empty() && line.size() + 1 + word.size() > width) end_line();
    if (!line.empty()) line.push_back(' ');
    line.append(word);
  }
  end_line();
  return all;
}

std::string reports_table(std::vector<report_account> const& accounts) {
  std::string text;
  const std::size_t indent = 5 + id_width;
  for (report_account const& a : accounts) {
    const report_headline h = headline_of(a.findings);
    text += fmt::format("{:>3}  {:<{}}{}\n", a.report->number, a.report->id, id_width, wrapped(a.report->symptom, columns - indent, indent));
    text += fmt::format("{:{}}{}\n", "", indent, wrapped(fmt::format("{} -> {}", h.found, h.right), columns - indent, indent));
  }
  return text + fmt::format("{} reports; `stickybit reports NUMBER|ID|WORD` shows how each number comes about\n", accounts.size());
}

std::string report_text(report_account const& a) {
  std::string text = fmt::format("{} {}\n", a.report->number, a.report->id);
  for (std::string_view address : a.report->addresses) text += fmt::format("  {}\n", address);
  text += labelled("symptom", a.report->symptom) + labelled("input", a.report->input);
  for (report_finding const& f : a.findings) {
    text += fmt::format("  {}\n", wrapped(fmt::format("{}: right {}", f.quantity, f.right), columns - 2, 4));
    for (report_result const& r : f.results) text += result_line(r);
  }
  text += labelled("cause", a.report->cause);
  if (!a.report->caveat.empty()) text += labelled("beware", a.report->caveat);
  return text;
}

}  // namespace stickybit::cli
