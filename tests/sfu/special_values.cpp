// Single values of ex2, lg2, rcp and rsqrt .approx.ftz.f32.
#include <array>

#include "functions.hpp"
#include "stickybit/format/value.hpp"
#include "support/catch.hpp"
#include "support/generators.hpp"
#include "support/tally.hpp"

using namespace stickybit;
using testing::special_function;
using testing::value_of;

namespace {

struct row {
  std::uint32_t x, ex2, lg2, rcp, rsqrt;
};

// Measured on an H200 (driver 580.159.04, CUDA 13.0): special and single operands of MUFU.
constexpr std::array measured{
    row{0x00000000, 0x3f800000, 0xff800000, 0x7f800000, 0x7f800000}, row{0x80000000, 0x3f800000, 0xff800000, 0xff800000, 0xff800000},
    row{0x00000001, 0x3f800000, 0xff800000, 0x7f800000, 0x7f800000}, row{0x80000001, 0x3f800000, 0xff800000, 0xff800000, 0xff800000},
    row{0x007fffff, 0x3f800000, 0xff800000, 0x7f800000, 0x7f800000}, row{0x00800000, 0x3f800000, 0xc2fbffff, 0x7e800000, 0x5f000000},
    row{0x7f800000, 0x7f800000, 0x7f800000, 0x00000000, 0x00000000}, row{0xff800000, 0x00000000, 0x7fffffff, 0x80000000, 0x7fffffff},
    row{0x7fc00000, 0x7fffffff, 0x7fffffff, 0x7fffffff, 0x7fffffff}, row{0xffc12345, 0x7fffffff, 0x7fffffff, 0x7fffffff, 0x7fffffff},
    row{0x7f800001, 0x7fffffff, 0x7fffffff, 0x7fffffff, 0x7fffffff}, row{0xc2fc0000, 0x00800000, 0x7fffffff, 0xbc020821, 0x7fffffff},
    row{0xc2fc0001, 0x00000000, 0x7fffffff, 0xbc020820, 0x7fffffff}, row{0xc3150000, 0x00000000, 0x7fffffff, 0xbbdbeb62, 0x7fffffff},
    row{0xc3160000, 0x00000000, 0x7fffffff, 0xbbda740d, 0x7fffffff}, row{0x42ffffff, 0x7f7fffa8, 0x40dfffff, 0x3c000001, 0x3db504f4},
    row{0x43000000, 0x7f800000, 0x40e00000, 0x3c000000, 0x3db504f2}, row{0x7f7fffff, 0x7f800000, 0x42ffffff, 0x00000000, 0x1f800000},
    row{0xff7fffff, 0x00000000, 0x7fffffff, 0x80000000, 0x7fffffff}, row{0x3f800000, 0x40000000, 0x00000000, 0x3f800000, 0x3f800000},
    row{0x3f800001, 0x40000001, 0x3495f600, 0x3f7ffffe, 0x3f7ffffe}, row{0x3f7fffff, 0x3fffffff, 0xb24b4000, 0x3f800001, 0x3f800000},
    row{0x40000000, 0x40800000, 0x3f800000, 0x3f000000, 0x3f3504f2},
};

}  // namespace

TEST_CASE("ex2, lg2, rcp, rsqrt: 23 operands measured on an H200", "[sfu][golden]") {
  testing::tally all("ex2, lg2, rcp, rsqrt at 23 measured operands");
  for (row const& r : measured) {
    const auto in_words = [&](char const* f, std::uint32_t got) { return fmt::format("{}({:08x}) = {:08x}", f, r.x, got); };
    all.expect(value_of(&ex2, r.x) == r.ex2, [&] { return in_words("ex2", value_of(&ex2, r.x)); });
    all.expect(value_of(&lg2, r.x) == r.lg2, [&] { return in_words("lg2", value_of(&lg2, r.x)); });
    all.expect(value_of(&rcp, r.x) == r.rcp, [&] { return in_words("rcp", value_of(&rcp, r.x)); });
    all.expect(value_of(&rsqrt, r.x) == r.rsqrt, [&] { return in_words("rsqrt", value_of(&rsqrt, r.x)); });
  }
  all.check();
}

TEST_CASE("lg2: negative values are one's complements, 2^-1 and 2^-126", "[sfu][golden]") {
  CHECK(value_of(&lg2, 0x3f000000) == 0xbf7ffffe);
  CHECK(value_of(&lg2, 0x00800000) == 0xc2fbffff);
}

TEST_CASE("ex2: integers in range give powers of two exactly", "[sfu]") {
  testing::tally all("ex2 of -126 ... 127");
  for (int n = -126; n <= 127; ++n) all.expect(value_of(&ex2, code_of(float(n)).to_bits()) == std::uint32_t(n + 127) << 23, [=] { return fmt::format("{}", n); });
  all.check();
}

TEST_CASE("rcp: powers of two give powers of two exactly, and odd symmetry", "[sfu][sampled]") {
  testing::tally powers("rcp of 2^-126 ... 2^126");
  for (int e = -126; e <= 126; ++e) powers.expect(value_of(&rcp, std::uint32_t(e + 127) << 23) == std::uint32_t(127 - e) << 23, [=] { return fmt::format("2^{}", e); });
  powers.check();
  constexpr std::uint64_t seed = 0x5f01;
  testing::random_bits next(seed);
  testing::tally symmetry("rcp(-x) == -rcp(x)", seed);
  for (int i = 0; i < 1000000; ++i) {
    const auto x = std::uint32_t(next());
    if ((x & 0x7fffffff) > 0x7f800000) continue;
    symmetry.expect(value_of(&rcp, x ^ 0x80000000) == (value_of(&rcp, x) ^ 0x80000000), [=] { return fmt::format("{:08x}", x); });
  }
  symmetry.check();
}

TEST_CASE("rsqrt: powers of four give powers of two exactly", "[sfu]") {
  testing::tally all("rsqrt of 4^-63 ... 4^63");
  for (int h = -63; h <= 63; ++h) all.expect(value_of(&rsqrt, std::uint32_t(2 * h + 127) << 23) == std::uint32_t(127 - h) << 23, [=] { return fmt::format("4^{}", h); });
  all.check();
}

TEST_CASE("ex2, lg2, rcp, rsqrt: a subnormal operand is a zero of its sign, all 2^24 of them", "[sfu]") {
  testing::tally all("f(subnormal) == f(zero of its sign)");
  for (std::uint32_t sign : {0u, 0x80000000u})
    for (special_function f : std::array<special_function, 4>{&ex2, &lg2, &rcp, &rsqrt}) {
      const std::uint32_t expected = value_of(f, sign);
      std::uint64_t wrong = 0;
      for (std::uint32_t x = 1; x < 0x800000; ++x) wrong += value_of(f, sign | x) != expected;
      all.add(0x7fffff, wrong, [=] { return fmt::format("sign {:x}", sign); });
    }
  all.check();
}

TEST_CASE("ex2, lg2, rcp, rsqrt: every NaN gives 7fffffff, every negative number has no lg2 and rsqrt, sampled", "[sfu][sampled]") {
  constexpr std::uint64_t seed = 0x5f02;
  testing::random_bits next(seed);
  testing::tally all("NaN operands and negative operands", seed);
  for (int i = 0; i < 1000000; ++i) {
    const auto bits = std::uint32_t(next());
    const std::uint32_t nan = 0x7f800001u + (bits & 0x7fffff) % 0x7fffff + (bits & 0x80000000);
    for (special_function f : std::array<special_function, 4>{&ex2, &lg2, &rcp, &rsqrt}) all.expect(value_of(f, nan) == 0x7fffffff, [=] { return fmt::format("{:08x}", nan); });
    const std::uint32_t negative = 0x80800000u + (bits & 0x7fffffff) % 0x7f000001u;  // -2^-126 ... -inf
    for (special_function f : std::array<special_function, 2>{&lg2, &rsqrt}) all.expect(value_of(f, negative) == 0x7fffffff, [=] { return fmt::format("{:08x}", negative); });
  }
  all.check();
}
