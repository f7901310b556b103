// The fast engine against the definition on very many hard dot products, on all cores, with progress: for a machine with many of them.
//   stickybit-check-fast-units [--cases 2^N for each family] [--seconds S at most for each family] [--only part of a family's name] [--seed N]
#include <fmt/format.h>
#include <hwy/targets.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "../unit_products.hpp"
#include "stickybit/block_fma/block_fma.hpp"

using namespace stickybit;

namespace {

struct family {
  std::string_view name;
  double share;  ///< of the cases and of the time
  std::vector<std::string_view> units;
};

/// What an H200 has, then what other machines add.
std::vector<family> const families{
    {"BF16 and FP16", 1, {"sm90.wgmma.bf16.f32", "sm90.wgmma.f16.f32", "sm90.wgmma.f16.f16", "sm90.mma.bf16k8.f32", "sm90.mma.f16k8.f16"}},
    {"TF32", 1, {"sm90.wgmma.tf32.f32", "sm90.mma.tf32k4.f32"}},
    {"FP8 wgmma to FP32", 1, {"sm90.wgmma.e4m3.f32", "sm90.wgmma.e5m2.f32", "sm90.wgmma.e4m3xe5m2.f32", "sm90.wgmma.e5m2xe4m3.f32"}},
    {"FP8 wgmma to FP16", 1, {"sm90.wgmma.e4m3.f16", "sm90.wgmma.e5m2.f16", "sm90.wgmma.e4m3xe5m2.f16", "sm90.wgmma.e5m2xe4m3.f16"}},
    {"FP8 mma.sync to FP32", 1, {"sm90.mma.e4m3.f32", "sm90.mma.e5m2.f32", "sm90.mma.e4m3xe5m2.f32", "sm90.mma.e5m2xe4m3.f32", "sm90.mma.e4m3k16.f32"}},
    {"FP8 mma.sync to FP16", 1, {"sm90.mma.e4m3.f16", "sm90.mma.e5m2.f16", "sm90.mma.e4m3xe5m2.f16", "sm90.mma.e5m2xe4m3.f16"}},
    {"FP8, FP6, FP4 of Blackwell", 0.25, {"sm100.tcgen05.e4m3.f32", "sm100.tcgen05.e5m2.f32", "sm100.tcgen05.e3m2xe2m1.f32", "sm100.tcgen05.e4m3xe2m3.f16"}},
    {"MX", 0.25, {"sm100.tcgen05.mxe4m3.f32", "sm100.tcgen05.mxe5m2xe2m1.f32"}},
    {"FP4 with scales", 0.25, {"sm100.tcgen05.mxf4.f32", "sm100.tcgen05.nvf4.f32"}},
    {"CDNA2", 0.25, {"cdna2.mfma.f16.f32", "cdna2.mfma.bf16.f32", "cdna2.mfma.bf16k8.f32"}},
};

struct settings {
  std::uint64_t cases = std::uint64_t{1} << 30, seed = 0x2fa57;
  double seconds = 1e9;
  std::string only;
};

std::vector<decoded> decoded_of(machine_unit const& unit, format f, std::vector<std::uint32_t> const& codes) {
  std::vector<decoded> all(codes.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = detail::operand_of(unit, decode_bits(f, codes[i]), traits_of(f).fraction_bits());
  return all;
}

/// What evaluate() does, with operands decoded once for the whole tile; groups by evaluate() itself.
std::vector<std::uint32_t> by_definition(machine_unit const& unit, testing::unit_tile const& t) {
  if (unit.arithmetic == block_arithmetic::grouped_sum) return testing::by_evaluate(unit, t);
  const std::vector<decoded> a = decoded_of(unit, unit.input, t.a), b = decoded_of(unit, unit.input_b, t.b);
  const int scale_bits = traits_of(unit.input).fraction_bits() + traits_of(unit.input_b).fraction_bits();
  const auto length = std::size_t(t.length), width = std::size_t(t.columns), scales = std::size_t(testing::scale_count(unit, t.length));
  std::vector<std::uint32_t> d(t.c.size());
  for (std::size_t i = 0; i < d.size(); ++i) {
    decoded const *row = &a[i / width * length], *column = &b[i % width * length];
    const auto product = [&](std::size_t k, detail::special_state& special) {
      detail::block_term term = detail::product_term(row[k], column[k], scale_bits, special);
      if (unit.scale_block == 0) return term;
      const std::size_t at = k / std::size_t(unit.scale_block);
      for (std::uint8_t code : {t.scale_a[i / width * scales + at], t.scale_b[i % width * scales + at]}) {
        const decoded scale = decode_bits(unit.scale, code);
        if (scale.kind == number_class::nan) special.nan = true;
        term.exponent += scale.e;
      }
      return term;
    };
    d[i] = detail::chain_of_instructions(unit, length, product, f32_code::from_bits(t.c[i]), null_sink{}).to_bits();
  }
  return d;
}

struct outcome {
  std::atomic<std::uint64_t> cases{0}, mismatches{0}, next_tile{0};
  std::mutex mutex;
  std::string first;
};

/// Tiles until there are enough cases or no time; one thread's part.
void take_tiles(machine_unit const& unit, settings const& s, std::uint64_t cases, std::chrono::steady_clock::time_point end, outcome& out) {
  rows_times_panel fast(unit, engine::fast);
  testing::unit_tile t{};
  while (out.cases < cases && std::chrono::steady_clock::now() < end) {
    const std::uint64_t tile = out.next_tile++;
    testing::random_bits next(s.seed ^ (tile * 0xd1342543de82ef95));
    const int instruction = std::max(unit.instruction_k, unit.block_size);
    t.rows = next.between(4, 16);
    t.columns = next.between(16, 64);
    t.length = next.one_in(8) ? next.between(1, 3 * instruction) : instruction;
    const std::size_t kind = tile % testing::unit_kinds.size();
    testing::fill_unit_tile(next, unit, testing::unit_kind(kind), t);
    const std::vector<std::uint32_t> expected = by_definition(unit, t), got = testing::by_rows_times_panel(fast, unit, t, {t.length, t.columns, t.rows});
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (got[i] == expected[i]) continue;
      if (out.mismatches++ != 0) continue;
      const std::lock_guard lock(out.mutex);
      out.first = fmt::format("tile {}, {}, {}", tile, testing::unit_kinds[kind], testing::words_of(unit, t, i, got[i], expected[i]));
    }
    out.cases += got.size();
  }
}

/// @returns mismatches
std::uint64_t run_unit(machine_unit const& unit, settings const& s, std::uint64_t cases, double seconds, std::string_view target) {
  const auto start = std::chrono::steady_clock::now();
  outcome out;
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i)
    threads.emplace_back([&] { take_tiles(unit, s, cases, start + std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds)), out); });
  threads.clear();
  fmt::print("{} on {}: {} mismatches of {}, {:.1f} s\n", unit.name, target, out.mismatches.load(), out.cases.load(), std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  if (out.mismatches != 0) fmt::print("  first: {}\n", out.first);
  std::fflush(stdout);
  return out.mismatches;
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown";
}

settings settings_of(int argc, char** argv) {
  settings s;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i], value = argv[i + 1];
    if (name == "--cases") s.cases = value.starts_with("2^") ? std::uint64_t{1} << std::atoi(argv[i + 1] + 2) : std::strtoull(argv[i + 1], nullptr, 0);
    if (name == "--seconds") s.seconds = std::atof(argv[i + 1]);
    if (name == "--only") s.only = value;
    if (name == "--seed") s.seed = std::strtoull(argv[i + 1], nullptr, 0);
  }
  return s;
}

}  // namespace

/// Every family on the best target; a sixteenth of it on each other one. 1 where anything differs.
int main(int argc, char** argv) {
  const settings s = settings_of(argc, argv);
  std::vector<std::int64_t> targets = hwy::SupportedAndGeneratedTargets();
  std::erase(targets, HWY_SCALAR);  // is the definition
  fmt::print("fast engine against the definition; {}, {} threads; at least {} dot products a family of an H200 (or {} s), a quarter of others, a sixteenth on further targets; 12 kinds of tiles, rows 4 ... 16, columns 16 ... 64, seed {:#x}\n", cpu_name(),
             std::thread::hardware_concurrency(), s.cases, s.seconds, s.seed);
  std::uint64_t mismatches = 0;
  for (std::int64_t target : targets) {
    hwy::SetSupportedTargetsForTest(target);
    for (family const& f : families) {
      const double share = f.share * (target == targets.front() ? 1 : 1.0 / 16) / double(f.units.size());
      if (f.name.find(s.only) == f.name.npos) continue;
      fmt::print("# {}\n", f.name);
      for (std::string_view name : f.units) mismatches += run_unit(unit_named(name), s, std::uint64_t(double(s.cases) * share), s.seconds * share, hwy::TargetName(target));
    }
  }
  fmt::print("{} mismatches\n", mismatches);
  return mismatches == 0 ? 0 : 1;
}
