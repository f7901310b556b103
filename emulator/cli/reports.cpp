#include "reports.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.hpp"

namespace stickybit::cli {
namespace {

using nlohmann::json;

struct reports_request {
  std::vector<std::string> words;
  bool all = false, as_json = false, as_markdown = false;
};

json number_or_null(std::optional<double> x) { return x ? json(*x) : json(nullptr); }

json result_json(report_result const& r) {
  return {{"who", r.who},
          {"value", r.value},
          {"code", r.code},
          {"error_ulp", number_or_null(r.error_ulp)},
          {"relative_error", number_or_null(r.relative_error)},
          {"judged", name_of(r.judged)}};
}

json account_json(report_account const& a) {
  json findings = json::array();
  for (report_finding const& f : a.findings) {
    json results = json::array();
    for (report_result const& r : f.results) results.push_back(result_json(r));
    findings.push_back({{"quantity", f.quantity}, {"right", f.right}, {"results", results}});
  }
  return {
      {"number", a.report->number},   {"id", a.report->id},        {"addresses", std::vector<std::string_view>(a.report->addresses.begin(), a.report->addresses.end())},
      {"symptom", a.report->symptom}, {"input", a.report->input},  {"findings", findings},
      {"cause", a.report->cause},     {"caveat", a.report->caveat}};
}

/// Those that any word names, or all; each once, in order.
std::vector<report_account> chosen(std::vector<std::string> const& words) {
  std::vector<public_report const*> reports;
  for (std::string const& word : words)
    for (public_report const* r : matching_reports(word))
      if (std::find(reports.begin(), reports.end(), r) == reports.end()) reports.push_back(r);
  if (words.empty())
    for (public_report const& r : all_reports()) reports.push_back(&r);
  std::sort(reports.begin(), reports.end(), [](auto const* a, auto const* b) { return a->number < b->number; });
  std::vector<report_account> accounts;
  for (public_report const* r : reports) accounts.push_back({r, run(*r)});
  return accounts;
}

void print_reports(reports_request const& o) {
  if (o.all && !o.words.empty()) throw std::invalid_argument(fmt::format("--all and '{}': expected one or the other", o.words.front()));
  if (o.as_json && o.as_markdown) throw std::invalid_argument("--json and --markdown: expected one or the other");
  const std::vector<report_account> accounts = chosen(o.words);
  if (o.as_json) {
    json list = json::array();
    for (report_account const& a : accounts) list.push_back(account_json(a));
    fmt::print("{}\n", json{{"version", STICKYBIT_VERSION}, {"reports", list}}.dump(2));
  } else if (o.as_markdown) {
    fmt::print("{}", reports_markdown(accounts));
  } else if (o.words.empty() && !o.all) {
    fmt::print("{}", reports_table(accounts));
  } else {
    for (std::size_t i = 0; i < accounts.size(); ++i) fmt::print("{}{}", i == 0 ? "" : "\n", report_text(accounts[i]));
  }
}

}  // namespace

void add_reports(CLI::App& program, int&) {
  auto o = std::make_shared<reports_request>();
  CLI::App* command = program.add_subcommand(
      "reports", "public reports of surprising numbers as small examples: what each machine, schedule and fix gives, the right value, and the cause");
  command->add_option("WORDS", o->words, "numbers of reports or of their threads, ids, or words of an id, an address or a symptom; none: a table of all");
  command->add_flag("--all", o->all, "the full account of every report");
  command->add_flag("--json", o->as_json, "the same as JSON");
  command->add_flag("--markdown", o->as_markdown, "the same as Markdown: docs/reports.md is this of all");
  command->callback([o] { print_reports(*o); });
}

}  // namespace stickybit::cli
