// How the other binades follow from one, and where results leave the range.
// @source measured on an H200 (driver 580.159.04, CUDA 13.0): all 2^32 operands of each function
#include "functions.hpp"
#include "stickybit/format/value.hpp"
#include "support/catch.hpp"
#include "support/generators.hpp"
#include "support/tally.hpp"

using namespace stickybit;
using testing::value_of;

namespace {

constexpr std::uint32_t binade = 0x00800000;  // one step of the exponent

}  // namespace

TEST_CASE("ex2: x and x - 1 differ by one binade, 2 <= x < 128, sampled", "[sfu][sampled]") {
  constexpr std::uint64_t seed = 0x5ca1;
  testing::random_bits next(seed);
  testing::tally all("ex2(n + f) == 2^n ex2(1 + f) / 2, and for negative operands", seed);
  for (int i = 0; i < 1000000; ++i) {
    const std::uint32_t x = testing::f32_at(next, next.between(1, 6)) & 0x7fffffff;
    const float value = to_float(f32_code::from_bits(x));
    const int n = int(value);
    const std::uint32_t base = code_of(1 + (value - float(n))).to_bits();  // exact: the fraction only gains zeros
    all.expect(value_of(&ex2, x) == value_of(&ex2, base) + std::uint32_t(n - 1) * binade, [=] { return fmt::format("{:08x}", x); });
    if (n < 126)
      all.expect(value_of(&ex2, x | 0x80000000) == value_of(&ex2, base | 0x80000000) - std::uint32_t(n - 1) * binade, [=] { return fmt::format("-{:08x}", x); });
  }
  all.check();
}

TEST_CASE("ex2: below -126 +0 and from 128 infinity, every code up to +-256 and sampled", "[sfu][sampled]") {
  testing::tally all("ex2 beyond its range, codes up to 256, then every 4099th");
  CHECK(value_of(&ex2, 0xc2fc0000) == 0x00800000);
  for (std::uint32_t x = 0xc2fc0001; x <= 0xff800000; x += x < 0xc3800000 ? 1 : 4099) all.expect(value_of(&ex2, x) == 0, [=] { return fmt::format("{:08x}", x); });
  for (std::uint32_t x = 0x43000000; x <= 0x7f800000; x += x < 0x43800000 ? 1 : 4099) all.expect(value_of(&ex2, x) == 0x7f800000, [=] { return fmt::format("{:08x}", x); });
  all.check();
}

TEST_CASE("rcp: 2x has half the reciprocal, every exponent, sampled", "[sfu][sampled]") {
  constexpr std::uint64_t seed = 0x5ca2;
  testing::random_bits next(seed);
  testing::tally all("rcp(2^e f) == rcp(f) / 2^e", seed);
  for (int i = 0; i < 1000000; ++i) {
    const int e = next.between(-126, 125);
    const std::uint32_t x = testing::f32_at(next, e) & 0x7fffffff, base = 0x3f800000 | (x & 0x7fffff);
    all.expect(value_of(&rcp, x) == value_of(&rcp, base) - std::uint32_t(e) * binade, [=] { return fmt::format("{:08x}", x); });
  }
  all.check();
}

TEST_CASE("rcp: beyond 2^126 a zero of the sign, all codes", "[sfu]") {
  testing::tally all("rcp of the codes above 2^126, both signs");
  CHECK(value_of(&rcp, 0x7e800000) == 0x00800000);
  for (std::uint32_t x = 0x7e800001; x <= 0x7f800000; ++x)
    for (std::uint32_t sign : {0u, 0x80000000u}) all.expect(value_of(&rcp, sign | x) == sign, [=] { return fmt::format("{:08x}", sign | x); });
  all.check();
}

TEST_CASE("rsqrt: 4x has half the reciprocal root, every exponent, sampled", "[sfu][sampled]") {
  constexpr std::uint64_t seed = 0x5ca3;
  testing::random_bits next(seed);
  testing::tally all("rsqrt(4^h f) == rsqrt(f) / 2^h", seed);
  for (int i = 0; i < 1000000; ++i) {
    const int e = next.between(-126, 127), parity = e & 1, half = (e - parity) / 2;
    const std::uint32_t x = testing::f32_at(next, e) & 0x7fffffff, base = std::uint32_t(127 + parity) << 23 | (x & 0x7fffff);
    all.expect(value_of(&rsqrt, x) == value_of(&rsqrt, base) - std::uint32_t(half) * binade, [=] { return fmt::format("{:08x}", x); });
  }
  all.check();
}
