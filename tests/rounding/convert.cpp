// FP32 to BF16: the definition and the fast form against the oracle.
#include <array>

#include "modes.hpp"
#include "oracle/arithmetic.hpp"
#include "stickybit/rounding/arithmetic.hpp"
#include "stickybit/rounding/host_arithmetic.hpp"
#include "support/catch.hpp"
#include "support/generators.hpp"
#include "support/tally.hpp"

using namespace stickybit;

namespace {

std::uint32_t converted(std::uint32_t bits, rounding mode) { return convert<format::bf16>(f32_code::from_bits(bits), mode).to_bits(); }
std::uint32_t fast(std::uint32_t bits) { return host::to_bf16(f32_code::from_bits(bits)).to_bits(); }

}  // namespace

TEST_CASE("bf16 from f32: equals the exact oracle, codes around every BF16 code and every midpoint, 6 modes", "[rounding]") {
  testing::tally all("FP32 to BF16 around all 65536 codes and midpoints, 6 modes and the fast form");
  for (std::uint32_t target = 0; target <= 0xffff; ++target)
    for (std::uint32_t low : {0x0000u, 0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      const std::uint32_t bits = target << 16 | low;
      for (auto mode : testing::all_modes) {
        const std::uint32_t expected = oracle::convert(oracle::bf16, bits, mode.oracle);
        const auto in_words = [=] { return fmt::format("{:08x}, {}", bits, name_of(mode.library)); };
        all.expect(converted(bits, mode.library) == expected, in_words);
        if (mode.library == rounding::nearest_even) all.expect(fast(bits) == expected, in_words);
      }
    }
  all.check();
}

TEST_CASE("bf16 from f32: equals the exact oracle, sampled", "[rounding][sampled]") {
  constexpr std::uint64_t seed = 0xb16;
  testing::random_bits next(seed);
  testing::tally all("FP32 to BF16, random codes, 6 modes", seed);
  for (int i = 0; i < 200000; ++i) {
    const auto bits = std::uint32_t(next());
    for (auto mode : testing::all_modes)
      all.expect(converted(bits, mode.library) == oracle::convert(oracle::bf16, bits, mode.oracle), [=] { return fmt::format("{:08x}, {}", bits, name_of(mode.library)); });
  }
  all.check();
}

TEST_CASE("f32 from f32: conversion to the same format changes nothing but NaN, sampled", "[rounding][sampled]") {
  constexpr std::uint64_t seed = 0xf32;
  testing::random_bits next(seed);
  testing::tally all("FP32 to FP32, 6 modes", seed);
  for (int i = 0; i < 1000000; ++i) {
    const auto c = f32_code::from_bits(testing::f32_anywhere(next));
    all.expect(convert<format::f32>(c, testing::all_modes[next.below(6)].library) == (c.is_nan() ? f32_code::nan() : c), [=] { return fmt::format("{:08x}", c.to_bits()); });
  }
  all.check();
}

TEST_CASE("bf16 from f32: host::to_bf16 equals the definition, all codes with 12 low bits fixed", "[rounding]") {
  testing::tally all("host::to_bf16 against convert, top 20 bits x 4 low patterns");
  for (std::uint32_t top = 0; top < 1u << 20; ++top)
    for (std::uint32_t low : {0x000u, 0x001u, 0x800u, 0xfffu}) {
      const std::uint32_t bits = top << 12 | low;
      all.expect(fast(bits) == converted(bits, rounding::nearest_even), [=] { return fmt::format("{:08x}", bits); });
    }
  all.check();
}

TEST_CASE("bf16 from f32: host::to_bf16 equals the definition, all 2^32 codes", "[.exhaustive][rounding]") {
  testing::tally all("host::to_bf16 against convert, all 2^32 codes");
  std::uint32_t bits = 0, first_wrong = 0;
  std::uint64_t cases = 0, wrong = 0;
  do {
    if (fast(bits) != converted(bits, rounding::nearest_even) && wrong++ == 0) first_wrong = bits;
    ++cases;
  } while (++bits != 0);
  all.add(cases, wrong, [=] { return fmt::format("{:08x}", first_wrong); });
  all.check();
}
