// add, mul, fma and max of FP32 codes against the oracle, with subnormals kept and flushed.
#include "stickybit/rounding/arithmetic.hpp"

#include <array>

#include "operands.hpp"
#include "oracle/arithmetic.hpp"
#include "support/catch.hpp"
#include "support/tally.hpp"

using namespace stickybit;

namespace {

f32_code f32(std::uint32_t bits) { return f32_code::from_bits(bits); }

constexpr std::array rules{subnormals::kept, subnormals::flushed};

void sample(std::uint64_t seed, int count) {
  for (auto const& generator : testing::operand_generators) {
    testing::random_bits next(seed);
    testing::tally all(fmt::format("add, mul, fma, max against the oracle, both subnormal rules, {}", generator.name), seed);
    for (int i = 0; i < count; ++i) {
      const testing::operands operands = generator.make(next);
      const std::uint32_t a = operands.a, b = operands.b, c = operands.c;
      for (subnormals s : rules) {
        const bool ftz = s == subnormals::flushed;
        const auto in_words = [&](char const* what, std::uint32_t got, std::uint32_t expected) {
          return fmt::format("{} {:08x} {:08x} {:08x}{}: {:08x}, not {:08x}", what, a, b, c, ftz ? " ftz" : "", got, expected);
        };
        const auto compare = [&](char const* what, f32_code got, std::uint32_t expected) {
          all.expect(got.to_bits() == expected, [&] { return in_words(what, got.to_bits(), expected); });
        };
        compare("add", add(f32(a), f32(c), s), oracle::add(a, c, ftz));
        compare("mul", mul(f32(a), f32(b), s), oracle::mul(a, b, ftz));
        compare("fma", fma(f32(a), f32(b), f32(c), s), oracle::fma(a, b, c, ftz));
        compare("max", max(f32(a), f32(c), s), oracle::max(a, c, ftz));
      }
    }
    all.check();
  }
}

}  // namespace

TEST_CASE("add, mul, fma, max: equal the exact oracle, sampled", "[rounding][sampled]") { sample(0xa41, 150000); }
TEST_CASE("add, mul, fma, max: equal the exact oracle, larger sample", "[.long][rounding]") { sample(0xa42, 5000000); }

TEST_CASE("div: equals the exact oracle, sampled", "[rounding][sampled]") {
  constexpr std::uint64_t seed = 0xa43;
  for (auto const& generator : testing::operand_generators) {
    testing::random_bits next(seed);
    testing::tally all(fmt::format("div against the oracle, both subnormal rules, {}", generator.name), seed);
    for (int i = 0; i < 10000; ++i) {
      const testing::operands operands = generator.make(next);
      const std::uint32_t a = operands.a, b = operands.b;
      for (subnormals s : rules) {
        const std::uint32_t got = div(f32(a), f32(b), s).to_bits(), expected = oracle::div(a, b, s == subnormals::flushed);
        all.expect(got == expected, [=] { return fmt::format("{:08x} / {:08x}: {:08x}, not {:08x}", a, b, got, expected); });
      }
    }
    all.check();
  }
}

TEST_CASE("add, mul, div, max, fma: equal the exact oracle, all pairs and triples of 27 border codes", "[rounding]") {
  constexpr std::array<std::uint32_t, 27> border{0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff, 0x807fffff, 0x00800000, 0x80800000, 0x00800001,
                                                 0x3f800000, 0xbf800000, 0x3f800001, 0x3f7fffff, 0xbf7fffff, 0x40000000, 0x33800000, 0x34000000, 0x20000001,
                                                 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fffffff, 0x7f800001, 0xffc12345, 0x1fffffff, 0x7f000000};
  testing::tally all("add, mul, div, max, fma, 27^2 pairs and 27^3 triples, both subnormal rules");
  for (std::uint32_t a : border)
    for (std::uint32_t b : border)
      for (subnormals s : rules) {
        const bool ftz = s == subnormals::flushed;
        const auto pair = [=] { return fmt::format("{:08x} {:08x}{}", a, b, ftz ? " ftz" : ""); };
        all.expect(add(f32(a), f32(b), s).to_bits() == oracle::add(a, b, ftz), pair);
        all.expect(mul(f32(a), f32(b), s).to_bits() == oracle::mul(a, b, ftz), pair);
        all.expect(max(f32(a), f32(b), s).to_bits() == oracle::max(a, b, ftz), pair);
        all.expect(div(f32(a), f32(b), s).to_bits() == oracle::div(a, b, ftz), pair);
        for (std::uint32_t c : border)
          all.expect(fma(f32(a), f32(b), f32(c), s).to_bits() == oracle::fma(a, b, c, ftz), [=] { return fmt::format("{:08x} {:08x} {:08x}{}", a, b, c, ftz ? " ftz" : ""); });
      }
  all.check();
}

TEST_CASE("arithmetic: each result is rounded once, its event says so", "[rounding]") {
  recorder<rounded> events;
  const f32_code r = fma(f32(0x3f800001), f32(0x3f800001), f32(0x33800000), subnormals::kept, events);
  const auto seen = events.all<rounded>();
  REQUIRE(seen.size() == 1);
  CHECK(seen[0].bits == r.to_bits());
  CHECK(seen[0].target == format::f32);
}
