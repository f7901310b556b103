// The oracle against itself written differently, and against the host's IEEE arithmetic.
#include <bit>
#include <cmath>

#include "modes.hpp"
#include "oracle/arithmetic.hpp"
#include "oracle/block.hpp"
#include "support/catch.hpp"
#include "support/generators.hpp"
#include "support/tally.hpp"

namespace {

std::uint32_t bits_of(float x) { return x != x ? oracle::canonical_nan : std::bit_cast<std::uint32_t>(x); }
float number(std::uint32_t bits) { return std::bit_cast<float>(bits); }

}  // namespace

TEST_CASE("oracle: rounding by quotient equals rounding by search for neighbours, sampled", "[rounding][oracle][sampled]") {
  constexpr std::uint64_t seed = 0x0a1;
  testing::random_bits next(seed);
  testing::tally all("two oracles of rounding, BF16 and FP32, 6 modes, rational and fixed", seed);
  for (int i = 0; i < 4000; ++i) {
    const std::uint64_t significand = (std::uint64_t{testing::fraction_pattern(next, 30)} << 34 | next() >> (30 + next.below(34))) >> next.below(60);
    const int e = next.between(-220, 80);
    const bool minus = next.one_in(2);
    for (oracle::shape f : {oracle::bf16, oracle::f32})
      for (auto mode : testing::all_modes) {
        const auto exact = oracle::times_pow2<oracle::rational>(significand, e);
        const auto scaled = oracle::times_pow2<oracle::fixed>(significand, e);
        const std::uint32_t expected = oracle::round_by_search(f, mode.oracle, minus, exact);
        all.expect(oracle::round_to(f, {.toward = mode.oracle}, minus, exact) == expected && oracle::round_to(f, {.toward = mode.oracle}, minus, scaled) == expected,
                   [&] { return fmt::format("{}{:x} x 2^{}, mode {}", minus ? "-" : "", significand, e, int(mode.oracle)); });
      }
  }
  all.check();
}

TEST_CASE("oracle: add, mul, fma and div equal the host's IEEE operations, sampled", "[rounding][oracle][sampled]") {
  constexpr std::uint64_t seed = 0x0a2;
  testing::random_bits next(seed);
  testing::tally all("oracle add, mul, fma, div against the host", seed);
  for (int i = 0; i < 200000; ++i) {
    const std::uint32_t a = testing::f32_anywhere(next), b = testing::f32_anywhere(next), c = testing::f32_anywhere(next);
    const auto in_words = [&] { return fmt::format("{:08x} {:08x} {:08x}", a, b, c); };
    all.expect(oracle::add(a, b, false) == bits_of(number(a) + number(b)), in_words);
    all.expect(oracle::mul(a, b, false) == bits_of(number(a) * number(b)), in_words);
    all.expect(oracle::fma(a, b, c, false) == bits_of(std::fma(number(a), number(b), number(c))), in_words);
    if (i % 10 == 0) all.expect(oracle::div(a, b, false) == bits_of(number(a) / number(b)), in_words);
  }
  all.check();
}

TEST_CASE("oracle: fixed-point numbers give what rationals give, sampled", "[rounding][oracle][sampled]") {
  constexpr std::uint64_t seed = 0x0a3;
  testing::random_bits next(seed);
  testing::tally all("oracle add, mul, fma, rational against fixed", seed);
  for (int i = 0; i < 4000; ++i) {
    const std::uint32_t a = testing::f32_anywhere(next), b = testing::f32_anywhere(next), c = testing::f32_anywhere(next);
    const auto in_words = [&] { return fmt::format("{:08x} {:08x} {:08x}", a, b, c); };
    for (bool ftz : {false, true}) {
      all.expect(oracle::add<oracle::rational>(a, b, ftz) == oracle::add<oracle::fixed>(a, b, ftz), in_words);
      all.expect(oracle::mul<oracle::rational>(a, b, ftz) == oracle::mul<oracle::fixed>(a, b, ftz), in_words);
      all.expect(oracle::fma<oracle::rational>(a, b, c, ftz) == oracle::fma<oracle::fixed>(a, b, c, ftz), in_words);
    }
  }
  all.check();
}
