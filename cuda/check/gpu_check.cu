// Do this GPU's tensor cores compute what the machine of its compute capability says? Hard inner products, chosen so that every rule of a unit
// is told from its neighbours, and random ones of every generator, on each instruction that the GPU has; on a Hopper the probes too. Then our
// attention kernels against their schedules on that machine's unit. --record writes the chosen ones with the GPU's results as one file for
// tests/golden/<gpu>/, and chosen attention calls in a folder beside it.
#include <cstdio>

#include "../probe/probes.hpp"
#include "../record/golden_file.hpp"
#include "../support/device.cuh"
#include "../support/options.hpp"
#include "../support/program.hpp"
#include "attention_checker.hpp"
#include "attention_golden.hpp"
#include "attention_origin.hpp"

namespace stickybit::gpu {
namespace {

constexpr char const* usage =
    "usage: stickybit-gpu-check [--record OUT.safetensors] [--machine NAME] [--seed S] [--count N] [--calls N]\n"
    "  N random inner products of each generator for each unit besides the chosen ones (default 16384); machine: by compute capability.\n"
    "  Then --calls random calls (default 60) of each attention kernel. --record OUT.safetensors: the chosen products; OUT_attention/: chosen calls.\n"
    "  Exit status 0: every unit as the machine says, every attention call as its schedule; 1: not.\n";

struct gpu {
  int capability;       ///< 90: 9.0
  std::string machine;  ///< "sm90"; empty where we have none
};

gpu this_gpu() {
  const int capability = compute_capability(), major = capability / 10;
  char const* const machine = capability == 80 ? "sm80" : capability == 86 || capability == 87 ? "sm86" : capability == 89 ? "sm89"
                              : major == 9 ? "sm90" : major == 10 ? "sm100" : major == 12 ? "sm120" : "";
  return {capability, machine};
}

struct verdict {
  std::size_t compared = 0, mismatches = 0;
  std::string first;  ///< the first mismatch's command and codes
};

void compare(verdict& v, hardware_way const& way, machine_unit const& unit, std::vector<unit_case> const& cases) {
  if (cases.empty()) return;
  const case_shape shape = shape_of(unit);
  packed_cases packed(shape, cases.size(), cases[0].size);
  for (std::size_t i = 0; i < cases.size(); ++i) packed.put(i, cases[i]);
  const auto raw = way.results(packed, {});
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const std::uint64_t result = packed.result_code(raw[i]), expected = emulated(unit, cases[i]);
    ++v.compared;
    if (result == expected) continue;
    if (v.mismatches++ == 0)
      v.first = explain_command(unit.name, shape, cases[i]) + ": instruction " + hex_code(result, shape.output.storage_bytes()) + ", emulated " + hex_code(expected, shape.output.storage_bytes());
  }
}

/// Which neighbours of the unit give every bit of the chosen cases: what to look at first where the unit does not.
void name_neighbours(hardware_way const& way, machine_unit const& unit, golden_cases const& cases) {
  for (changed_unit const& changed : changed_units(unit)) {
    verdict v;
    compare(v, way, changed.unit, cases.one);
    compare(v, way, changed.unit, cases.two);
    std::printf("    with %s: %zu mismatches of %zu\n", changed.rule.c_str(), v.mismatches, v.compared);
  }
}

bool check_unit(hardware_way const& way, machine_unit const& unit, options const& line, safetensors_writer& file) {
  const std::uint64_t seed = line.number("seed", 1), count = line.number("count", std::uint64_t{1} << 14);
  const golden_cases cases = choose_golden_cases(unit, seed, 80, 60);
  verdict v;
  compare(v, way, unit, cases.one);
  compare(v, way, unit, cases.two);
  const case_shape shape = shape_of(unit);
  for (std::size_t g = 0; g < unit_generators.size(); ++g) {
    std::vector<unit_case> random(count);
    for (std::uint64_t i = 0; i < count; ++i) random[i] = make_unit_case(shape, g, seed + 1, i);
    compare(v, way, unit, random);
  }
  std::printf("%s by %s: %zu mismatches of %zu\n", std::string(unit.name).c_str(), std::string(way.instruction).c_str(), v.mismatches, v.compared);
  if (v.mismatches != 0) {
    std::printf("    %s\n", v.first.c_str());
    name_neighbours(way, unit, cases);
  }
  std::fflush(stdout);
  if (line.text("record", "").empty()) return v.mismatches == 0;
  const std::string prefix = std::string(unit.name) + "/";
  add_recorded(file, prefix, way, unit, cases.one);
  add_recorded(file, prefix + "two/", way, unit, cases.two);
  return v.mismatches == 0;
}

/// The questions of cuda/probe, whose answers are stated for Hopper.
bool ask_probes() {
  std::size_t as_stated = 0;
  for (probe const* p : all_probes) {
    findings found;
    try {
      found = p->ask();
    } catch (std::exception const& error) {
      found.say(false, error.what());
    }
    as_stated += found.as_stated;
    if (!found.as_stated) std::printf("probe %s: not as stated\n", std::string(p->name).c_str());
  }
  std::printf("%zu of %zu probes answered as stated\n", as_stated, all_probes.size());
  return as_stated == all_probes.size();
}

/// Random calls of each attention kernel that the GPU has; with `record`, the chosen ones too.  @returns how many of how many groups agree
std::pair<std::size_t, std::size_t> check_attention_kernels(gpu const& here, options const& line, std::string record) {
  std::size_t groups = 0, equal = 0;
  const auto ask = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"--cases", line.text("calls", "60"), "--seed", line.text("seed", "1"), "--stop", "4"});
    ++groups;
    equal += check_attention(attention_options(words));
  };
  if (here.capability == 90) ask({"--kernel", "sm90"});
  if (here.capability / 10 == 8 || here.capability / 10 == 9) {
    ask({"--kernel", "sm80"});
    ask({"--kernel", "sm80", "--backward"});
    if (!record.empty()) {
      if (record.ends_with(".safetensors")) record.resize(record.size() - std::string_view(".safetensors").size());
      ++groups;
      equal += record_golden_calls(record + "_attention", line.number("seed", 1));
    }
  }
  return {equal, groups};
}

bool run(int argc, char** argv) {
  const options line(argc, argv, {"record", "machine", "seed", "count", "calls"});
  if (!line.operands().empty()) throw std::invalid_argument("unexpected '" + line.operands()[0] + "'");
  const gpu here = this_gpu();
  const std::string machine = line.text("machine", here.machine), out = line.text("record", "");
  const device_description device = describe_device();
  std::printf("GPU: %s, compute capability %d.%d\ndriver: %s\nCUDA runtime: %s\nmachine: %s\n", device.gpu.c_str(), here.capability / 10, here.capability % 10,
              device.driver.c_str(), device.cuda.c_str(), machine.empty() ? "none" : machine.c_str());
  safetensors_writer file;
  file.metadata("gpu", device.gpu);
  file.metadata("driver", device.driver);
  file.metadata("cuda", device.cuda);
  file.metadata("machine", machine);
  file.metadata("seed", std::to_string(line.number("seed", 1)));
  file.metadata("generators_sha256", STICKYBIT_UNIT_GENERATORS_SHA256);
  std::size_t units = 0, equal = 0;
  for (hardware_way const& way : hardware_ways()) {
    if (!way.main || here.capability < way.least_capability || (way.only_capability && here.capability != way.least_capability)) continue;
    const auto unit = find_unit(machine + "." + std::string(way.unit));
    if (!unit) {
      std::printf("%s by %s: the machine has no such unit; not compared\n", std::string(way.unit).c_str(), std::string(way.instruction).c_str());
      continue;
    }
    ++units;
    equal += check_unit(way, *unit, line, file);
  }
  bool all = units != 0 && equal == units;
  if (here.capability == 90) all = ask_probes() && all;
  if (!out.empty()) file.write(out);
  const auto [kernels_equal, kernels] = check_attention_kernels(here, line, out);
  all = all && kernels_equal == kernels;
  std::printf("verdict: %zu of %zu units as %s says; %zu of %zu groups of attention calls as their schedules say%s\n", equal, units, machine.empty() ? "no machine" : machine.c_str(), kernels_equal, kernels,
              all ? "" : "; NOT all as stated");
  return all;
}

}  // namespace
}  // namespace stickybit::gpu

int main(int argc, char** argv) { return stickybit::gpu::run_program("stickybit-gpu-check", stickybit::gpu::usage, stickybit::gpu::run, argc, argv); }
