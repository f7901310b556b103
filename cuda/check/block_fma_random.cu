// Random hard inner products: block_fma (on the host: what users run) against mma.sync and wgmma, bit for bit, NaN included.
// Controls, a unit with one number changed, must disagree. Exit status 1 at any mismatch or a control that agrees.
#include <array>
#include <atomic>
#include <cstdio>

#include "../record/case_generators.hpp"
#include "../record/evaluate_cases.cuh"
#include "../support/options.hpp"
#include "../support/parallel.hpp"
#include "../support/program.hpp"
#include "stickybit/block_fma/block_fma.hpp"
#include "stickybit/machine/machine.hpp"

namespace stickybit::gpu {
namespace {

constexpr char const* usage =
    "usage: stickybit-check-block-fma [--generator NAME|all] [--seed S] [--count N]\n"
    "  N inner products of each generator (default: all generators, seed 1, 2^24 = 16777216)\n";

constexpr std::size_t batch_size = std::size_t{1} << 22;

machine_unit const& unit_of(machine const& m, std::string_view name) {
  for (machine_unit const& unit : m.units)
    if (unit.name == name) return unit;
  throw std::runtime_error("no unit " + std::string(name));
}

f32_code emulated(machine_unit const& unit, inner_product_case const& x) {
  return inner_product<format::bf16>(unit, std::span<bf16_code const>(x.a), std::span<bf16_code const>(x.b), x.c);
}

std::vector<inner_product_case> make_cases(std::size_t generator, std::uint64_t seed, std::uint64_t first, std::size_t count) {
  std::vector<inner_product_case> cases(count);
  parallel_ranges(count, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) cases[i] = make_case(generator, seed, first + i);
  });
  return cases;
}

struct tally {
  std::size_t mismatches, first;  // first: index of the first mismatch, if there is one
};

tally compare(machine_unit const& unit, std::span<inner_product_case const> cases, std::span<f32_code const> results) {
  std::atomic<std::size_t> mismatches = 0, first = cases.size();
  parallel_ranges(cases.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      if (emulated(unit, cases[i]) == results[i]) continue;
      ++mismatches;
      for (std::size_t seen = first; i < seen && !first.compare_exchange_weak(seen, i);) {}
    }
  });
  return {mismatches, first};
}

/// The mismatches of one instruction over all batches of one generator.
template <class By>
class instruction_check {
 public:
  void add(std::span<inner_product_case const> cases) {
    const auto results = evaluate<By>(cases);
    const tally found = compare(unit_, cases, results);
    if (mismatches_ == 0 && found.mismatches != 0)
      first_ = operands_of(cases[found.first]) + ": instruction " + hex(results[found.first].to_bits(), 8) + ", emulated " +
               hex(emulated(unit_, cases[found.first]).to_bits(), 8);
    mismatches_ += found.mismatches;
    compared_ += cases.size();
  }
  [[nodiscard]] bool report(std::string_view generator) const {
    std::printf("%.*s %s: %zu mismatches of %zu\n", int(generator.size()), generator.data(), By::name, mismatches_, compared_);
    if (mismatches_ != 0) std::printf("  first: %s\n", first_.c_str());
    std::fflush(stdout);
    return mismatches_ == 0;
  }

 private:
  machine_unit const& unit_ = unit_of(sm90(), By::unit);
  std::size_t mismatches_ = 0, compared_ = 0;
  std::string first_;
};

/// A unit that differs from ours in one number, and a generator that must show it.
struct control {
  char const* what;
  char const* generator;
  void (*change)(machine_unit&);
};

constexpr std::array controls{
    control{"F = 24", "narrow", [](machine_unit& u) { u.alignment_fraction_bits = 24; }},
    control{"F = 26", "narrow", [](machine_unit& u) { u.alignment_fraction_bits = 26; }},
    control{"blocks of 8", "cancelling", [](machine_unit& u) { u.block_size = 8; }},
    control{"E at least -132", "clamp", [](machine_unit& u) { u.min_alignment_exponent = -132; }},
    control{"E at least -134", "clamp", [](machine_unit& u) { u.min_alignment_exponent = -134; }},
    control{"E at least -126", "clamp", [](machine_unit& u) { u.min_alignment_exponent = -126; }},
    control{"rounding to nearest even", "narrow", [](machine_unit& u) { u.output_rounding = rounding::nearest_even; }},
    control{"c added last", "c_offset", [](machine_unit& u) { u.accumulator = accumulator_place::added_last; }},
};

bool controls_disagree(std::uint64_t seed) {
  constexpr std::size_t count = std::size_t{1} << 16;
  bool all = true;
  for (control const& c : controls) {
    machine_unit unit = unit_of(sm90(), by_mma::unit);
    c.change(unit);
    const auto cases = make_cases(generator_named(c.generator), seed, 0, count);
    const tally found = compare(unit, cases, evaluate<by_mma>(cases));
    std::printf("control, %s: %s %s: %zu mismatches of %zu%s\n", c.what, c.generator, by_mma::name, found.mismatches, count,
                found.mismatches == 0 ? ", but there must be some" : "");
    all = all && found.mismatches != 0;
  }
  return all;
}

bool run(int argc, char** argv) {
  const options line(argc, argv, {"generator", "seed", "count"});
  if (!line.operands().empty()) throw std::invalid_argument("unexpected '" + line.operands()[0] + "'");
  const std::string wanted = line.text("generator", "all");
  const std::uint64_t seed = line.number("seed", 1), count = line.number("count", std::uint64_t{1} << 24);

  const device_description device = describe_device();
  std::printf("GPU: %s\ndriver: %s\nCUDA runtime: %s\nseed: %llu\n", device.gpu.c_str(), device.driver.c_str(), device.cuda.c_str(),
              static_cast<unsigned long long>(seed));
  bool all = true;
  for (std::size_t g = 0; g < case_generators.size(); ++g) {
    if (wanted != "all" && g != generator_named(wanted)) continue;
    instruction_check<by_mma> mma;
    instruction_check<by_wgmma> wgmma;
    for (std::uint64_t first = 0; first < count; first += batch_size) {
      const auto cases = make_cases(g, seed, first, std::size_t(std::min<std::uint64_t>(batch_size, count - first)));
      mma.add(cases);
      wgmma.add(cases);
    }
    all = mma.report(case_generators[g].name) && all;
    all = wgmma.report(case_generators[g].name) && all;
  }
  return controls_disagree(seed) && all;
}

}  // namespace
}  // namespace stickybit::gpu

int main(int argc, char** argv) { return stickybit::gpu::run_program("stickybit-check-block-fma", stickybit::gpu::usage, stickybit::gpu::run, argc, argv); }
