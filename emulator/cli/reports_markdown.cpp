#include <fmt/format.h>

#include "reports.hpp"

namespace stickybit::cli {
namespace {

constexpr std::string_view introduction =
    R"(# Public reports, and what the machines make of them

This page is what `stickybit reports --markdown` prints; a test compares the two. Each section is a public report of a surprising number
with an input small enough to check by hand. No result is typed in: the library's machines, schedules and fixes compute each one when the command
runs, and exact arithmetic computes the right value. `stickybit reports NUMBER|ID|WORD` shows a section in the terminal, `--json` gives it to programs.

Errors are in units of the last place of the result's format at the exact value. *exact*: the right value itself; *nearest*: no number of the
format is nearer, so only the choice of the format is to blame; *neighbour*: the other number next to the right value; *close*: a measured quantity
within what its format allows; *open*: there are only conventions. Everything else is *wrong*.

)";

std::string escaped(std::string_view text) {
  std::string safe;
  for (char c : text) {
    if (c == '|' || c == '*' || c == '_' || c == '<') safe += '\\';
    safe += c;
  }
  return safe;
}

std::string section(report_account const& a) {
  std::string text = fmt::format("## {}. {}\n\n{}\n\n", a.report->number, a.report->id, escaped(fmt::format("Symptom: {}{}", a.report->symptom, a.report->symptom.ends_with('.') || a.report->symptom.ends_with('?') ? "" : ".")));
  for (std::string_view address : a.report->addresses) text += fmt::format("- <{}>\n", address);
  text += fmt::format("\nInput: {}.\n", escaped(a.report->input));
  for (report_finding const& f : a.findings) {
    text += fmt::format("\n{}; right: {}\n\n| who | gives | code | error | |\n| --- | ---: | --- | ---: | --- |\n", escaped(f.quantity), escaped(f.right));
    for (report_result const& r : f.results)
      text += fmt::format("| {} | {} | {} | {} | {} |\n", escaped(r.who), r.value, r.code.empty() ? "" : fmt::format("`{}`", r.code), error_text(r), name_of(r.judged));
  }
  text += fmt::format("\n{}\n", escaped(a.report->cause));
  if (!a.report->caveat.empty()) text += fmt::format("\n{}\n", escaped(a.report->caveat));
  return text;
}

}  // namespace

std::string reports_markdown(std::vector<report_account> const& accounts) {
  std::string text(introduction);
  text += "| # | report | symptom | gives, and the right value |\n| --: | --- | --- | --- |\n";
  for (report_account const& a : accounts) {
    const report_headline h = headline_of(a.findings);
    text += fmt::format("| {} | [{}](#{}-{}) | {} | {} -> {} |\n", a.report->number, a.report->id, a.report->number, a.report->id, escaped(a.report->symptom), h.found,
                        escaped(h.right));
  }
  for (report_account const& a : accounts) text.append(1, '\n').append(section(a));
  return text;
}

}  // namespace stickybit::cli
