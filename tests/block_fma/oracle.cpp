// block_fma and inner_product against the oracle.
#include "oracle/block.hpp"

#include <vector>

#include "support/catch.hpp"
#include "support/tally.hpp"
#include "units.hpp"

using namespace stickybit;

namespace {

void sample(machine_unit const& unit, std::string const& name, std::uint64_t seed, int count) {
  const oracle::block_rules rules = testing::rules_of(unit);
  for (auto const& generator : testing::block_generators) {
    testing::random_bits next(seed);
    testing::tally all(fmt::format("block_fma, {}, {}", name, generator.name), seed);
    testing::block_case k;
    for (int i = 0; i < count; ++i) {
      generator.fill(next, k);
      const std::uint32_t got = testing::block(unit, k), expected = oracle::block(rules, k.a, k.b, k.c);
      all.expect(got == expected, [&] { return testing::in_words(k, got, expected); });
    }
    all.check();
  }
}

}  // namespace

TEST_CASE("oracle: the block on fixed-point numbers equals the block on rationals, sampled", "[block_fma][oracle][sampled]") {
  constexpr std::uint64_t seed = 0xb10c;
  testing::tally all("the oracle's block, rational against fixed, 13 generators", seed);
  for (auto const& generator : testing::block_generators) {
    testing::random_bits next(seed);
    testing::block_case k;
    for (int i = 0; i < 1000; ++i) {
      generator.fill(next, k);
      const std::uint32_t exact = oracle::block<oracle::rational>({}, k.a, k.b, k.c), fixed = oracle::block<oracle::fixed>({}, k.a, k.b, k.c);
      all.expect(exact == fixed, [&] { return testing::in_words(k, fixed, exact); });
    }
  }
  all.check();
}

TEST_CASE("block_fma on sm90: the unit is what was measured, 16 products, F = 25, E >= -133", "[block_fma]") {
  const oracle::block_rules measured{}, unit = testing::rules_of(testing::hopper());
  CHECK(unit.products == measured.products);
  CHECK(unit.fraction_bits == measured.fraction_bits);
  CHECK(unit.smallest_exponent == measured.smallest_exponent);
  CHECK(unit.output == measured.output);
  CHECK(unit.accumulator_last == measured.accumulator_last);
}

TEST_CASE("block_fma on sm90: equals the exact oracle, sampled", "[block_fma][sampled]") { sample(testing::hopper(), "sm90", 0xb1, 250000); }
TEST_CASE("block_fma on sm90: equals the exact oracle, larger sample", "[.long][block_fma]") { sample(testing::hopper(), "sm90", 0xb2, 20000000); }

TEST_CASE("block_fma: equals the exact oracle with other numbers in the unit, sampled", "[block_fma][sampled]") {
  sample(testing::with_fraction_bits(23), "F = 23", 0xb3, 10000);
  sample(testing::with_fraction_bits(24), "F = 24", 0xb4, 10000);
  sample(testing::with_fraction_bits(13), "F = 13", 0xb5, 10000);
  sample(testing::with_fraction_bits(35), "F = 35", 0xb6, 10000);
  sample(testing::with_smallest_exponent(-126), "E >= -126", 0xb7, 10000);
  sample(testing::with_smallest_exponent(-140), "E >= -140", 0xb8, 10000);
  for (auto mode : {rounding::nearest_even, rounding::toward_positive, rounding::toward_negative}) sample(testing::with_rounding(mode), std::string(name_of(mode)), 0xb9, 10000);
  sample(testing::with_accumulator_last(), "c added last", 0xba, 20000);
}

TEST_CASE("inner_product: equals the oracle's chain of blocks, every length 0 to 100, blocks of 1, 4, 8, 16 and 32", "[block_fma][sampled]") {
  constexpr std::uint64_t seed = 0xbc;
  testing::random_bits next(seed);
  for (int block_size : {1, 4, 8, 16, 32}) {
    testing::tally all(fmt::format("inner_product, blocks of {}, lengths 0 ... 100, 13 generators", block_size), seed);
    const machine_unit unit = testing::with_block_size(block_size);
    for (std::size_t length = 0; length <= 100; ++length)
      for (auto const& generator : testing::block_generators)
        for (int repeat = 0; repeat < 4; ++repeat) {
          std::vector<std::uint16_t> a, b;
          testing::block_case k;
          while (a.size() < length) {
            generator.fill(next, k);
            a.insert(a.end(), k.a.begin(), k.a.end());
            b.insert(b.end(), k.b.begin(), k.b.end());
          }
          a.resize(length);
          b.resize(length);
          generator.fill(next, k);
          const std::uint32_t got = testing::inner_product(unit, a, b, k.c), expected = oracle::chain(testing::rules_of(unit), a, b, k.c);
          all.expect(got == expected, [&] { return fmt::format("length {}, {}: {:08x}, not {:08x}", length, generator.name, got, expected); });
        }
    all.check();
  }
}
