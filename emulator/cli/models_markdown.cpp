#include <fmt/format.h>

#include "models.hpp"

namespace stickybit::cli {
namespace {

constexpr std::string_view introduction =
    R"(# Machines and their units

This page is what `stickybit models --markdown` prints; a test compares the two. Every number in it is one that the emulator computes with:
a unit is a line of data in `emulator/machine/`, and `block_fma.hpp` says what the numbers mean. Names in braces are units that differ in
the formats of A and B alone: `sm90.wgmma.{e4m3,e5m2}.f32` is `sm90.wgmma.e4m3.f32` and `sm90.wgmma.e5m2.f32`.

A block's terms are cut toward zero at 2^(E-F), E the largest exponent among them, and added exactly; the sum is rounded once. How a rule is known:
`measured` (our runs on the named GPU), `vectors` (others' hardware vectors), `reported` (others' models or papers), `source` (read, not run), `assumed`.
Only what is `measured` or `vectors` is called bit-exact. To measure a GPU that is not here yet, see [how to probe a GPU](probes.md).

)";

/// Underscores and stars would be read as emphasis, a bar as the end of a cell.
std::string escaped(std::string_view text) {
  std::string safe;
  for (char c : text) {
    if (c == '|' || c == '*' || c == '_' || c == '<') safe += '\\';
    safe += c;
  }
  return safe;
}

void append_rules(std::string& text, std::vector<unit_family> const& families) {
  for (std::size_t i = 0; i < families.size();) {
    std::size_t end = i;
    std::string names;
    for (; end < families.size() && families[end].first->facts.data() == families[i].first->facts.data(); ++end) names += fmt::format("{}`{}`", names.empty() ? "" : ", ", families[end].name);
    text += fmt::format("\n{}\n\n| known | rule | checked against |\n| --- | --- | --- |\n", names);
    for (fact const& f : families[i].first->facts) text += fmt::format("| {} | {} | {} |\n", name_of(f.mark), escaped(f.rule), escaped(f.checked_against));
    i = end;
  }
}

}  // namespace

std::string models_markdown() {
  std::string text(introduction);
  for (machine const* m : all_machines()) {
    const std::vector<unit_family> families = families_of(*m);
    text += fmt::format("## {} ({})\n\n| unit | instruction | a block | an instruction | result |\n| --- | --- | --- | --- | --- |\n", m->name, m->devices);
    for (unit_family const& f : families)
      text += fmt::format("| `{}` | {} | {} | {} | {} |\n", f.name, escaped(f.first->instruction), escaped(arithmetic_words(*f.first)), instruction_words(*f.first), escaped(result_words(*f.first)));
    append_rules(text, families);
    if (m->special_functions != nullptr)
      for (fact const& f : m->special_function_facts) text += fmt::format("\nSpecial functions (MUFU), {}: {} ({}).\n", name_of(f.mark), escaped(f.rule), escaped(f.checked_against));
    text += '\n';
  }
  return text;
}

}  // namespace stickybit::cli
