// FP32 to BF16: the definition and the fast form against the oracle.
#include <array>
#include <vector>

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

/// For each BF16 magnitude t below infinity: the first FP32 magnitude that the oracle rounds to t + 1. Rounding is monotonic, so
/// everything from there to the next threshold is t + 1. Found by bisection, once.
std::vector<std::uint32_t> thresholds(oracle::direction toward, bool negative) {
  const std::uint32_t sign = negative ? 0x80000000 : 0;
  std::vector<std::uint32_t> first(0x7f80);
  for (std::uint32_t t = 0; t < 0x7f80; ++t) {
    std::uint32_t low = t << 16, high = (t + 1) << 16;  // low gives t, high gives t + 1
    while (high - low > 1) {
      const std::uint32_t middle = low + (high - low) / 2;
      (oracle::convert(oracle::bf16, sign | middle, toward) % 0x8000 > t ? high : low) = middle;
    }
    first[t] = high;
  }
  return first;
}

void all_codes(testing::mode_pair mode, bool with_fast) {
  testing::tally all(fmt::format("FP32 to BF16, {}, all 2^32 codes{}", name_of(mode.library), with_fast ? ", definition and fast form" : ""));
  const auto range = [&](std::uint32_t begin, std::uint32_t end, std::uint32_t expected) {  // [begin, end)
    std::uint64_t wrong = 0;
    std::uint32_t first_wrong = 0;
    for (std::uint32_t bits = begin; bits != end; ++bits)
      if (converted(bits, mode.library) != expected || (with_fast && fast(bits) != expected))
        if (wrong++ == 0) first_wrong = bits;
    all.add(end - begin, wrong, [=] { return fmt::format("{:08x}", first_wrong); });
  };
  for (bool negative : {false, true}) {
    const std::vector<std::uint32_t> first = thresholds(mode.oracle, negative);
    const std::uint32_t sign = negative ? 0x80000000 : 0, small_sign = sign >> 16;
    std::uint32_t begin = 0;
    for (std::uint32_t t = 0; t < 0x7f80; ++t) {
      range(sign + begin, sign + first[t], small_sign + t);
      begin = first[t];
    }
    range(sign + begin, sign + 0x7f800001, small_sign + 0x7f80);
    range(sign + 0x7f800001, sign + 0x80000000, 0x7fff);
  }
  all.check();
}

}  // namespace

TEST_CASE("bf16 from f32: equals the exact oracle, codes around every BF16 code and every midpoint, 4 modes", "[rounding]") {
  testing::tally all("FP32 to BF16 around all 65536 codes and midpoints, 4 modes and the fast form");
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
  testing::tally all("FP32 to BF16, random codes, 4 modes", seed);
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
  testing::tally all("FP32 to FP32, 4 modes", seed);
  for (int i = 0; i < 1000000; ++i) {
    const auto c = f32_code::from_bits(testing::f32_anywhere(next));
    all.expect(convert<format::f32>(c, testing::all_modes[next.below(4)].library) == (c.is_nan() ? f32_code::nan() : c), [=] { return fmt::format("{:08x}", c.to_bits()); });
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

TEST_CASE("bf16 from f32: nearest_even and the fast form equal the exact oracle, all 2^32 codes", "[.exhaustive][rounding]") {
  all_codes(testing::all_modes[0], true);
}
TEST_CASE("bf16 from f32: the directed modes equal the exact oracle, all 2^32 codes", "[.exhaustive][rounding]") {
  for (std::size_t i = 1; i < 4; ++i) all_codes(testing::all_modes[i], false);
}
