#include "stickybit/property/property_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "known_holdings.hpp"

namespace stickybit {
namespace {

/// A schedule is one row of a group where another has the same answers.
struct schedule_findings {
  std::string_view schedule;
  std::vector<property_finding> findings;
};

schedule_findings findings_of(attention_schedule const& schedule) {
  schedule_findings all{schedule.name, {}};
  const std::unique_ptr<kernel_under_test> kernel = emulated_kernel(std::string(schedule.name), schedule);
  for (attention_property const& property : all_properties().subspan(1)) all.findings.push_back(search_property(property, *kernel, schedule, table_search(schedule)));
  return all;
}

/// A bar would end the cell of a table.
std::string cell(std::string_view text) {
  std::string safe;
  for (char c : text) {
    if (c == '|') safe += '\\';
    safe += c;
  }
  return safe;
}

constexpr std::string_view introduction =
    R"(# Properties of attention kernels

This page is what `stickybit check --properties` prints, which takes minutes; tests compare the two. Each entry was found by search: the schedule, emulated, is tested like any kernel, on cases
whose seeds are fixed. `exactly`: no deviation in any case that applied. `approximately`: deviations, all within the property's tolerance. `no`: one beyond it, or any where there is no
tolerance; a counterexample is below. `-`: no case applies (no backward pass, or calls that the kernel does not take). "Exactly" is what was seen, not what was proved: a counterexample
that longer searches find is a reason to change the table. `stickybit check` calls a failure of a property an error of a kernel only where the table says that its schedule has it.

)";

/// Counterexamples among 76,170 further cases (test_property "[.long]").
constexpr std::array found_by_longer_searches{
    searched_case{"square/all-bits/values-one-signed", 1000258}, searched_case{"long-row/alignments", 1000060},           searched_case{"grouped/sparse", 1000061},
    searched_case{"edges/subnormal-weights/values-one", 1000196}, searched_case{"edges/integers/values-one-signed", 1000526}, searched_case{"small/sparse/values-one-signed", 1000161},
};

}  // namespace

std::string_view name_of(holding h) noexcept {
  switch (h) {
    case holding::exactly: return "exactly";
    case holding::approximately: return "approximately";
    case holding::no: return "no";
    case holding::untested: return "-";
  }
  return {};
}

property_search table_search(attention_schedule const& schedule) {
  property_search search;
  search.space.least_queries = std::max<std::int64_t>(1, schedule.min_queries);
  search.space.most_queries = std::max<std::int64_t>(12, schedule.min_queries + 2);
  search.space.most_keys = 140;
  search.space.head_dims = {64};
  search.space.gradients = true;
  search.cases = schedule.min_queries > 1 ? 20 : 60;
  search.larger = found_by_longer_searches;
  return search;
}

property_finding search_property(attention_property const& property, kernel_under_test& kernel, attention_schedule const& schedule, property_search const& search) {
  property_finding found;
  found.property = property.name;
  if (property.gradients && !kernel.has_backward()) return found;
  const auto take = [&](property_case c) {
    const std::uint64_t seed = c.seed;
    if (!property.gradients) c.problem.d_o.clear();
    const std::optional<property_outcome> outcome = judge(property, kernel, schedule, c.problem, seed);
    if (!outcome) return;
    ++found.cases;
    if (found.holds == holding::untested) found.holds = holding::exactly;
    if (outcome->exact) return;
    if (outcome->deviation > found.largest || found.holds == holding::exactly) {
      found.largest = outcome->deviation;
      found.seed = seed;
      found.recipe = c.recipe;
      found.what = outcome->what;
    }
    found.holds = found.largest > 1 ? holding::no : holding::approximately;
  };
  for (std::uint64_t seed = search.first_seed; seed < search.first_seed + std::uint64_t(search.cases); ++seed) take(make_case(search.space, seed));
  case_space every_size;
  every_size.gradients = property.gradients;
  every_size.least_queries = search.space.least_queries;
  for (searched_case const& c : search.larger) take(make_case(every_size, c.recipe, c.seed));
  return found;
}

std::optional<holding> known_holding(std::string_view schedule, std::string_view property) noexcept { return detail::known_holding_of(schedule, property); }

std::string properties_markdown() {
  std::string text(introduction);
  text += "| property | says | domain | tolerance |\n| --- | --- | --- | --- |\n";
  for (attention_property const& p : all_properties()) text += fmt::format("| `{}` | {} | {} | {} |\n", p.name, cell(p.definition), cell(p.domain), cell(p.tolerance));
  std::vector<schedule_findings> all;
  for (attention_schedule const& s : all_attention_schedules()) all.push_back(findings_of(s));
  text += "\n## Which schedule has which\n\n| property |";
  for (schedule_findings const& s : all) text += fmt::format(" {} |", s.schedule);
  text += "\n| --- |";
  for (std::size_t i = 0; i < all.size(); ++i) text += " --- |";
  for (std::size_t p = 0; p + 1 < all_properties().size(); ++p) {
    text += fmt::format("\n| `{}` |", all[0].findings[p].property);
    for (schedule_findings const& s : all) text += fmt::format(" {} |", name_of(s.findings[p].holds));
  }
  text += "\n\n## Counterexamples\n\nThe case with the largest deviation of each property, for the first schedule in each group of equal answers. Recipe and seed make it again,\nin calls with d = 64, at most 12 rows (of `flex`: as many as its kernel needs) and 140 keys; for seeds above 10^6 in calls of every size.\n\n";
  text += "| property | schedule | holds | cases | seed | recipe | deviation / tolerance | what |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n";
  for (std::size_t p = 0; p + 1 < all_properties().size(); ++p) {
    std::map<holding, bool> shown;
    for (schedule_findings const& s : all) {
      property_finding const& f = s.findings[p];
      if (f.holds == holding::exactly || f.holds == holding::untested || shown[f.holds]) continue;
      shown[f.holds] = true;
      const std::string deviation = f.largest > 1e8 ? "-" : fmt::format("{:.2g}", f.largest);
      text += fmt::format("| `{}` | {} | {} | {} | {} | {} | {} | {} |\n", f.property, s.schedule, name_of(f.holds), f.cases, f.seed, f.recipe, deviation, cell(f.what));
    }
  }
  return text;
}

}  // namespace stickybit
