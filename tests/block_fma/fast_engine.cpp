// The SIMD form of block_fma against the definition, code for code: every unit of 16-bit operands, on every SIMD target of this machine.
#include <algorithm>
#include <cfenv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/ranges.h>

#include "stickybit/block_fma/column_panel.hpp"
#include "support/catch.hpp"
#include "support/simd_targets.hpp"
#include "support/tally.hpp"
#include "tiles.hpp"
#include "units.hpp"

using namespace stickybit;

namespace {

/// Units of BF16 or FP16 operands; of units with the same numbers the first.
std::vector<machine_unit> distinct_units() {
  const auto numbers = [](machine_unit const& u) {
    return std::tuple(u.input, u.output, u.block_size, u.alignment_fraction_bits, u.min_alignment_exponent, u.output_rounding, u.accumulator);
  };
  std::vector<machine_unit> units;
  for (machine const* m : all_machines())
    for (machine_unit const& u : m->units) {
      const bool narrow = u.input == format::bf16 || u.input == format::f16;
      if (narrow && std::none_of(units.begin(), units.end(), [&](auto const& known) { return numbers(known) == numbers(u); })) units.push_back(u);
    }
  return units;
}

/// f.operator()<In>(), In the unit's input.
template <class F>
void with_input(machine_unit const& unit, F&& f) {
  if (unit.input == format::bf16) f.template operator()<format::bf16>();
  else f.template operator()<format::f16>();
}

template <format F>
std::vector<code<F>> typed(std::vector<std::uint16_t> const& bits) {
  std::vector<code<F>> codes(bits.size());
  std::transform(bits.begin(), bits.end(), codes.begin(), [](std::uint16_t b) { return code<F>::from_bits(b); });
  return codes;
}

// One block of every row and column of a tile.

template <format In>
std::vector<f32_code> by_block_fma(machine_unit const& unit, testing::tile const& t) {
  const auto a = typed<In>(t.a), b = typed<In>(t.b);
  const std::span<code<In> const> rows(a), columns(b);
  std::vector<f32_code> c(t.c.size());
  const auto n = std::size_t(unit.block_size), width = std::size_t(t.columns);
  for (std::size_t i = 0; i < std::size_t(t.rows); ++i)
    for (std::size_t j = 0; j < width; ++j)
      c[i * width + j] = block_fma<In>(unit, rows.subspan(i * 16, n), columns.subspan(j * 16, n), f32_code::from_bits(t.c[i * width + j]));
  return c;
}

template <format In>
std::vector<f32_code> by_fast_form(machine_unit const& unit, testing::tile const& t) {
  const auto a = typed<In>(t.a), b = typed<In>(t.b);
  std::vector<f32_code> c(t.c.size());
  std::transform(t.c.begin(), t.c.end(), c.begin(), [](std::uint32_t bits) { return f32_code::from_bits(bits); });
  const column_panel panel(b.data(), unit.block_size, t.columns, 1, 16);
  rows_times_panel product(unit, engine::fast);
  product.accumulate<In>({a.data(), t.rows, unit.block_size, 16}, panel, 0, 0, {c.data(), t.rows, t.columns, t.columns});
  return c;
}

/// Element `at` of a tile in words that can be typed in again.
std::string in_words(machine_unit const& unit, testing::tile const& t, std::size_t at, f32_code got, f32_code expected) {
  const auto n = std::size_t(unit.block_size);
  const std::span<std::uint16_t const> a(t.a), b(t.b);
  return fmt::format("{}: a {:04x} b {:04x} c {:08x}: {:08x}, not {:08x}", unit.name, fmt::join(a.subspan(at / std::size_t(t.columns) * 16, n), ","),
                     fmt::join(b.subspan(at % std::size_t(t.columns) * 16, n), ","), t.c[at], got.to_bits(), expected.to_bits());
}

struct differences {
  std::uint64_t count = 0;
  std::size_t first = 0;
  f32_code got;
};
differences between(std::vector<f32_code> const& got, std::vector<f32_code> const& expected) {
  differences d;
  for (std::size_t i = got.size(); i-- > 0;)
    if (got[i] != expected[i]) d = {d.count + 1, i, got[i]};
  return d;
}

/// At least `cases` blocks of one unit: by the definition once, then on each target. On all cores.
/// @param batch  tiles that are made at once
template <format In>
void compare_tiles(machine_unit const& unit, std::uint64_t seed, std::uint64_t cases, std::vector<std::int64_t> const& targets, std::size_t batch) {
  std::vector<testing::tally> tallies;
  for (std::int64_t t : targets) tallies.emplace_back(fmt::format("one block by SIMD, {} on {}, 11 kinds of tiles, rows 4 ... 16, columns 16 ... 64", unit.name, hwy::TargetName(t)), seed);
  std::vector<testing::tile> tiles(batch);
  std::vector<std::vector<f32_code>> expected(batch);
  std::vector<differences> found(batch);
  for (std::uint64_t first = 0; tallies.front().cases() < cases; first += batch) {
#pragma omp parallel for schedule(dynamic)
    for (std::size_t at = 0; at < batch; ++at) {
      testing::random_bits next(seed ^ ((first + at) * 0xd1342543de82ef95));
      tiles[at].rows = next.between(4, 16);
      tiles[at].columns = next.between(16, 64);
      testing::fill_tile(next, unit, testing::tile_kind(at % testing::tile_kinds.size()), unit.block_size, tiles[at]);
      expected[at] = by_block_fma<In>(unit, tiles[at]);
    }
    for (std::size_t t = 0; t < targets.size(); ++t) {
      const testing::forced_target forced(targets[t]);
#pragma omp parallel for schedule(dynamic)
      for (std::size_t i = 0; i < batch; ++i) found[i] = between(by_fast_form<In>(unit, tiles[i]), expected[i]);
      for (std::size_t i = 0; i < batch; ++i)
        tallies[t].add(expected[i].size(), found[i].count, [&] {
          return fmt::format("tile {}, {}, {}", first + i, testing::tile_kinds[i % testing::tile_kinds.size()],
                             in_words(unit, tiles[i], found[i].first, found[i].got, expected[i][found[i].first]));
        });
    }
  }
  for (testing::tally const& t : tallies) t.check();
}

// Products of any shape.

/// A against B[K×N], a part of it: k in [k_begin, k_end), n in [n_begin, n_end). What lies between the rows is NaN. A may reach
/// beyond K, to a multiple of 16: there it meets +0.
template <format In>
struct product_case {
  std::int64_t rows, k_count, n_count, a_stride, c_stride, k_stride, n_stride;
  std::int64_t k_begin, k_end, n_begin, n_end;
  std::vector<code<In>> a, b;
  std::vector<f32_code> c;
};

template <format In>
product_case<In> make(testing::random_bits& next, machine_unit const& unit) {
  product_case<In> p{};
  p.rows = next.between(1, 9);
  p.k_count = next.one_in(8) ? next.between(1, 600) : next.between(1, 70);
  p.n_count = next.between(1, 50);
  const std::int64_t k_padded = (p.k_count + 15) / 16 * 16;
  p.a_stride = k_padded + (next.one_in(2) ? next.between(1, 20) : 0);
  p.c_stride = p.n_count + (next.one_in(2) ? next.between(1, 20) : 0);
  const int gap = next.one_in(2) ? next.between(1, 20) : 0;
  if (next.one_in(2)) p.k_stride = p.n_count + gap, p.n_stride = 1;
  else p.k_stride = 1, p.n_stride = p.k_count + gap;
  p.k_begin = next.one_in(2) ? 0 : 16 * next.below(std::uint32_t(p.k_count + 15) / 16);
  p.k_end = next.one_in(4) ? k_padded : next.one_in(2) ? p.k_count : std::min(p.k_count, p.k_begin + 16 * next.between(1, 20));
  p.n_begin = next.one_in(2) ? 0 : 16 * next.below(std::uint32_t(p.n_count + 15) / 16);
  p.n_end = next.one_in(2) ? p.n_count : next.between(int(p.n_begin), int(p.n_count));
  p.a.assign(std::size_t(p.rows * p.a_stride), code<In>::nan());
  p.b.assign(std::size_t(std::max(p.k_count * p.k_stride, p.n_count * p.n_stride)), code<In>::nan());
  p.c.assign(std::size_t(p.rows * p.c_stride), f32_code::from_bits(0xdeadbeef));
  testing::tile t{int(p.rows), int(p.n_count), {}, {}, {}};
  const std::uint32_t kinds = testing::tile_kinds.size(), usual = next.below(kinds);
  for (std::int64_t k = 0; k < k_padded; ++k) {
    if (k % 16 == 0) testing::fill_tile(next, unit, testing::tile_kind(next.one_in(4) ? next.below(kinds) : usual), unit.block_size, t);
    for (std::int64_t i = 0; i < p.rows; ++i) p.a[std::size_t(i * p.a_stride + k)] = code<In>::from_bits(t.a[std::size_t(i * 16 + k % 16)]);
    for (std::int64_t j = 0; k < p.k_count && j < p.n_count; ++j) p.b[std::size_t(k * p.k_stride + j * p.n_stride)] = code<In>::from_bits(t.b[std::size_t(j * 16 + k % 16)]);
    if (k == p.k_begin)
      for (std::int64_t i = 0; i < p.rows; ++i)
        for (std::int64_t j = 0; j < p.n_count; ++j) p.c[std::size_t(i * p.c_stride + j)] = f32_code::from_bits(t.c[std::size_t(i * p.n_count + j)]);
  }
  return p;
}

template <format In>
std::vector<f32_code> by_chain(machine_unit const& unit, product_case<In> const& p) {
  std::vector<f32_code> c = p.c;
  std::vector<code<In>> column(std::size_t(p.k_end - p.k_begin));
  for (std::int64_t j = p.n_begin; j < p.n_end; ++j) {
    for (std::int64_t k = p.k_begin; k < p.k_end; ++k) column[std::size_t(k - p.k_begin)] = k < p.k_count ? p.b[std::size_t(k * p.k_stride + j * p.n_stride)] : code<In>::zero();
    for (std::int64_t i = 0; i < p.rows; ++i) {
      const std::span<code<In> const> row(p.a.data() + i * p.a_stride + p.k_begin, column.size());
      f32_code& to = c[std::size_t(i * p.c_stride + j)];
      to = inner_product<In>(unit, row, std::span<code<In> const>(column), to);
    }
  }
  return c;
}

struct steps {
  std::int64_t k, n, rows;
};

/// In pieces, called in the host's rounding mode `mode`.  @param kept becomes false when the mode changes
template <format In>
std::vector<f32_code> in_pieces(rows_times_panel& product, product_case<In> const& p, steps step, int mode, bool& kept) {
  std::vector<f32_code> c = p.c;
  std::fesetround(mode);
  const column_panel panel(p.b.data(), p.k_count, p.n_count, p.k_stride, p.n_stride);
  for (std::int64_t i = 0; i < p.rows; i += step.rows)
    for (std::int64_t k = p.k_begin; k < p.k_end; k += step.k)
      for (std::int64_t n = p.n_begin; n < p.n_end; n += step.n) {
        const std::int64_t rows = std::min(step.rows, p.rows - i);
        product.accumulate<In>({p.a.data() + i * p.a_stride + k, rows, std::min(step.k, p.k_end - k), p.a_stride}, panel, k, n,
                               {c.data() + i * p.c_stride + n, rows, std::min(step.n, p.n_end - n), p.c_stride});
        kept = kept && std::fegetround() == mode;
      }
  std::fesetround(FE_TONEAREST);
  return c;
}

template <format In>
void compare_shapes(machine_unit const& unit, std::uint64_t seed, int repeats) {
  constexpr std::array modes{FE_TONEAREST, FE_TOWARDZERO, FE_UPWARD, FE_DOWNWARD};
  const std::vector<std::int64_t> targets = testing::simd_targets();
  testing::tally all(fmt::format("rows_times_panel, {}, definition and SIMD on {}, rows 1 ... 9, K 1 ... 600, N 1 ... 50, parts and pieces, four rounding modes of the host", unit.name,
                                 testing::names_of(targets)), seed);
  testing::tally modes_kept(fmt::format("rows_times_panel, {}: the host's rounding mode is what it was", unit.name), seed);
  testing::random_bits next(seed);
  rows_times_panel definition(unit, engine::definition), fast(unit, engine::fast);  // each keeps its scratch memory
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const product_case<In> p = make<In>(next, unit);
    const std::vector<f32_code> expected = by_chain(unit, p);
    const steps step{next.one_in(2) ? 608 : 16 * next.between(1, 20), next.one_in(2) ? 64 : 16 * next.between(1, 2), next.one_in(2) ? 9 : next.between(1, 6)};
    const auto expect_equal = [&](rows_times_panel& product, char const* name) {
      const int mode = modes[next.below(4)];
      bool kept = true;
      const std::vector<f32_code> got = in_pieces(product, p, step, mode, kept);
      modes_kept.expect(kept, [&] { return fmt::format("{}, mode {}", name, mode); });
      for (std::size_t i = 0; i < got.size(); ++i)
        all.expect(got[i] == expected[i], [&] {
          return fmt::format("case {}, {}, rows {}, K {} of {} from {}, N {}, row {}, column {}: {:08x}, not {:08x}", repeat, name, p.rows, p.k_end - p.k_begin, p.k_count, p.k_begin,
                             p.n_count, i / std::size_t(p.c_stride), i % std::size_t(p.c_stride), got[i].to_bits(), expected[i].to_bits());
        });
    };
    expect_equal(definition, "definition");
    for (std::int64_t t : targets) {
      const testing::forced_target forced(t);
      expect_equal(fast, hwy::TargetName(t));
    }
  }
  all.check();
  modes_kept.check();
}

/// Where c is the FP16 number `magnitude` and the products add half a unit of its last place and one tiny term: ties of the result and
/// all around them. Rows: tiny terms; columns: signs of the three.
testing::tile around_tie(std::uint32_t magnitude) {
  constexpr testing::operand_format f16 = testing::operands_of(format::f16);
  const int half = std::max(int(magnitude >> 10), 1) - 15 - 11;
  const std::array tiny{-100, -48, -45, -44, -43, -39, -38, -26, half - 1, half - 11, half - 13, half - 20, half - 24};
  testing::tile t{int(tiny.size()), 8, std::vector<std::uint16_t>(tiny.size() * 16), std::vector<std::uint16_t>(8 * 16), std::vector<std::uint32_t>(tiny.size() * 8)};
  for (std::size_t i = 0; i < tiny.size(); ++i) {
    t.a[i * 16] = testing::operand_at(f16, false, half / 2, 0);
    t.a[i * 16 + 1] = tiny[i] < -24 ? testing::operand_at(f16, false, tiny[i] + 24, 0) : 0;
    t.a[i * 16 + 2] = tiny[i] < -24 ? 0 : testing::operand_at(f16, false, tiny[i], 0);
    for (std::size_t j = 0; j < 8; ++j) t.c[i * 8 + j] = convert<format::f32>(f16_code::from_bits(std::uint16_t(magnitude | (j & 4) << 13))).to_bits();
  }
  for (std::size_t j = 0; j < 8; ++j) {
    t.b[j * 16] = testing::operand_at(f16, (j & 1) != 0, half - half / 2, 0);
    t.b[j * 16 + 1] = testing::operand_at(f16, (j & 2) != 0, -24, 0);
    t.b[j * 16 + 2] = testing::operand_at(f16, (j & 2) != 0, 0, 0);
  }
  return t;
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown";
}

}  // namespace

TEST_CASE("SIMD block_fma: equals the definition on every unit and target, one block, sampled", "[block_fma][simd][sampled]") {
  fmt::print("targets: {}\n", testing::names_of(testing::simd_targets()));
  for (machine_unit const& unit : distinct_units()) with_input(unit, [&]<format In> { compare_tiles<In>(unit, 0x51d1, 1u << 19, testing::simd_targets(), 11 * 24); });
}

TEST_CASE("SIMD block_fma: equals the definition on every unit and target, one block, STICKYBIT_CASES (2^24) for each of STICKYBIT_UNITS (all)", "[.exhaustive][block_fma]") {
  char const* asked = std::getenv("STICKYBIT_CASES");
  const std::uint64_t cases = asked == nullptr ? std::uint64_t{1} << 24 : std::strtoull(asked, nullptr, 0);
  CHECK(cases > 0);
  CHECK(cases <= std::uint64_t{1} << 32);
  char const* only = std::getenv("STICKYBIT_UNITS");
  std::vector<std::int64_t> targets = testing::simd_targets();
  std::erase(targets, HWY_SCALAR);  // is the definition
  fmt::print("{}, targets: {}\n", cpu_name(), testing::names_of(targets));
  for (machine_unit const& unit : distinct_units()) {
    if (only != nullptr && unit.name.find(only) == unit.name.npos) continue;
    const auto start = std::chrono::steady_clock::now();
    with_input(unit, [&]<format In> { compare_tiles<In>(unit, 0x51d2, cases, targets, 11 * 240); });
    fmt::print("{}: {:.1f} s\n", unit.name, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    std::fflush(stdout);
  }
}

TEST_CASE("SIMD block_fma: rows, ranges, strides and the host's rounding modes, every unit and target, sampled", "[block_fma][simd][sampled]") {
  for (machine_unit const& unit : distinct_units()) with_input(unit, [&]<format In> { compare_shapes<In>(unit, 0x51d3, 350); });
}

TEST_CASE("SIMD block_fma with FP16 output: next to every tie of FP16, every finite c of FP16, every target", "[block_fma][simd]") {
  for (machine_unit const& unit : distinct_units()) {
    if (unit.output != format::f16) continue;
    std::vector<testing::tile> tiles;
    std::vector<std::vector<f32_code>> expected;
    for (std::uint32_t magnitude = 0; magnitude <= f16_code::largest().to_bits(); ++magnitude) {
      tiles.push_back(around_tie(magnitude));
      expected.push_back(by_block_fma<format::f16>(unit, tiles.back()));
    }
    for (std::int64_t target : testing::simd_targets()) {
      const testing::forced_target forced(target);
      testing::tally all(fmt::format("one block by SIMD, {} on {}, c every FP16 number, products around half a unit in its last place", unit.name, hwy::TargetName(target)));
      for (std::size_t i = 0; i < tiles.size(); ++i) {
        const differences d = between(by_fast_form<format::f16>(unit, tiles[i]), expected[i]);
        all.add(expected[i].size(), d.count, [&] { return in_words(unit, tiles[i], d.first, d.got, expected[i][d.first]); });
      }
      all.check();
    }
  }
}
