// round_pack against the oracle: every mode, both subnormal rules, both overflow rules, both formats.
#include "stickybit/rounding/round_pack.hpp"

#include <bit>

#include "modes.hpp"
#include "oracle/round.hpp"
#include "support/catch.hpp"
#include "support/generators.hpp"
#include "support/tally.hpp"

using namespace stickybit;

namespace {

/// A significand of 1 to 64 bits: a head of a format's length, then a tail at the borders of one half; or any bits.
std::uint64_t significand_pattern(testing::random_bits& next) {
  if (next.one_in(4)) return next() >> next.below(64);
  const int head_bits = next.one_in(2) ? next.between(7, 9) : next.between(23, 26), tail_bits = next.between(0, 64 - head_bits);
  const std::uint64_t head = std::uint64_t{1} << (head_bits - 1) | testing::fraction_pattern(next, head_bits - 1);
  const std::uint64_t half = tail_bits == 0 ? 0 : std::uint64_t{1} << (tail_bits - 1);
  const std::uint64_t ones = half == 0 ? 0 : half | (half - 1);
  std::uint64_t tail = 0;
  switch (next.below(7)) {
    case 0: break;
    case 1: tail = half; break;
    case 2: tail = half == 0 ? 0 : half - 1; break;
    case 3: tail = (half + 1) & ones; break;
    case 4: tail = ones; break;
    case 5: tail = ones & 1; break;
    default: tail = next() & ones; break;
  }
  return head << tail_bits | tail;
}

/// An exponent that puts the leading bit where something happens: near the smallest subnormal, the smallest normal, the
/// largest number, near 1, or anywhere.
int exponent_for(testing::random_bits& next, std::uint64_t significand) {
  const int width = significand == 0 ? 1 : int(std::bit_width(significand));
  switch (next.below(5)) {
    case 0: return next.between(-151, -147) - width + 1;
    case 1: return next.between(-136, -124) - width + 1;
    case 2: return next.between(125, 129) - width + 1;
    case 3: return next.between(-2, 2) - width + 1;
    default: return next.between(-240, 200) - width + 1;
  }
}

template <format F>
void sample(oracle::shape f, std::uint64_t seed, int count) {
  testing::random_bits next(seed);
  testing::tally all(fmt::format("round_pack to {}, 6 modes x 2 subnormal rules x 2 overflow rules x 2 signs", traits_of(F).name), seed);
  for (int i = 0; i < count; ++i) {
    const std::uint64_t significand = significand_pattern(next);
    const int exponent = exponent_for(next, significand);
    const auto exact = oracle::times_pow2<oracle::fixed>(significand, exponent);
    const std::uint32_t variant = next.below(2);  // half of the rules a case, all of them over the sample
    for (auto mode : testing::all_modes)
      for (bool flush : {false, true})
        for (bool negative : {false, true}) {
          const bool to_infinity = (variant == 1) != negative;
          const rounding_rule rule{mode.library, flush ? subnormals::flushed : subnormals::kept, to_infinity ? overflow::to_infinity : overflow::by_mode};
          const std::uint32_t got = round_pack<F>(rule, negative, exponent, significand).to_bits();
          const std::uint32_t expected = oracle::round_to(f, {mode.oracle, flush, to_infinity}, negative, exact);
          all.expect(got == expected, [&] {
            return fmt::format("{}{:x} x 2^{}, {}{}{}: {:08x}, not {:08x}", negative ? "-" : "", significand, exponent, name_of(mode.library), flush ? ", flushed" : "",
                               to_infinity ? ", to infinity" : "", got, expected);
          });
        }
  }
  all.check();
}

/// The rounded event tells what happened: `cut` is the tail at `drop`, `grew` the decision, `bits` the result.
template <format F>
void check_events(std::uint64_t seed) {
  testing::random_bits next(seed);
  testing::tally all(fmt::format("rounded events of {}", traits_of(F).name), seed);
  for (int i = 0; i < 100000; ++i) {
    const std::uint64_t significand = significand_pattern(next);
    const int exponent = exponent_for(next, significand);
    const rounding_rule rule{testing::all_modes[next.below(6)].library, next.one_in(2) ? subnormals::flushed : subnormals::kept,
                             next.one_in(2) ? overflow::to_infinity : overflow::by_mode};
    const bool negative = next.one_in(2);
    recorder<rounded> events;
    const code<F> result = round_pack<F>(rule, negative, exponent, significand, events);
    const auto seen = events.template all<rounded>();
    bool good = seen.size() == 1;
    if (good) {
      rounded const& e = seen[0];
      good = e.target == F && e.bits == result.to_bits() && e.negative == negative && e.exponent == exponent && e.significand == significand &&
             e.rule.mode == rule.mode && result.negative() == negative && (!e.flushed || (result.is_zero() && rule.subnormal == subnormals::flushed));
      if (good && e.drop > 0) {
        const std::uint64_t kept = e.drop < 64 ? significand >> e.drop : 0;
        good = e.cut == tail_of(significand, e.drop) && e.lsb == ((kept & 1) != 0) && e.grew == rounds_up(rule.mode, e.cut, e.lsb, negative);
        // Not flushed and not beyond: the result is the kept significand, one more if it grew.
        if (good && !e.flushed && result.is_finite() && result != code<F>::from_bits(typename code<F>::bits_type(code<F>::infinity(negative).to_bits() - 1)))
          good = oracle::magnitude_of<oracle::fixed>({8, traits_of(F).fraction_bits()}, result.to_bits()) == oracle::times_pow2<oracle::fixed>(kept + e.grew, exponent + e.drop);
      }
    }
    all.expect(good, [&] { return fmt::format("{}{:x} x 2^{}, {}", negative ? "-" : "", significand, exponent, name_of(rule.mode)); });
  }
  all.check();
}

}  // namespace

TEST_CASE("round_pack to FP32: equals the exact oracle in every rule, sampled", "[rounding][sampled]") { sample<format::f32>(oracle::f32, 0x4ac1, 400000); }
TEST_CASE("round_pack to BF16: equals the exact oracle in every rule, sampled", "[rounding][sampled]") { sample<format::bf16>(oracle::bf16, 0x4ac2, 400000); }
TEST_CASE("round_pack to FP32 and BF16: equals the exact oracle in every rule, larger sample", "[.long][rounding]") {
  sample<format::f32>(oracle::f32, 0x4ac3, 10000000);
  sample<format::bf16>(oracle::bf16, 0x4ac4, 10000000);
}
TEST_CASE("round_pack to FP32: its event recomposes the result, sampled", "[rounding][sampled]") { check_events<format::f32>(0x4ac5); }
TEST_CASE("round_pack to BF16: its event recomposes the result, sampled", "[rounding][sampled]") { check_events<format::bf16>(0x4ac6); }

TEST_CASE("round_pack: exponents far outside the formats, any significand", "[rounding]") {
  testing::tally all("round_pack, exponents +-300 ... +-100000, against underflow and overflow rules");
  for (int e : {-100000, -1000, -300, 300, 1000, 100000})
    for (std::uint64_t significand : {std::uint64_t{1}, std::uint64_t{0xffffff}, std::uint64_t{1} << 63, ~std::uint64_t{0}})
      for (auto mode : testing::all_modes)
        for (bool negative : {false, true}) {
          const bool directed = mode.oracle == (negative ? oracle::direction::down : oracle::direction::up);
          const bool nearest = mode.oracle == oracle::direction::nearest_even || mode.oracle == oracle::direction::nearest_away;
          const bool away = directed || (e < 0 ? mode.oracle == oracle::direction::odd : nearest);
          const std::uint32_t sign = negative ? 0x80000000 : 0;
          const std::uint32_t expected = e < 0 ? (away ? 1 : 0) : away ? 0x7f800000 : 0x7f7fffff;
          const auto in_words = [&] { return fmt::format("{}{:x} x 2^{}, {}", negative ? "-" : "", significand, e, name_of(mode.library)); };
          all.expect(round_pack<format::f32>({.mode = mode.library}, negative, e, significand).to_bits() == (sign | expected), in_words);
          const std::uint32_t flushed = e < 0 ? 0 : expected;
          all.expect(round_pack<format::f32>({mode.library, subnormals::flushed}, negative, e, significand).to_bits() == (sign | flushed), in_words);
          const std::uint32_t infinite = e < 0 ? expected : 0x7f800000;
          all.expect(round_pack<format::f32>({mode.library, subnormals::kept, overflow::to_infinity}, negative, e, significand).to_bits() == (sign | infinite), in_words);
        }
  all.check();
}

TEST_CASE("round_pack: significand 0 is the zero of the sign in every rule", "[rounding]") {
  for (auto mode : testing::all_modes)
    for (bool negative : {false, true}) {
      CHECK(round_pack<format::f32>({mode.library, subnormals::flushed}, negative, 1000, 0).to_bits() == (negative ? 0x80000000u : 0u));
      CHECK(round_pack<format::bf16>({mode.library}, negative, -1000, 0).to_bits() == (negative ? 0x8000u : 0u));
    }
}
