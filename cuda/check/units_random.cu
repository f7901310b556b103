// Random hard inner products on every tensor-core unit of an H200: evaluate() (on the host: what users run) against each instruction,
// bit for bit, NaN included. For each unit a control, the unit with one number changed, must disagree. Exit status 1 at any mismatch
// or a control that agrees.
#include <chrono>

#include "../support/device.cuh"
#include "../support/options.hpp"
#include "../support/program.hpp"
#include "unit_ways.hpp"

namespace stickybit::gpu {
namespace {

constexpr char const* usage =
    "usage: stickybit-check-units [--machine sm90] [--unit NAME|all] [--generator NAME|all] [--seed S] [--count N] [--forms 0|1]\n"
    "  N inner products of each generator for each unit (default: sm90, all, all, seed 1, 2^24 = 16777216), by every instruction that has the unit;\n"
    "  --forms 1: negated, transposed and wider forms of wgmma too, which are the same units\n";

constexpr std::size_t batch_size = std::size_t{1} << 19;

/// Mismatches of one way with one generator.
struct tally {
  std::size_t compared = 0, mismatches = 0;
  std::vector<std::string> first;  // up to three
};

void compare(hardware_way const& way, machine_unit const& unit, unit_batch const& batch, tally& t) {
  const negated_operands negated = negated_by(way);
  const case_shape shape = shape_of(unit);
  packed_cases called = batch.cases;
  if (negated.any())
    for (std::size_t i = 0; i < called.count; ++i) called.put(i, as_called(negated, shape, called.at(i)));
  const std::vector<std::uint64_t> results = way.results(called, {});
  t.compared += results.size();
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::uint64_t result = batch.cases.result_code(results[i]);
    if (result == batch.emulated[i]) continue;
    ++t.mismatches;
    const int bytes = shape.output == f64_format ? 8 : 4;
    if (t.first.size() < 3)
      t.first.push_back(explain_command(unit.name, shape, batch.cases.at(i)) + ": instruction " + hex_code(result, bytes) + ", emulated " + hex_code(batch.emulated[i], bytes));
  }
}

struct settings {
  std::string generator;
  std::uint64_t seed, count;
};

bool check_unit(unit_ways const& u, settings const& s) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<tally> totals(u.ways.size());
  for (std::size_t g = 0; g < unit_generators.size(); ++g) {
    if (s.generator != "all" && g != unit_generator_named(s.generator)) continue;
    std::vector<tally> tallies(u.ways.size());
    for (std::uint64_t first = 0; first < s.count; first += batch_size) {
      const unit_batch batch = make_batch(u.unit, g, s.seed, first, std::size_t(std::min<std::uint64_t>(batch_size, s.count - first)));
      for (std::size_t w = 0; w < u.ways.size(); ++w) compare(u.ways[w], u.unit, batch, tallies[w]);
    }
    std::size_t compared = 0, mismatches = 0;
    for (std::size_t w = 0; w < u.ways.size(); ++w) {
      compared += tallies[w].compared;
      mismatches += tallies[w].mismatches;
      totals[w].compared += tallies[w].compared;
      totals[w].mismatches += tallies[w].mismatches;
      if (tallies[w].mismatches == 0) continue;
      std::printf("  %s by %s: %zu mismatches of %zu\n", std::string(unit_generators[g].name).c_str(), std::string(u.ways[w].instruction).c_str(), tallies[w].mismatches, tallies[w].compared);
      for (std::string const& text : tallies[w].first) std::printf("    %s\n", text.c_str());
    }
    std::printf("%s %s: %zu mismatches of %zu\n", std::string(u.unit.name).c_str(), std::string(unit_generators[g].name).c_str(), mismatches, compared);
    std::fflush(stdout);
  }
  bool equal = true;
  for (std::size_t w = 0; w < u.ways.size(); ++w) {
    std::printf("%s by %s, all generators: %zu mismatches of %zu\n", std::string(u.unit.name).c_str(), std::string(u.ways[w].instruction).c_str(), totals[w].mismatches, totals[w].compared);
    equal = equal && totals[w].mismatches == 0;
  }
  std::fprintf(stderr, "%s: %.1f s\n", std::string(u.unit.name).c_str(), std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  return equal;
}

/// The unit with F one less, or FP64's chain in descending order, with a generator that must show it.
bool control_disagrees(unit_ways const& u, std::uint64_t seed) {
  constexpr std::size_t count = std::size_t{1} << 14;
  const bool chain = u.unit.arithmetic == block_arithmetic::fma_chain;
  const std::size_t generator = unit_generator_named(chain ? "narrow" : "quantum_edge");
  machine_unit changed = u.unit;
  changed.alignment_fraction_bits -= 1;
  const case_shape shape = shape_of(u.unit);
  packed_cases cases(shape, count, shape.k * instructions_of(generator, shape));
  std::size_t mismatches = 0;
  for (std::size_t i = 0; i < count; ++i) cases.put(i, make_unit_case(shape, generator, seed, i));
  const auto results = u.ways[0].results(cases, {});
  for (std::size_t i = 0; i < count; ++i) {
    unit_case x = cases.at(i);
    if (chain) {
      std::reverse(x.a.begin(), x.a.begin() + x.size);
      std::reverse(x.b.begin(), x.b.begin() + x.size);
    }
    mismatches += cases.result_code(results[i]) != emulated(changed, x);
  }
  std::printf("control, %s with %s: %zu mismatches of %zu%s\n", std::string(u.unit.name).c_str(), chain ? "descending k" : "F one less", mismatches, count,
              mismatches == 0 ? ", but there must be some" : "");
  return mismatches != 0;
}

bool run(int argc, char** argv) {
  const options line(argc, argv, {"machine", "unit", "generator", "seed", "count", "forms"});
  if (!line.operands().empty()) throw std::invalid_argument("unexpected '" + line.operands()[0] + "'");
  const settings s{line.text("generator", "all"), line.number("seed", 1), line.number("count", std::uint64_t{1} << 24)};
  const device_description device = describe_device();
  std::printf("GPU: %s\ndriver: %s\nCUDA runtime: %s\nseed: %llu\ncount of each generator: %llu\n", device.gpu.c_str(), device.driver.c_str(), device.cuda.c_str(),
              static_cast<unsigned long long>(s.seed), static_cast<unsigned long long>(s.count));
  bool all = true;
  const auto units = units_to_check(line.text("machine", "sm90"), line.text("unit", "all"), line.number("forms", 0) != 0);
  for (unit_ways const& u : units) all = check_unit(u, s) && all;
  for (unit_ways const& u : units) all = control_disagrees(u, s.seed) && all;
  return all && !units.empty();
}

}  // namespace
}  // namespace stickybit::gpu

int main(int argc, char** argv) { return stickybit::gpu::run_program("stickybit-check-units", stickybit::gpu::usage, stickybit::gpu::run, argc, argv); }
