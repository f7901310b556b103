// Stochastic rounding: over all random words the larger neighbour comes exactly as often as the tail says.
#include "formats.hpp"
#include "stickybit/format/value.hpp"
#include "stickybit/rounding/arithmetic.hpp"
#include "support/catch.hpp"
#include "support/generators.hpp"

using namespace stickybit;

namespace {

rounding_rule stochastic(std::uint32_t bits, int count) { return {.mode = rounding::stochastic, .random = {bits, count}}; }

/// Of 2^count random words, how often c is rounded away from zero; −1 if a result is neither neighbour or its flags are wrong.
template <format To>
int times_up(f32_code c, int count) {
  const std::uint32_t low = testing::oracle_code(convert<To>(c, rounding::toward_zero));
  const bool exact = to_double(convert<To>(c, rounding::toward_zero)) == to_double(c);
  int up = 0;
  for (std::uint32_t r = 0; r < std::uint32_t{1} << count; ++r) {
    const auto got = with_flags([&](auto& sink) { return convert<To>(c, stochastic(r, count), sink); });
    const std::uint32_t step = testing::oracle_code(got.value) - low;
    if (step > 1 || got.raised.inexact == exact) return -1;
    up += int(step);
  }
  return up;
}

/// floor(2^count · (|c| − low) / (high − low)), low and high the neighbours of |c| in To.
template <format To>
int expected_times_up(f32_code c, int count) {
  oracle::number_format const& f = testing::numbers_of<To>();
  const oracle::rounder<oracle::rational> round(f);
  const std::uint32_t low = f.magnitude(testing::oracle_code(convert<To>(c, rounding::toward_zero)));
  const oracle::rational below = round.value(low), above = oracle::times_pow2<oracle::rational>(f.whole(low + 1), f.weight(low + 1));
  const oracle::rational share = (oracle::magnitude_of<oracle::rational>(oracle::f32, c.to_bits()) - below) / (above - below) * oracle::rational(1 << count);
  return int(oracle::integer(oracle::mp::numerator(share) / oracle::mp::denominator(share)));
}

}  // namespace

TEST_CASE("carries_out: as often as the tail says, all 10-bit significands, drops 0 to 14, 1 to 8 random bits", "[rounding]") {
  testing::tally all("carries over all random words: floor(2^k tail / 2^drop)");
  for (int count = 1; count <= 8; ++count)
    for (int drop = 0; drop <= 14; ++drop)
      for (std::uint64_t sig = 0; sig < 1024; sig += drop < 4 ? 7 : 1) {
        std::uint64_t carries = 0;
        for (std::uint32_t r = 0; r < std::uint32_t{1} << count; ++r) carries += carries_out(sig, drop, {r, count});
        const std::uint64_t tail = sig % (std::uint64_t{1} << drop);
        all.expect(carries == (tail << count) >> drop, [=] { return fmt::format("{:x}, drop {}, {} bits: {} times", sig, drop, count, carries); });
      }
  all.check();
}

TEST_CASE("carries_out: long significands, any drop, bits above the count do not matter", "[rounding]") {
  constexpr std::uint64_t all_ones = ~std::uint64_t{0}, top = std::uint64_t{1} << 63;
  CHECK(carries_out(all_ones, 64, {1, 32}));        // 0.111… + 2^-32
  CHECK_FALSE(carries_out(all_ones, 64, {0, 32}));
  CHECK(carries_out(top, 64, {0x80000000, 32}));    // one half and one half
  CHECK_FALSE(carries_out(top, 64, {0x7fffffff, 32}));
  CHECK(carries_out(top, 65, {0xc0000000, 32}));    // one quarter and three
  CHECK_FALSE(carries_out(all_ones, 96, {0xffffffff, 32}));
  CHECK(carries_out(all_ones, 95, {0xffffffff, 32}));
  CHECK_FALSE(carries_out(all_ones, 1000, {0xffffffff, 32}));
  CHECK_FALSE(carries_out(all_ones, 0, {0xffffffff, 32}));
  CHECK_FALSE(carries_out(all_ones, 20, {0xffffffff, 0}));
  for (std::uint32_t r = 0; r < 16; ++r) CHECK(carries_out(0b1011, 4, {r, 4}) == carries_out(0b1011, 4, {r | 0xabcdef00, 4}));
}

TEST_CASE("stochastic: FP32 to BF16 and E4M3FN over all random words, the larger neighbour as often as its share", "[rounding]") {
  constexpr std::uint64_t seed = 0x570c;
  testing::random_bits next(seed);
  testing::tally all("times away from zero over all words of 8 bits: floor(2^8 share)", seed);
  const auto expect = [&](f32_code c, int got, int expected, char const* target) {
    all.expect(got == expected, [=] { return fmt::format("{:08x} to {}: {} of 256, not {}", c.to_bits(), target, got, expected); });
  };
  for (int i = 0; i < 300; ++i) {
    const auto wide = f32_code::from_bits(testing::f32_at(next, next.between(-140, 126)));
    expect(wide, times_up<format::bf16>(wide, 8), expected_times_up<format::bf16>(wide, 8), "bf16");
    const auto small = f32_code::from_bits(testing::f32_at(next, next.between(-12, 7)));
    expect(small, times_up<format::e4m3fn>(small, 8), expected_times_up<format::e4m3fn>(small, 8), "e4m3fn");
  }
  all.check();
}

TEST_CASE("stochastic: 16 random bits are enough for FP32 to BF16, the probability is the tail", "[rounding]") {
  for (std::uint32_t tail : {0x0000u, 0x0001u, 0x1234u, 0x8000u, 0xfffeu, 0xffffu}) {
    INFO("tail " << tail);
    CHECK(times_up<format::bf16>(f32_code::from_bits(0x3f800000 | tail), 16) == int(tail));
    CHECK(times_up<format::bf16>(f32_code::from_bits(0xc0490000 | tail), 16) == int(tail));
  }
}

TEST_CASE("stochastic: what is exact stays, what carries beyond the largest number overflows", "[rounding]") {
  for (std::uint32_t bits : {0x3f800000u, 0x00010000u, 0xff7f0000u, 0x80000000u, 0x7f800000u}) {
    const auto got = with_flags([&](auto& sink) { return convert<format::bf16>(f32_code::from_bits(bits), stochastic(0xffffffff, 32), sink); });
    CHECK(got.value.to_bits() == bits >> 16);
    CHECK(got.raised == flags{});
  }
  const auto beyond = f32_code::from_bits(0x7f7f8000);  // half an ulp above the largest BF16 number
  CHECK(convert<format::bf16>(beyond, stochastic(0x7fff, 16)).to_bits() == 0x7f7f);
  const auto carried = with_flags([&](auto& sink) { return convert<format::bf16>(beyond, stochastic(0x8000, 16), sink); });
  CHECK(carried.value == bf16_code::infinity());
  CHECK(carried.raised == flags{.inexact = true, .overflow = true});
  // A term far below the sum is one of the bits that are lost, and rarely wins.
  const auto one = f32_code::from_bits(0x3f800000), tiny = f32_code::from_bits(0x33000000);  // 2^-25: a quarter ulp
  CHECK(add(one, tiny, stochastic(0xbfffffff, 32)).to_bits() == 0x3f800000);
  CHECK(add(one, tiny, stochastic(0xc0000000, 32)).to_bits() == 0x3f800001);
}

TEST_CASE("random_words: SplitMix64 from its seed", "[rounding]") {
  random_words next(0);
  CHECK(next().bits == 0xe220a839);  // first output of seed 0: e220a8397b1dcdaf
  CHECK(next(8).count == 8);
  // A quarter of an ulp goes up about once in four: 10^6 trials, standard deviation 433.
  random_words words(0x5eed);
  int up = 0;
  for (int i = 0; i < 1000000; ++i) up += convert<format::bf16>(f32_code::from_bits(0x3f804000), {.mode = rounding::stochastic, .random = words()}).to_bits() == 0x3f81;
  CHECK(up > 248000);
  CHECK(up < 252000);
}
