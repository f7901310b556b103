#include "identify_commands.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "stickybit/identify/identify_unit.hpp"
#include "stickybit/machine/machine.hpp"
#include "stickybit/tensor_file/output_file.hpp"

namespace stickybit::cli {
namespace {

using json = nlohmann::ordered_json;

struct unit_request {
  std::string unit, library, program, recorded, output, json_path;
  double seconds = 60;
  std::uint64_t seed = 1;
  int check = 20000;
};

std::string codes_text(format f, std::vector<std::uint64_t> const& codes) {
  std::string text;
  for (std::uint64_t c : codes) text += fmt::format("{}0x{:0{}x}", text.empty() ? "" : ",", c, (traits_of(f).width_bits + 3) / 4);
  return text;
}

/// "--a 0x3f80,... --b ... --c 0x00000000 gives 3f800000".
std::string case_text(unit_formats const& f, unit_case const& x) { return fmt::format("--a {} --b {} --c 0x{:08x}", codes_text(f.a, x.a), codes_text(f.b, x.b), x.c); }

std::string formats_text(unit_formats const& f) {
  return fmt::format("A {}, B {}, c {}, result {}, K = {}", traits_of(f.a).name, traits_of(f.b).name, traits_of(f.c).name, traits_of(f.output).name, f.k);
}

void print_lines(unit_formats const& f, std::vector<unit_line> const& lines) {
  for (unit_line const& line : lines) {
    fmt::print("  {:<35} {}\n", line.rule, line.value);
    if (!line.also_fits.empty()) fmt::print("  {:<35}   not excluded: {}\n", "", fmt::join(line.also_fits, " | "));
    if (line.proof) fmt::print("  {:<35}   {}\n  {:<35}   gives {:08x}; '{}' would give {:08x}\n", "", case_text(f, line.proof->x), "", line.proof->result, line.proof->other, line.proof->other_result);
  }
}

json json_of(unit_formats const& f, unit_proof const& p) {
  return {{"a", codes_text(f.a, p.x.a)}, {"b", codes_text(f.b, p.x.b)}, {"c", fmt::format("0x{:08x}", p.x.c)}, {"result", fmt::format("0x{:08x}", p.result)}, {"excludes", p.other},
          {"which_gives", fmt::format("0x{:08x}", p.other_result)}};
}
json json_of(unit_formats const& f, std::vector<unit_line> const& lines) {
  json all = json::array();
  for (unit_line const& line : lines) {
    json one{{"rule", line.rule}, {"value", line.value}};
    if (!line.also_fits.empty()) one["not_excluded"] = line.also_fits;
    if (line.proof) one["proof"] = json_of(f, *line.proof);
    all.push_back(std::move(one));
  }
  return all;
}

void save(std::string const& path, std::string const& text) {
  if (path.empty()) return;
  output_file out(path);
  out.write(text);
  out.commit();
}

void print_known(std::vector<std::string> const& known) {
  if (known.empty()) fmt::print("known units that fit: none\n");
  else fmt::print("known units that fit: {}\n", fmt::join(known, ", "));
}

int report(unit_identification const& r, unit_request const& o, std::string const& name) {
  fmt::print("{}: {}\n", name, formats_text(r.formats));
  fmt::print("{} inner products asked for, then {} random hard ones as the final check\n", r.probes, r.verified);
  print_known(r.known);
  std::string described;
  if (r.description) {
    fmt::print("description, right about all of them{}:\n", r.several_nans ? " but for the codes of NaN" : "");
    print_lines(r.formats, r.lines);
    described = unit_json(r.description->unit, name);
    if (o.output.empty() && r.known.empty()) fmt::print("{}", described);
  } else {
    fmt::print("not described: {}\n", r.failure);
    if (r.first_difference)
      fmt::print("  first difference: {}\n  gives {:08x}; {} {:08x}\n", case_text(r.formats, r.first_difference->x), r.first_difference->result, r.first_difference->other, r.first_difference->other_result);
    if (!o.output.empty()) fmt::print("{}: not written\n", o.output);
  }
  if (r.description && !o.output.empty()) {
    save(o.output, described);
    fmt::print("written to {}: --unit @{}\n", o.output, o.output);
  }
  if (!o.json_path.empty()) {
    json all{{"stickybit", STICKYBIT_VERSION}, {"unit", name}, {"formats", formats_text(r.formats)}, {"probes", r.probes}, {"verified", r.verified}, {"known", r.known}};
    if (r.description) all["description"] = json::parse(described);
    else all["not_described"] = r.failure;
    all["several_nans"] = r.several_nans;
    all["rules"] = json_of(r.formats, r.lines);
    if (r.first_difference) all["first_difference"] = json_of(r.formats, *r.first_difference);
    save(o.json_path, all.dump(2) + "\n");
  }
  return r.known.empty() ? 1 : 0;
}

int report(recorded_identification const& r, unit_request const& o) {
  fmt::print("{}: {} recorded inner products, {}\n", o.recorded, r.cases, formats_text(r.formats));
  print_known(r.known);
  fmt::print("combinations of rules that fit: {} of {}\n", r.points, r.tried);
  print_lines(r.formats, r.lines);
  if (!o.json_path.empty()) {
    const json all{{"stickybit", STICKYBIT_VERSION}, {"file", o.recorded}, {"formats", formats_text(r.formats)}, {"cases", r.cases}, {"known", r.known}, {"points", r.points}, {"tried", r.tried},
                   {"rules", json_of(r.formats, r.lines)}};
    save(o.json_path, all.dump(2) + "\n");
  }
  return r.known.empty() ? 1 : 0;
}

std::unique_ptr<unit_under_test> box_of(unit_request const& o) {
  if (!o.unit.empty()) return emulated_unit(unit_named(o.unit));
  if (!o.library.empty()) return library_unit(o.library, o.seconds);
  return program_unit(o.program, o.seconds);
}

int run(unit_request const& o) {
  if (int(!o.unit.empty()) + int(!o.library.empty()) + int(!o.program.empty()) + int(!o.recorded.empty()) != 1)
    throw std::invalid_argument("identify unit: expected one of --unit, --library, --program and --recorded");
  require_separate_files({o.library, o.recorded, o.unit.starts_with('@') ? o.unit.substr(1) : ""}, {o.output, o.json_path});
  if (!o.recorded.empty()) {
    if (!o.output.empty()) throw std::invalid_argument("--output: a recorded file leaves rules open: expected a unit that can be asked");
    return report(identify_recorded_unit(tensor_file::load(o.recorded)), o);
  }
  const std::unique_ptr<unit_under_test> box = box_of(o);
  identify_unit_options how{.seed = o.seed, .verification_cases = o.check};
  const bool terminal = isatty(STDERR_FILENO) == 1;
  if (terminal) how.report = [](std::string_view stage) { fmt::print(stderr, "\r\x1b[K{} ...", stage); };
  const unit_identification found = identify_unit(*box, how);
  if (terminal) fmt::print(stderr, "\r\x1b[K");
  return report(found, o, !o.unit.empty() ? o.unit : !o.library.empty() ? o.library : o.program);
}

}  // namespace

void add_identify_unit(CLI::App& identify, int& status) {
  auto o = std::make_shared<unit_request>();
  CLI::App* command = identify.add_subcommand("unit", "which rules a tensor core's inner product follows, from its answers alone; status 0 where a known unit fits, 1 where none does");
  command->add_option("--unit", o->unit, "a unit of `stickybit models`, or @FILE: emulated, as if nothing were known of it");
  command->add_option("--library", o->library, "a shared library with the C function of stickybit/identify/unit_probe.h, run in a child process");
  command->add_option("--program", o->program, "a command that answers cases over its standard input and output (docs/identify_unit.md)");
  command->add_option("--recorded", o->recorded, "a safetensors file with a, b [n,K], d [n] and perhaps c [n]: nothing is asked, so rules stay open");
  command->add_option("--timeout", o->seconds, "seconds that a batch of a library or a program may take")->check(CLI::PositiveNumber)->capture_default_str();
  command->add_option("--seed", o->seed, "of the random cases")->capture_default_str();
  command->add_option("--check", o->check, "inner products of the final check")->check(CLI::Range(500, 10'000'000))->capture_default_str();
  command->add_option("-o,--output", o->output, "JSON file to write: the description, which --unit @FILE reads");
  command->add_option("--json", o->json_path, "JSON file to write: all that is printed");
  command->callback([o, &status] { status = run(*o); });
}

}  // namespace stickybit::cli
