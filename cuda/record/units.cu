// Records hard inner products, chosen so that every rule of a unit is told from its neighbours, with their results by the tensor cores: one
// golden file a unit. a, b [n,K] in the operands' types, c, d F32 [n]: FP32 codes, also of FP16 results; two/a ... the same for two
// instructions in a row. FP64: pairs of 32-bit words, the low one first.
#include <cstdio>
#include <filesystem>

#include "../support/device.cuh"
#include "../support/options.hpp"
#include "../support/program.hpp"
#include "golden_file.hpp"

namespace stickybit::gpu {
namespace {

constexpr char const* usage =
    "usage: stickybit-record-units FOLDER [--machine sm90] [--seed S] [--per-generator N] [--per-rule N]\n"
    "  (default: seed 1, 40 cases of each generator and 40 that show each rule)\n";

bool record(hardware_way const& way, machine_unit const& unit, std::string const& folder, options const& line) {
  const std::uint64_t seed = line.number("seed", 1), per_generator = line.number("per-generator", 40), per_rule = line.number("per-rule", 40);
  const golden_cases cases = choose_golden_cases(unit, seed, per_generator, per_rule);
  safetensors_writer file;
  const device_description device = describe_device();
  file.metadata("gpu", device.gpu);
  file.metadata("driver", device.driver);
  file.metadata("cuda", device.cuda);
  file.metadata("unit", std::string(unit.name));
  file.metadata("instruction", std::string(way.instruction));
  file.metadata("seed", std::to_string(seed));
  file.metadata("per_generator", std::to_string(per_generator));
  file.metadata("per_rule", std::to_string(per_rule));
  file.metadata("generators_sha256", STICKYBIT_UNIT_GENERATORS_SHA256);  // of the files that cuda/CMakeLists.txt lists, one after the other
  const recorded_unit one = add_recorded(file, "", way, unit, cases.one), two = add_recorded(file, "two/", way, unit, cases.two);
  const std::string path = folder + "/" + std::string(unit.name.substr(unit.name.find('.') + 1)) + ".safetensors";
  file.write(path);
  std::printf("%s by %s: %zu and %zu cases, %zu and %zu mismatches with the definition\n", path.c_str(), std::string(way.instruction).c_str(), one.cases, two.cases, one.mismatches, two.mismatches);
  return one.mismatches + two.mismatches == 0;
}

bool run(int argc, char** argv) {
  const options line(argc, argv, {"machine", "seed", "per-generator", "per-rule"});
  if (line.operands().size() != 1) throw std::invalid_argument("expected one folder");
  std::filesystem::create_directories(line.operands()[0]);
  bool equal = true;
  for (hardware_way const& way : hardware_ways()) {
    const auto unit = find_unit(line.text("machine", "sm90") + "." + std::string(way.unit));
    if (way.main && unit) equal = record(way, *unit, line.operands()[0], line) && equal;
  }
  return equal;
}

}  // namespace
}  // namespace stickybit::gpu

int main(int argc, char** argv) { return stickybit::gpu::run_program("stickybit-record-units", stickybit::gpu::usage, stickybit::gpu::run, argc, argv); }
