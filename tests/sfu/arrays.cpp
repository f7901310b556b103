// The array forms against the functions of one operand, code for code, on every target of Highway that this machine has.
#include "stickybit/sfu/arrays.hpp"

#include <array>
#include <span>
#include <string>
#include <vector>

#include "functions.hpp"
#include "stickybit/format/value.hpp"
#include "stickybit/rounding/host_arithmetic.hpp"
#include "stickybit/sfu/cuda_math.hpp"
#include "support/catch.hpp"
#include "support/generators.hpp"
#include "support/guarded_array.hpp"
#include "support/simd_targets.hpp"
#include "support/tally.hpp"

using namespace stickybit;

namespace {

struct array_function {
  char const* name;
  void (*array)(ex2_rows const&, std::span<f32_code const>, std::span<f32_code>) noexcept;
  f32_code (*definition)(special_function_tables const&, f32_code);
};
constexpr array_function ex2_arrays{"ex2", &ex2, [](special_function_tables const& t, f32_code x) { return ex2(t, x); }};
constexpr std::array functions{
    ex2_arrays,
    array_function{"exp2_keeping_subnormals", &exp2_keeping_subnormals, [](special_function_tables const& t, f32_code x) { return exp2_keeping_subnormals(t, x); }},
    array_function{"cuda_expf", &cuda_expf, [](special_function_tables const& t, f32_code x) { return cuda_expf(t, x); }},
};

std::string on_targets(std::string const& domain) { return fmt::format("{}; targets {}", domain, testing::names_of(testing::simd_targets())); }

void compare(testing::tally& all, array_function const& f, ex2_rows const& rows, std::span<f32_code const> x) {
  std::vector<f32_code> expected(x.size()), got(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) expected[i] = f.definition(rows.tables(), x[i]);
  for (std::int64_t target : testing::simd_targets()) {
    const testing::forced_target forced(target);
    f.array(rows, x, got);
    std::uint64_t wrong = 0;
    std::size_t first = 0;
    for (std::size_t i = 0; i < x.size(); ++i)
      if (got[i] != expected[i] && wrong++ == 0) first = i;
    all.add(x.size(), wrong, [&] { return fmt::format("{} on {}: {:08x} gives {:08x}, not {:08x}", f.name, hwy::TargetName(target), x[first].to_bits(), got[first].to_bits(), expected[first].to_bits()); });
  }
}

/// Every `step`-th code.
void compare_every(testing::tally& all, array_function const& f, ex2_rows const& rows, std::uint64_t step) {
  std::vector<f32_code> x(0x4000);
  for (std::uint64_t first = 0; first < std::uint64_t{1} << 32; first += step * x.size()) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = f32_code::from_bits(std::uint32_t(first + i * step));
    compare(all, f, rows, x);
  }
}

/// Codes within 8 of: every integer and half from −310 to 310, zeros, the borders of subnormals, of the fixed point and of infinity.
std::vector<f32_code> borders() {
  std::vector<std::uint32_t> middle;
  for (int twice = -620; twice <= 620; ++twice) middle.push_back(code_of(float(twice) / 2).to_bits());
  for (std::uint32_t m : {0u, 0x00800000u, 0x33800000u, 0x34000000u, 0x34800000u, 0x3f800000u, 0x42b17218u, 0x42cff1b5u, 0x7f7fffffu, 0x7f800000u, 0x7fc00000u, 0x7ffffff0u})
    for (std::uint32_t sign : {0u, 0x80000000u}) middle.push_back(sign | m);
  std::vector<f32_code> codes;
  for (std::uint32_t m : middle)
    for (std::uint32_t k = 0; k <= 16; ++k) codes.push_back(f32_code::from_bits(m + k - 8));
  return codes;
}

/// All 2^32 codes, by all threads; what is expected is computed once for all targets.
void exhaust(array_function const& f) {
  const ex2_rows rows(testing::hopper_tables());
  constexpr std::size_t chunk = 0x10000, chunks = 0x100;  // 2^24 codes at a time
  std::vector<f32_code> x(chunk * chunks), expected(x.size()), got(x.size());
  testing::tally all(on_targets(fmt::format("array {}, all 2^32 codes", f.name)));
  const auto part = [&](std::vector<f32_code>& v, std::size_t c) { return std::span(v).subspan(c * chunk, chunk); };
  for (std::uint64_t first = 0; first < std::uint64_t{1} << 32; first += x.size()) {
#pragma omp parallel for schedule(dynamic, 4096)
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = f32_code::from_bits(std::uint32_t(first + i));
      expected[i] = f.definition(rows.tables(), x[i]);
    }
    for (std::int64_t target : testing::simd_targets()) {
      const testing::forced_target forced(target);
#pragma omp parallel for schedule(dynamic)
      for (std::size_t c = 0; c < chunks; ++c) f.array(rows, part(x, c), part(got, c));
      std::uint64_t wrong = 0;
      for (std::size_t i = 0; i < x.size(); ++i) wrong += got[i] != expected[i];
      all.add(x.size(), wrong, [&] { return fmt::format("{}, from {:08x} on", hwy::TargetName(target), first); });
    }
  }
  all.check();
}

/// Tables of ex2 with other numbers: within what rows hold, or `beyond` it in one row.
special_function_tables other_tables(testing::random_bits& next, bool beyond) {
  special_function_tables t = testing::hopper_tables();
  for (std::size_t i = 0; i < t.ex2.size(); ++i)
    t.ex2[i] = {.a = std::int32_t((0x800000 + (i << 17)) * 4 + next.below(0x400000)),
                .b = 0x8000 - 0x3f00 + std::int32_t(next.below(0x7e00)),
                .c = std::int32_t(next.below(0x400))};
  t.ex2[0].a = 0x2000000 - std::int32_t(next.below(4));  // 2^0 is exactly 1
  if (!beyond) return t;
  interpolation_row& row = t.ex2[next.below(64)];
  switch (next.below(6)) {
    case 0: row.a = 0x2000000 - 4 - std::int32_t(next.below(0x1000)); break;
    case 1: row.a += 0x1000000; break;
    case 2: row.b = 0x8000 + 0x4000 + std::int32_t(next.below(0x4000)); break;
    case 3: row.b = std::int32_t(next.below(0x3f00)); break;
    case 4: row.c = 0x400 + std::int32_t(next.below(0x400)); break;
    default: t.ex2[0].a = 0x2000000 + 8; break;
  }
  return t;
}

}  // namespace

TEST_CASE("ex2 arrays: equal to ex2, every 61st code", "[sfu]") {
  const ex2_rows rows(testing::hopper_tables());
  CHECK(rows.fit());
  testing::tally all(on_targets("array ex2, every 61st code"));
  compare_every(all, ex2_arrays, rows, 61);
  all.check();
}

TEST_CASE("ex2 arrays: exp2_keeping_subnormals and cuda_expf equal to those of one operand, every 1021st code", "[sfu]") {
  REQUIRE(host::is_ieee());
  const ex2_rows rows(testing::hopper_tables());
  for (auto const& f : std::span(functions).subspan(1)) {
    testing::tally all(on_targets(fmt::format("array {}, every 1021st code", f.name)));
    compare_every(all, f, rows, 1021);
    all.check();
  }
}

TEST_CASE("ex2 arrays: integers, halves, and the borders of the range, 8 codes to each side", "[sfu]") {
  const ex2_rows rows(testing::hopper_tables());
  testing::tally all(on_targets("array ex2, exp2_keeping_subnormals, cuda_expf next to integers, halves and borders"));
  for (auto const& f : functions) compare(all, f, rows, borders());
  all.check();
}

TEST_CASE("ex2 arrays: operands of attention, -30 to 0, sampled", "[sfu][sampled]") {
  constexpr std::uint64_t seed = 0xe1;
  testing::random_bits next(seed);
  const ex2_rows rows(testing::hopper_tables());
  testing::tally all(on_targets("array ex2, exp2_keeping_subnormals, cuda_expf of -30 ... 0"), seed);
  std::vector<f32_code> x(1000000);
  for (f32_code& c : x) c = code_of(-30 * float(next.below(1u << 24)) / float(1 << 24));
  for (auto const& f : functions) compare(all, f, rows, x);
  all.check();
}

TEST_CASE("ex2 arrays: every length 0 to 70, in place or not, nothing written outside", "[sfu]") {
  constexpr std::uint64_t seed = 0xe2;
  testing::random_bits next(seed);
  testing::tally all(on_targets("array ex2, exp2_keeping_subnormals, cuda_expf, lengths 0 ... 70"), seed);
  const ex2_rows rows(testing::hopper_tables());
  for (std::size_t n = 0; n <= 70; ++n)
    for (auto const& f : functions)
      for (std::int64_t target : testing::simd_targets())
        for (bool in_place : {false, true}) {
          const testing::forced_target forced(target);
          testing::guarded_array<f32_code> x(n, n % 8), apart(n, n % 7);
          for (f32_code& c : x.values()) c = f32_code::from_bits(testing::f32_anywhere(next));
          const std::vector<f32_code> operands(x.values().begin(), x.values().end());
          auto& out = in_place ? x : apart;
          f.array(rows, x.values(), out.values());
          const auto where = [&] { return fmt::format("{} on {}, {} elements{}", f.name, hwy::TargetName(target), n, in_place ? ", in place" : ""); };
          all.expect(x.guards_are_whole() && apart.guards_are_whole(), where);
          for (std::size_t i = 0; i < n; ++i) all.expect(out.values()[i] == f.definition(rows.tables(), operands[i]), where);
        }
  all.check();
}

TEST_CASE("ex2 arrays: with other tables, whether or not their rows fit, sampled", "[sfu][sampled]") {
  constexpr std::uint64_t seed = 0xe3;
  testing::random_bits next(seed);
  for (bool beyond : {false, true}) {
    testing::tally all(on_targets(fmt::format("array ex2, 300 tables that {}", beyond ? "do not fit" : "fit")), seed);
    for (int i = 0; i < 300; ++i) {
      const special_function_tables tables = other_tables(next, beyond);
      const ex2_rows rows(tables);
      all.expect(rows.fit() != beyond, [=] { return fmt::format("table {}", i); });
      std::vector<f32_code> x(2000);
      for (f32_code& c : x) c = f32_code::from_bits(testing::f32_at(next, next.between(-10, 7)));
      compare(all, ex2_arrays, rows, x);
    }
    all.check();
  }
}

TEST_CASE("ex2 arrays: with tables in place of rows the results are the same", "[sfu]") {
  const auto x = borders();
  std::vector<f32_code> by_rows(x.size()), by_tables(x.size());
  const ex2_rows rows(testing::hopper_tables());
  for (auto const& f : functions) {
    f.array(rows, x, by_rows);
    if (f.array == functions[0].array) ex2(testing::hopper_tables(), x, by_tables);
    else if (f.array == functions[1].array) exp2_keeping_subnormals(testing::hopper_tables(), x, by_tables);
    else cuda_expf(testing::hopper_tables(), x, by_tables);
    INFO(f.name);
    CHECK(by_rows == by_tables);
  }
}

TEST_CASE("ex2 arrays: all 2^32 codes", "[.][sfu][exhaustive]") { exhaust(functions[0]); }
TEST_CASE("ex2 arrays: exp2_keeping_subnormals, all 2^32 codes", "[.][sfu][exhaustive]") { exhaust(functions[1]); }
TEST_CASE("ex2 arrays: cuda_expf, all 2^32 codes", "[.][sfu][exhaustive]") { exhaust(functions[2]); }
