#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "models.hpp"
#include "stickybit/fix/fix.hpp"
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
          {"output_fraction_bits", u.output == format::f32 ? u.output_fraction_bits : traits_of(u.output).fraction_bits()},
          {"accumulator", name_of(u.accumulator)},
          {"input_b", traits_of(u.input_b).name},
          {"instruction_k", u.instruction_k},
          {"order", name_of(u.order)},
          {"arithmetic", name_of(u.arithmetic)},
          {"scale_block", u.scale_block},
          {"scale", u.is_scaled() ? json(traits_of(u.scale).name) : json(nullptr)},
          {"group_size", u.group_size},
          {"sum_fraction_bits", u.sum_fraction_bits},
          {"converts_to_f16", u.converts_to_f16},
          {"flushes_subnormals", u.flushes_subnormals},
          {"facts", facts_json(u.facts)}};
}

json tiles_json(std::span<attention_tile const> tiles) {
  json list = json::array();
  for (attention_tile const& t : tiles) list.push_back({{"head_dim", t.head_dim}, {"causal", t.causal}, {"query_rows", t.query_rows}, {"key_columns", t.key_columns}});
  return list;
}

std::string_view name_of(in_kernels kernels) {
  switch (kernels) {
    case in_kernels::none: return "none yet";
    case in_kernels::sm90: return "sm90";
    case in_kernels::sm80: return "sm80";
    case in_kernels::both: return "sm90, sm80";
  }
  return {};
}

json fixes_json() {
  json list = json::array();
  for (fix_description const& f : all_fixes())
    list.push_back({{"name", f.name}, {"parameters", f.parameters}, {"replaces", f.replaces}, {"source", f.source}, {"traps", f.traps}, {"kernels", name_of(f.kernels)}});
  return list;
}

json models_json() {
  json machines = json::array(), schedules = json::array();
  for (machine const* m : all_machines()) {
    json units = json::array();
    for (machine_unit const& u : m->units) units.push_back(unit_json(u));
    machines.push_back({{"name", m->name}, {"devices", m->devices}, {"units", units}, {"special_functions", facts_json(m->special_function_facts)}});
  }
  for (attention_schedule const& s : all_attention_schedules()) {
    schedules.push_back({{"name", s.name}, {"kernel", s.kernel}, {"unit", s.unit}, {"forward_tiles", tiles_json(s.forward_tiles)}, {"backward_tiles", tiles_json(s.backward_tiles)}, {"facts", facts_json(s.facts)}});
  }
  return {{"version", STICKYBIT_VERSION}, {"machines", machines}, {"schedules", schedules}, {"fixes", fixes_json()}};
}

void print_facts(std::span<fact const> facts) {
  std::string_view last;
  for (fact const& f : facts) {
    fmt::print("    {:<9} {}\n", name_of(f.mark), f.rule);
    if (f.checked_against != last) fmt::print("              [{}]\n", f.checked_against);
    last = f.checked_against;
  }
}

void print_tiles(std::string_view pass, std::span<attention_tile const> tiles) {
  for (attention_tile const& t : tiles)
    if (t.key_columns != 0)
      fmt::print("  {} tile d = {:<4} {:<11} {} queries x {} keys\n", pass, t.head_dim, t.causal ? "causal" : "not causal", t.query_rows, t.key_columns);
}

void print_fixes() {
  fmt::print("fixes (--fix, joined with '+'); each is emulated on every schedule that goes block by block, except as said\n");
  for (fix_description const& f : all_fixes()) {
    fmt::print("  {}{}{}\n    replaces  {}\n", f.name, f.parameters.empty() ? "" : ":", f.parameters, f.replaces);
    if (!f.source.empty()) fmt::print("    source    {}\n", f.source);
    if (!f.traps.empty()) fmt::print("    beware    {}\n", f.traps);
    if (f.name != "none") fmt::print("    kernels   {}\n", name_of(f.kernels));
  }
}

void print_models() {
  for (machine const* m : all_machines()) {
    fmt::print("machine {} ({})\n", m->name, m->devices);
    const std::vector<unit_family> families = families_of(*m);
    for (unit_family const& f : families) {
      const std::string instruction = instruction_words(*f.first);
      fmt::print("  unit {}\n    {}: {}{}{}; {}\n", f.name, f.first->instruction, arithmetic_words(*f.first), instruction.empty() ? "" : "; ", instruction, result_words(*f.first));
    }
    for (std::size_t i = 0; i < families.size(); ++i) {
      if (i != 0 && families[i].first->facts.data() == families[i - 1].first->facts.data()) continue;
      fmt::print("    rules of {}\n", families[i].name);
      print_facts(families[i].first->facts);
    }
    if (m->special_functions != nullptr) {
      fmt::print("  special functions (MUFU)\n");
      print_facts(m->special_function_facts);
    }
  }
  for (attention_schedule const& s : all_attention_schedules()) {
    fmt::print("schedule {} ({})\n  unit {}\n", s.name, s.kernel, s.unit);
    print_tiles("forward", s.forward_tiles);
    print_tiles("backward", s.backward_tiles);
    print_facts(s.facts);
  }
  print_fixes();
}

}  // namespace

void add_models(CLI::App& program, int&) {
  CLI::App* command = program.add_subcommand("models", "machines, units, schedules and fixes; how each rule is known, and against what it was checked");
  auto as_json = std::make_shared<bool>(false), as_markdown = std::make_shared<bool>(false);
  CLI::Option* json_flag = command->add_flag("--json", *as_json, "the same as JSON");
  command->add_flag("--markdown", *as_markdown, "machines and units as docs/models.md")->excludes(json_flag);
  command->callback([as_json, as_markdown] {
    if (*as_json) fmt::print("{}\n", models_json().dump(2));
    else if (*as_markdown) fmt::print("{}", models_markdown());
    else print_models();
  });
}

}  // namespace stickybit::cli
