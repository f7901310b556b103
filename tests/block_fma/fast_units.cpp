// The fast engine against the definition, code for code: every unit of every machine, and units with other numbers, on every SIMD target.
#include <functional>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/simd_targets.hpp"
#include "support/tally.hpp"
#include "unit_products.hpp"

using namespace stickybit;

namespace {

/// A tile of one kind: one instruction, or up to several of any length.
testing::unit_tile tile_of(testing::random_bits& next, machine_unit const& unit, std::size_t kind) {
  const int instruction = std::max(unit.instruction_k, unit.block_size);
  const int length = next.one_in(2) ? instruction : next.one_in(3) ? next.between(1, 5 * instruction + 100) : next.between(1, 2 * instruction + 16);
  testing::unit_tile t{next.between(1, 9), next.between(1, 37), length, {}, {}, {}, {}, {}};
  testing::fill_unit_tile(next, unit, testing::unit_kind(kind), t);
  return t;
}

/// Each kind of tile `repeats` times, whole and in pieces, on each target.
void compare(machine_unit const& unit, testing::tally& all, std::uint64_t seed, int repeats, std::vector<std::int64_t> const& targets) {
  testing::random_bits next(seed);
  rows_times_panel fast(unit, engine::fast);
  for (int repeat = 0; repeat < repeats; ++repeat)
    for (std::size_t kind = 0; kind < testing::unit_kinds.size(); ++kind) {
      const testing::unit_tile t = tile_of(next, unit, kind);
      const std::vector<std::uint32_t> expected = testing::by_evaluate(unit, t);
      const testing::tile_steps whole{t.length, t.columns, t.rows}, pieces{fast.k_step() * next.between(1, 3), 16 * next.between(1, 2), next.between(1, 5)};
      for (std::int64_t target : targets) {
        const testing::forced_target forced(target);
        for (testing::tile_steps const& steps : {whole, pieces}) {
          const std::vector<std::uint32_t> got = testing::by_rows_times_panel(fast, unit, t, steps);
          for (std::size_t i = 0; i < got.size(); ++i)
            all.expect(got[i] == expected[i], [&] { return fmt::format("{}, {}, {}", hwy::TargetName(target), testing::unit_kinds[kind], testing::words_of(unit, t, i, got[i], expected[i])); });
        }
      }
    }
}

machine_unit named(char const* name, std::function<void(machine_unit&)> const& change) {
  machine_unit unit = unit_named(name);
  change(unit);
  return unit;
}

}  // namespace

TEST_CASE("fast engine: equals the definition on every unit of every machine, rows 1 to 9, columns 1 to 37, any K, sampled", "[block_fma][simd][sampled]") {
  constexpr std::uint64_t seed = 0x0fa57;
  const std::vector<machine_unit> units = testing::units_of_all_machines();
  testing::tally all(fmt::format("rows_times_panel by SIMD on {} against evaluate(), {} units, 12 kinds of tiles", hwy::TargetName(testing::simd_targets().front()), units.size()), seed);
  for (machine_unit const& unit : units) compare(unit, all, seed, 4, {testing::simd_targets().front()});
  all.check();
}

TEST_CASE("fast engine: equals the definition on every SIMD target, one unit of a kind, sampled", "[block_fma][simd][sampled]") {
  constexpr std::uint64_t seed = 0x0fa58;
  testing::tally all(fmt::format("rows_times_panel by SIMD on {} against evaluate()", testing::names_of(testing::simd_targets())), seed);
  for (char const* name : {"sm90.wgmma.tf32.f32", "sm80.mma.tf32.f32", "sm90.wgmma.e4m3.f32", "sm90.wgmma.e5m2xe4m3.f16", "sm89.mma.e5m2.f32", "sm90.mma.e4m3.f32", "sm90.mma.e4m3xe5m2.f16",
                           "sm100.tcgen05.e4m3.f32", "sm100.tcgen05.e3m2xe2m1.f16", "sm120.mma.mxe5m2xe2m3.f32", "sm100.tcgen05.mxf4.f32", "sm120.mma.nvf4.f32", "cdna2.mfma.f16.f32", "cdna2.mfma.bf16k8.f32",
                           "cdna3.mfma.e4m3fnuz.f32"})
    compare(unit_named(name), all, seed, 6, testing::simd_targets());
  all.check();
}

TEST_CASE("fast engine: equals the definition with other numbers in the unit, sampled", "[block_fma][mutation][sampled]") {
  constexpr std::uint64_t seed = 0x0fa59;
  std::vector<std::pair<char const*, std::function<void(machine_unit&)>>> changes{
      {"rounded to nearest", [](machine_unit& u) { u.output_rounding = rounding::nearest_even; }},
      {"c added last", [](machine_unit& u) { u.accumulator = accumulator_place::added_last; }},
      {"c aligned", [](machine_unit& u) { u.accumulator = accumulator_place::aligned; }},
      {"ascending", [](machine_unit& u) { u.order = product_order::ascending; }},
      {"instructions of 64 in ascending k", [](machine_unit& u) { u.order = product_order::ascending, u.instruction_k = 64; }},
      {"flushed", [](machine_unit& u) { u.flushes_subnormals = true; }},
      {"A of E5M2", [](machine_unit& u) { u.input = format::e5m2; }},
      {"B of TF32", [](machine_unit& u) { u.input_b = format::tf32; }},
      {"A and B of E4M3 FNUZ and E5M2 FNUZ", [](machine_unit& u) { u.input = format::e4m3fnuz, u.input_b = format::e5m2fnuz; }},
      {"FP16 results", [](machine_unit& u) { u.output = format::f16, u.output_rounding = rounding::nearest_even, u.min_alignment_exponent = -21; }},
      {"E >= -60", [](machine_unit& u) { u.min_alignment_exponent = -60; }},
      {"E >= -200", [](machine_unit& u) { u.min_alignment_exponent = -200; }},
      {"scales for 64", [](machine_unit& u) { u.scale_block = 64; }},
      {"scales for 16", [](machine_unit& u) { u.scale_block = 16; }},
      {"E4M3 scales", [](machine_unit& u) { u.scale = format::e4m3fn; }},
  };
  for (int f : {10, 12, 14, 23, 24, 25, 26, 27, 34, 36, 37}) changes.emplace_back("F", [f](machine_unit& u) { u.alignment_fraction_bits = f; });
  for (int n : {4, 8, 16, 32}) changes.emplace_back("blocks", [n](machine_unit& u) { u.block_size = n, u.instruction_k = u.order == product_order::pairs ? 2 * n : n; });
  for (int bits : {1, 12, 13, 22}) changes.emplace_back("fraction bits", [bits](machine_unit& u) { u.output_fraction_bits = bits; });
  testing::tally all(fmt::format("rows_times_panel by SIMD on {} against evaluate(), {} changes of 10 units", hwy::TargetName(testing::simd_targets().front()), changes.size()), seed);
  for (char const* name : {"sm90.wgmma.bf16.f32", "sm90.wgmma.tf32.f32", "sm90.wgmma.e4m3.f32", "sm90.wgmma.e5m2.f16", "sm90.mma.e4m3.f32", "sm90.mma.e5m2.f16", "sm100.tcgen05.e4m3.f32",
                           "sm100.tcgen05.mxe4m3.f32", "sm100.tcgen05.mxf4.f32", "sm100.tcgen05.nvf4.f32"})
    for (auto const& [words, change] : changes) {
      const machine_unit unit = named(name, change);
      if (unit.arithmetic == block_arithmetic::grouped_sum && (unit.block_size != 64 || unit.input != format::e2m1 || unit.input_b != format::e2m1)) continue;  // no group of 16
      INFO(name << ", " << words);
      compare(unit, all, seed, 1, {testing::simd_targets().front()});
    }
  all.check();
}

TEST_CASE("fast engine: a sum below 2^-126 within CDNA2's tree is 0, and a subnormal c of FP4 with scales has the exponent -126", "[block_fma]") {
  const auto both = [](machine_unit const& unit, testing::unit_tile t) {
    t.rows = 1;
    t.columns = 16;
    for (int j = 1; j < 16; ++j) {
      t.b.insert(t.b.end(), t.b.begin(), t.b.begin() + t.length);
      t.scale_b.insert(t.scale_b.end(), t.scale_b.begin(), t.scale_b.begin() + testing::scale_count(unit, t.length));
    }
    t.c.resize(16, t.c[0]);
    const std::vector<std::uint32_t> expected = testing::by_evaluate(unit, t);
    for (std::int64_t target : testing::simd_targets()) {
      const testing::forced_target forced(target);
      rows_times_panel fast(unit, engine::fast);
      CHECK(testing::by_rows_times_panel(fast, unit, t, {t.length, 16, 1}) == expected);
    }
    return expected[0];
  };
  // (2^-126 + 2^-133) − 2^-126 is flushed before c = 2^-126 is added.
  CHECK(both(unit_named("cdna2.mfma.bf16.f32"), {1, 16, 4, {0x3f81, 0x3f80, 0, 0}, {0x0080, 0x8080, 0, 0}, {}, {}, {0x00800000}}) == 0x00800000);
  // −2^-162 lies below 2^(-126 - 35), so it does not take a unit from c.
  testing::unit_tile t{1, 16, 64, std::vector<std::uint32_t>(64), std::vector<std::uint32_t>(64), {127 - 80, 127}, {127 - 80, 127}, {0x00000007}};
  t.a[0] = 1;
  t.b[0] = 9;
  CHECK(both(unit_named("sm100.tcgen05.mxf4.f32"), t) == 0x00000007);
}

TEST_CASE("fast engine: scales that are missing, of another format or for other lengths throw shape_error", "[block_fma]") {
  const machine_unit unit = unit_named("sm100.tcgen05.mxe4m3.f32");
  const std::vector<std::uint8_t> codes(64), scales(2, 127);
  std::vector<f32_code> c(1);
  rows_times_panel product(unit, engine::fast);
  const operand_scales good{scales, format::e8m0, 32, 1, 2};
  const auto call = [&](operand_scales const& a, operand_scales const& b) {
    const column_panel panel(format::e4m3fn, codes, 64, 1, 1, 64, b);
    product.accumulate(raw_rows{codes, 1, 64, 64, a}, panel, 0, 0, matrix_rows<f32_code>(c.data(), 1, 1, 1));
  };
  CHECK_NOTHROW(call(good, good));
  CHECK_THROWS_AS(call({}, good), shape_error);
  CHECK_THROWS_AS(call(good, {}), shape_error);
  CHECK_THROWS_AS(call(good, {scales, format::e4m3fn, 32, 1, 2}), shape_error);
  CHECK_THROWS_AS(call({scales, format::e8m0, 64, 1, 1}, good), shape_error);
  CHECK_THROWS_AS(call({std::span(scales).first(1), format::e8m0, 32, 1, 2}, good), shape_error);
  CHECK_THROWS_AS(rows_times_panel(unit_named("sm90.mma.f64.f64"), engine::fast), shape_error);
}
