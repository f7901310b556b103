#include "stickybit/property/property_table.hpp"

#include <fmt/format.h>

#include <fstream>
#include <set>

#include "support/catch.hpp"

namespace stickybit {

TEST_CASE("properties: names are unique, each has a definition, a domain and a tolerance", "[property][properties]") {
  std::set<std::string_view> names;
  for (attention_property const& p : all_properties()) {
    CHECK(names.insert(p.name).second);
    CHECK((!p.definition.empty() && !p.domain.empty() && !p.tolerance.empty()));
  }
  CHECK(all_properties()[0].name == "equals-schedule");
  CHECK_THROWS_AS(property_named("nothing"), std::invalid_argument);
}

namespace {

std::string page() {
  std::ifstream file(std::string(STICKYBIT_DOCS_DIR) + "/properties.md");
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The table's cell for a schedule and a property.
std::string cell_of(std::string const& text, attention_schedule const& s, std::string_view property) {
  const std::size_t row = text.find(fmt::format("\n| `{}` |", property), text.find("## Which schedule"));
  if (row == text.npos) return "no row";
  std::size_t at = text.find('|', row + 3);
  for (attention_schedule const* before = all_attention_schedules().data(); before != &s; ++before) at = text.find('|', at + 1);
  return text.substr(at + 2, text.find(" |", at + 1) - at - 2);
}

}  // namespace

TEST_CASE("properties: docs/properties.md says what the table has, of every schedule", "[property][properties]") {
  const std::string text = page();
  for (attention_schedule const& s : all_attention_schedules())
    for (attention_property const& p : all_properties().subspan(1)) {
      INFO(s.name << ", " << p.name);
      CHECK(known_holding(s.name, p.name).has_value());
      CHECK(name_of(known_holding(s.name, p.name).value_or(holding::untested)) == cell_of(text, s, p.name));
    }
  CHECK_FALSE(known_holding("fa9", "determinism"));
}

TEST_CASE("properties: the table is what a search finds, stickybit-sm80 here, all in the long test", "[property][properties]") {
  attention_schedule const& s = attention_schedule_named("stickybit-sm80");
  for (attention_property const& p : all_properties().subspan(1)) {
    INFO(p.name);
    CHECK(search_property(p, *emulated_kernel(std::string(s.name), s), s, table_search(s)).holds == known_holding(s.name, p.name));
  }
}

TEST_CASE("properties: docs/properties.md is what stickybit check --properties prints", "[.long][properties]") {
  const std::string found = properties_markdown();
  CHECK((page() == found));
}

TEST_CASE("properties: what the table calls exact survives a longer search, larger calls and another seed", "[.long][properties]") {
  std::int64_t cases = 0;
  for (attention_schedule const& s : all_attention_schedules())
    for (attention_property const& p : all_properties().subspan(1)) {
      if (known_holding(s.name, p.name) != holding::exactly) continue;
      property_search search;
      search.space.gradients = p.gradients;
      search.space.least_queries = std::max<std::int64_t>(1, s.min_queries);
      search.first_seed = 1'000'001;
      search.cases = s.min_queries > 1 || s.kind == schedule_kind::exact_value ? 100 : 600;
      const property_finding f = search_property(p, *emulated_kernel(std::string(s.name), s), s, search);
      cases += f.cases;
      if (f.holds != holding::exactly) fmt::print("{} {}: {} seed {} {} {}\n", s.name, p.name, name_of(f.holds), f.seed, f.recipe, f.what);
      std::fflush(stdout);
      INFO(s.name << ", " << p.name << ": seed " << f.seed << ", " << f.recipe << ": " << f.what);
      CHECK(f.holds == holding::exactly);
    }
  fmt::print("{} cases, seeds from 1000001\n", cases);
}

TEST_CASE("properties: print the table as data", "[.print-holdings]") {
  fmt::print("constexpr std::array<std::string_view, {}> schedules{{", all_attention_schedules().size());
  for (attention_schedule const& s : all_attention_schedules()) fmt::print("{}\"{}\"", s.name == all_attention_schedules()[0].name ? "" : ", ", s.name);
  fmt::print("}};\nconstexpr std::array<known_row, {}> rows{{\n", all_properties().size() - 1);
  for (attention_property const& p : all_properties().subspan(1)) {
    fmt::print("    known_row{{\"{}\", \"", p.name);
    for (attention_schedule const& s : all_attention_schedules()) {
      const holding h = search_property(p, *emulated_kernel(std::string(s.name), s), s, table_search(s)).holds;
      fmt::print("{}", h == holding::untested ? '-' : name_of(h)[0]);
    }
    fmt::print("\"}},\n");
    std::fflush(stdout);
  }
  fmt::print("}};\n");
}

}  // namespace stickybit
