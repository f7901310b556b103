// The fast form against the definition and against a chain of block_fma, code for code.
#include "stickybit/block_fma/column_panel.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "support/catch.hpp"
#include "support/tally.hpp"
#include "units.hpp"

using namespace stickybit;

namespace {

/// Operands of one row against a panel: B is stored [K×N] or [N×K].
struct product_case {
  std::int64_t k_count, n_count;
  bool stored_by_columns;
  std::vector<bf16_code> a, b;
  std::vector<f32_code> c;

  [[nodiscard]] std::int64_t k_stride() const { return stored_by_columns ? 1 : n_count; }
  [[nodiscard]] std::int64_t n_stride() const { return stored_by_columns ? k_count : 1; }
  [[nodiscard]] bf16_code& at(std::int64_t k, std::int64_t n) { return b[std::size_t(k * k_stride() + n * n_stride())]; }
};

/// One column's operands come from one generator. `mixed`: each column draws its own, so that fast and slow columns meet in a group.
product_case make(testing::random_bits& next, std::size_t generator, bool mixed, std::int64_t k_count, std::int64_t n_count) {
  product_case p{k_count, n_count, next.one_in(2), std::vector<bf16_code>(std::size_t(k_count)), std::vector<bf16_code>(std::size_t(k_count * n_count)),
                 std::vector<f32_code>(std::size_t(n_count))};
  testing::block_case k;
  for (std::int64_t n = 0; n < n_count; ++n) {
    auto const& from = testing::block_generators[mixed && n % 3 == 0 ? next.below(std::uint32_t(testing::block_generators.size())) : generator];
    for (std::int64_t i = 0; i < k_count; ++i) {
      if (i % 16 == 0) from.fill(next, k);
      if (n == 0) p.a[std::size_t(i)] = bf16_code::from_bits(k.a[std::size_t(i % 16)]);
      p.at(i, n) = bf16_code::from_bits(k.b[std::size_t(i % 16)]);
    }
    p.c[std::size_t(n)] = f32_code::from_bits(next.one_in(4) ? 0 : k.c);
  }
  return p;
}

/// accumulate() over the whole panel, or in pieces: k in whole blocks, n in whole groups.
std::vector<f32_code> by_panel(machine_unit const& unit, engine how, product_case const& p, std::int64_t k_step, std::int64_t n_step) {
  const column_panel panel(p.b.data(), p.k_count, p.n_count, p.k_stride(), p.n_stride());
  rows_times_panel row(unit, how);
  std::vector<f32_code> c = p.c;
  for (std::int64_t k = 0; k < p.k_count; k += k_step)
    for (std::int64_t n = 0; n < p.n_count; n += n_step)
      row.accumulate(std::span(p.a).subspan(std::size_t(k), std::size_t(std::min(k_step, p.k_count - k))), panel, k, n,
                     std::span(c).subspan(std::size_t(n), std::size_t(std::min(n_step, p.n_count - n))));
  return c;
}

std::vector<f32_code> by_chain(machine_unit const& unit, product_case& p) {
  std::vector<f32_code> c = p.c;
  std::vector<bf16_code> column(std::size_t(p.k_count));
  for (std::int64_t n = 0; n < p.n_count; ++n) {
    for (std::int64_t k = 0; k < p.k_count; ++k) column[std::size_t(k)] = p.at(k, n);
    c[std::size_t(n)] = inner_product<format::bf16>(unit, std::span<bf16_code const>(p.a), std::span<bf16_code const>(column), c[std::size_t(n)]);
  }
  return c;
}

/// @returns products computed by each engine
std::uint64_t compare(testing::tally& all, machine_unit const& unit, product_case& p, std::int64_t k_step, std::int64_t n_step) {
  const std::vector<f32_code> expected = by_chain(unit, p);
  for (engine how : {engine::fast, engine::definition}) {
    const std::vector<f32_code> got = by_panel(unit, how, p, k_step, n_step);
    for (std::size_t n = 0; n < got.size(); ++n)
      all.expect(got[n] == expected[n], [&] {
        return fmt::format("{}, K {}, N {}, column {}: {:08x}, not {:08x}", how == engine::fast ? "fast" : "definition", p.k_count, p.n_count, n, got[n].to_bits(),
                           expected[n].to_bits());
      });
  }
  return std::uint64_t(p.k_count * p.n_count);
}

void sample(machine_unit const& unit, std::string const& name, std::uint64_t seed, int repeats) {
  std::uint64_t products = 0;
  testing::tally all(fmt::format("rows_times_panel, fast and definition against block_fma, {}, K 1 ... 70, N 1 ... 50, 13 generators alone and mixed", name), seed);
  testing::random_bits next(seed);
  for (int repeat = 0; repeat < repeats; ++repeat)
    for (std::size_t generator = 0; generator < testing::block_generators.size(); ++generator)
      for (bool mixed : {false, true}) {
        product_case p = make(next, generator, mixed, next.between(1, 70), next.between(1, 50));
        const bool whole = next.one_in(2);
        products += compare(all, unit, p, whole ? 80 : 16 * next.between(1, 3), whole ? 64 : 16 * next.between(1, 2));
      }
  fmt::print("{}: {} products by each engine\n", name, products);
  all.check();
}

}  // namespace

TEST_CASE("rows_times_panel on sm90: fast equals definition equals chained block_fma, sampled", "[block_fma][panel][sampled]") { sample(testing::hopper(), "sm90", 0xca1, 600); }
TEST_CASE("rows_times_panel on sm90: fast equals definition equals chained block_fma, larger sample", "[.long][block_fma]") {
  sample(testing::hopper(), "sm90", 0xca2, 50000);
}

TEST_CASE("rows_times_panel: fast equals definition with other numbers in the unit, sampled", "[block_fma][panel][sampled]") {
  for (int f : {8, 13, 23, 24}) sample(testing::with_fraction_bits(f), fmt::format("F = {}", f), 0xca3, 20);
  sample(testing::with_fraction_bits(26), "F = 26, which the fast form does not cover", 0xca4, 20);
  for (int e : {-126, -132, -90, -60, 20}) sample(testing::with_smallest_exponent(e), fmt::format("E >= {}", e), 0xca5, 20);
  sample(testing::with_rounding(rounding::nearest_even), "nearest_even", 0xca6, 20);
  sample(testing::with_accumulator_last(), "c added last", 0xca7, 20);
}

TEST_CASE("rows_times_panel: fast equals definition in blocks of 1, 2, 4 and 8, sampled", "[block_fma][panel][sampled]") {
  for (int n : {1, 2, 4}) sample(testing::with_block_size(n), fmt::format("blocks of {}", n), 0xcaa, 20);
  for (int f : {8, 13, 23, 24, 25, 26}) {
    machine_unit unit = testing::with_block_size(8);
    unit.alignment_fraction_bits = f;
    sample(unit, fmt::format("blocks of 8, F = {}", f), 0xcab, f == 24 ? 200 : 20);
  }
}

TEST_CASE("rows_times_panel on sm90: fast equals definition, every K 1 to 70 and N 1 to 50", "[block_fma][panel]") {
  constexpr std::uint64_t seed = 0xca8;
  testing::random_bits next(seed);
  testing::tally all("rows_times_panel, all sizes K 1 ... 70, N 1 ... 50, narrow", seed);
  for (std::int64_t k = 1; k <= 70; ++k)
    for (std::int64_t n = 1; n <= 50; n += 1 + (k % 2)) {
      product_case p = make(next, 0, false, k, n);
      compare(all, testing::hopper(), p, 80, 64);
    }
  all.check();
}

TEST_CASE("rows_times_panel on sm90: one column out of the fast range among others, every place", "[block_fma][panel]") {
  constexpr std::uint64_t seed = 0xca9;
  testing::random_bits next(seed);
  testing::tally all("rows_times_panel, one operand or c replaced by a border value, 32 columns", seed);
  constexpr std::array<std::uint32_t, 10> border{0x7f800000, 0xff800000, 0x7fc00000, 0x00000000, 0x80000000, 0x00010000, 0x00800000, 0x7f000000, 0x7f7f0000, 0x12000000};
  for (std::int64_t n = 0; n < 32; ++n)
    for (std::uint32_t bits : border)
      for (int where = 0; where < 3; ++where) {
        product_case p = make(next, 0, false, 32, 32);
        if (where == 0) p.c[std::size_t(n)] = f32_code::from_bits(bits);
        if (where == 1) p.at(next.between(0, 31), n) = bf16_code::from_bits(std::uint16_t(bits >> 16));
        if (where == 2) p.a[std::size_t(n)] = bf16_code::from_bits(std::uint16_t(bits >> 16));
        compare(all, testing::hopper(), p, 80, 64);
      }
  all.check();
}

TEST_CASE("rows_times_panel: fast equals definition on the largest sums, F = 8 to 32 and every exponent", "[block_fma][panel]") {
  testing::tally all("rows_times_panel, 16 products of 1.9921875 x 1.9921875 at every exponent, c next to them, F = 8 ... 32");
  for (int f = 8; f <= 32; ++f)
    for (int e = -133; e <= 127; ++e)
      for (int sign = 0; sign < 2; ++sign) {
        product_case p{16, 2, false, std::vector<bf16_code>(16), std::vector<bf16_code>(32), std::vector<f32_code>(2)};
        for (auto& a : p.a) a = bf16_code::from_bits(std::uint16_t(testing::code_at(sign == 1, e / 2, 127, 7)));
        for (auto& b : p.b) b = bf16_code::from_bits(std::uint16_t(testing::code_at(false, e - e / 2, 127, 7)));
        p.c[0] = f32_code::from_bits(testing::code_at(sign == 1, e, 0x7fffff, 23));
        for (int block_size : {8, 16}) {
          machine_unit unit = testing::with_block_size(block_size);
          unit.alignment_fraction_bits = f;
          compare(all, unit, p, 16, 16);
        }
      }
  all.check();
}

TEST_CASE("rows_times_panel: ranges outside the panel and other units throw shape_error", "[block_fma][panel]") {
  const std::vector<bf16_code> b(40 * 20), a(64);
  const column_panel panel(b.data(), 40, 20, 20, 1);
  CHECK(panel.k_count() == 40);
  CHECK(panel.n_count() == 20);
  const machine_unit unit = testing::hopper();  // outlives row, which keeps a reference
  rows_times_panel row(unit, engine::fast);
  std::vector<f32_code> c(64);
  const auto call = [&](std::size_t length, std::int64_t k, std::int64_t n, std::size_t columns) { row.accumulate(std::span(a).first(length), panel, k, n, std::span(c).first(columns)); };
  CHECK_NOTHROW(call(40, 0, 0, 20));
  CHECK_NOTHROW(call(8, 32, 16, 4));
  CHECK_NOTHROW(call(16, 16, 0, 3));
  CHECK_NOTHROW(call(0, 0, 0, 20));
  CHECK_NOTHROW(call(16, 0, 0, 0));
  CHECK_THROWS_AS(call(16, -16, 0, 20), shape_error);
  CHECK_THROWS_AS(call(16, 8, 0, 20), shape_error);
  CHECK_THROWS_AS(call(16, 48, 0, 20), shape_error);
  CHECK_THROWS_AS(call(64, 0, 0, 20), shape_error);
  CHECK_THROWS_AS(call(17, 0, 0, 20), shape_error);
  CHECK_THROWS_AS(call(16, 0, -16, 20), shape_error);
  CHECK_THROWS_AS(call(16, 0, 8, 4), shape_error);
  CHECK_THROWS_AS(call(16, 0, 0, 21), shape_error);
  CHECK_THROWS_AS(call(16, 0, 16, 5), shape_error);
  CHECK(rows_times_panel(testing::hopper(), engine::fast).k_step() == 16);
  CHECK(rows_times_panel(testing::with_block_size(12), engine::fast).k_step() == 48);
  machine_unit other = testing::hopper();
  other.input = format::f32;
  CHECK_THROWS_AS(rows_times_panel(other, engine::definition), shape_error);
}
