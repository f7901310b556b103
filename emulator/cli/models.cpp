#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "stickybit/machine/machine.hpp"

namespace stickybit::cli {
namespace {

using nlohmann::json;

json facts_json(std::span<fact const> facts) {
  json list = json::array();
  for (fact const& f : facts) list.push_back({{"rule", f.rule}, {"known", name_of(f.mark)}, {"checked_against", f.checked_against}});
  return list;
}

json unit_json(machine_unit const& u) {
  return {{"name", u.name},
          {"instruction", u.instruction},
          {"input", traits_of(u.input).name},
          {"output", traits_of(u.output).name},
          {"block_size", u.block_size},
          {"alignment_fraction_bits", u.alignment_fraction_bits},
          {"min_alignment_exponent", u.min_alignment_exponent},
          {"output_rounding", name_of(u.output_rounding)},
          {"accumulator", u.accumulator == accumulator_place::aligned ? "aligned" : "added_last"},
          {"facts", facts_json(u.facts)}};
}

json models_json() {
  json machines = json::array(), schedules = json::array();
  for (machine const* m : all_machines()) {
    json units = json::array();
    for (machine_unit const& u : m->units) units.push_back(unit_json(u));
    machines.push_back({{"name", m->name}, {"devices", m->devices}, {"units", units}, {"special_functions", facts_json(m->special_function_facts)}});
  }
  for (attention_schedule const& s : all_attention_schedules()) {
    json tiles = json::array();
    for (attention_tile const& t : s.forward_tiles)
      tiles.push_back({{"head_dim", t.head_dim}, {"causal", t.causal}, {"query_rows", t.query_rows}, {"key_columns", t.key_columns}});
    schedules.push_back({{"name", s.name}, {"kernel", s.kernel}, {"unit", s.unit}, {"forward_tiles", tiles}, {"facts", facts_json(s.facts)}});
  }
  return {{"version", STICKYBIT_VERSION}, {"machines", machines}, {"schedules", schedules}};
}

void print_facts(std::span<fact const> facts) {
  std::string_view last;
  for (fact const& f : facts) {
    fmt::print("    {:<9} {}\n", name_of(f.mark), f.rule);
    if (f.checked_against != last) fmt::print("              [{}]\n", f.checked_against);
    last = f.checked_against;
  }
}

void print_models() {
  for (machine const* m : all_machines()) {
    fmt::print("machine {} ({})\n", m->name, m->devices);
    for (machine_unit const& u : m->units)
      fmt::print("  unit {:<20} {:<26} {} products and c, {} fraction bits kept, E >= {}, result {}\n", u.name, u.instruction, u.block_size, u.alignment_fraction_bits,
                 u.min_alignment_exponent, name_of(u.output_rounding));
    for (std::size_t i = 0; i < m->units.size(); ++i) {
      if (i != 0 && m->units[i].facts.data() == m->units[i - 1].facts.data()) continue;
      fmt::print("    rules of {}\n", m->units[i].name);
      print_facts(m->units[i].facts);
    }
    if (m->special_functions != nullptr) {
      fmt::print("  special functions (MUFU)\n");
      print_facts(m->special_function_facts);
    }
  }
  for (attention_schedule const& s : all_attention_schedules()) {
    fmt::print("schedule {} ({})\n  unit {}\n", s.name, s.kernel, s.unit);
    for (attention_tile const& t : s.forward_tiles)
      if (t.key_columns != 0) fmt::print("  tile d = {:<4} {:<11} {} queries x {} keys\n", t.head_dim, t.causal ? "causal" : "not causal", t.query_rows, t.key_columns);
    print_facts(s.facts);
  }
}

}  // namespace

void add_models(CLI::App& program, int&) {
  CLI::App* command = program.add_subcommand("models", "machines, units and schedules; how each rule is known, and against what it was checked");
  auto as_json = std::make_shared<bool>(false);
  command->add_flag("--json", *as_json, "the same as JSON");
  command->callback([as_json] {
    if (*as_json) fmt::print("{}\n", models_json().dump(2));
    else print_models();
  });
}

}  // namespace stickybit::cli
