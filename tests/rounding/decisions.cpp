// tail_of, rounds_up, round_shift: the whole of rounding.
#include <array>

#include "modes.hpp"
#include "oracle/round.hpp"
#include "stickybit/rounding/rounding.hpp"
#include "support/catch.hpp"
#include "support/generators.hpp"
#include "support/tally.hpp"

using namespace stickybit;

namespace {

/// round(sig / 2^drop) on rationals.
std::uint64_t rounded_quotient(oracle::direction toward, std::uint64_t sig, int drop, bool negative) {
  return oracle::detail::pick(toward, negative, oracle::divide_pow2(oracle::rational(sig), drop));
}

tail expected_tail(std::uint64_t sig, int drop) {
  const oracle::division d = oracle::divide_pow2(oracle::rational(sig), drop);
  if (d.exact) return tail::zero;
  return d.against_half < 0 ? tail::below_half : d.against_half == 0 ? tail::half : tail::above_half;
}

void compare(testing::tally& all, std::uint64_t sig, int drop) {
  all.expect(tail_of(sig, drop) == expected_tail(sig, drop), [=] { return fmt::format("tail_of({:x}, {})", sig, drop); });
  for (auto mode : testing::all_modes)
    for (bool negative : {false, true})
      all.expect(round_shift(mode.library, sig, drop, negative) == rounded_quotient(mode.oracle, sig, drop, negative),
                 [=] { return fmt::format("round_shift({}, {:x}, {}, {})", name_of(mode.library), sig, drop, negative); });
}

}  // namespace

TEST_CASE("tail_of and round_shift: equal the exact quotient, all 10-bit significands and drops 0 to 12", "[rounding]") {
  testing::tally all("tail_of, round_shift, sig < 2^10, drop <= 12, 6 modes, 2 signs");
  for (std::uint64_t sig = 0; sig < 1024; ++sig)
    for (int drop = 0; drop <= 12; ++drop) compare(all, sig, drop);
  all.check();
}

TEST_CASE("tail_of and round_shift: equal the exact quotient, 64-bit significands, any drop", "[rounding][sampled]") {
  constexpr std::uint64_t seed = 0x7a11;
  testing::random_bits next(seed);
  testing::tally all("tail_of, round_shift, borders of 64 bits and random, drop <= 1000", seed);
  constexpr std::uint64_t top = std::uint64_t{1} << 63;
  for (std::uint64_t sig : {std::uint64_t{0}, std::uint64_t{1}, top - 1, top, top + 1, ~std::uint64_t{0}})
    for (int drop : {0, 1, 2, 31, 32, 62, 63, 64, 65, 66, 127, 128, 1000}) {
      if (drop == 0 && sig == ~std::uint64_t{0}) continue;
      compare(all, sig, drop);
    }
  for (int i = 0; i < 10000; ++i) {
    const int drop = next.between(1, 70), width = next.between(0, 63);
    const std::uint64_t half = drop <= 64 ? std::uint64_t{1} << (drop - 1) : 0;
    const std::uint64_t kept = drop < 64 ? (next() >> width) << drop : 0;
    for (std::uint64_t cut : {next() & (half | (half - 1)), half, half - 1, half + 1}) compare(all, kept | (half == 0 ? cut >> 1 : cut), drop);
  }
  all.check();
}

TEST_CASE("rounds_up: the table of IEEE 754 4.3, all arguments", "[rounding]") {
  constexpr std::array tails{tail::zero, tail::below_half, tail::half, tail::above_half};
  for (bool lsb : {false, true})
    for (bool negative : {false, true})
      for (tail t : tails) {
        INFO(name_of(t) << ", lsb " << lsb << ", negative " << negative);
        CHECK(rounds_up(rounding::nearest_even, t, lsb, negative) == (t == tail::above_half || (t == tail::half && lsb)));
        CHECK_FALSE(rounds_up(rounding::toward_zero, t, lsb, negative));
        CHECK(rounds_up(rounding::toward_positive, t, lsb, negative) == (t != tail::zero && !negative));
        CHECK(rounds_up(rounding::toward_negative, t, lsb, negative) == (t != tail::zero && negative));
        CHECK(rounds_up(rounding::nearest_away, t, lsb, negative) == (t == tail::half || t == tail::above_half));
        CHECK(rounds_up(rounding::to_odd, t, lsb, negative) == (t != tail::zero && !lsb));
      }
}
