// What a block says about itself adds up to what it returns.
#include <vector>

#include "oracle/block.hpp"
#include "support/catch.hpp"
#include "support/tally.hpp"
#include "units.hpp"

using namespace stickybit;
using oracle::fixed;

namespace {

using block_recorder = recorder<term_aligned, block_summed, rounded, block_special>;

/// A term is its significand at its place; kept and dropped recompose it; the shift puts it onto the quantum.
bool term_is_consistent(term_aligned const& t, block_summed const& s) {
  if (t.significand == 0) return t.kept == 0 && t.dropped == 0;
  const int lowest_bit = t.exponent - t.scale_bits;
  if (t.exponent > s.max_exponent || t.shift != lowest_bit - s.quantum_exponent) return false;
  const fixed exact = oracle::times_pow2<fixed>(t.significand, lowest_bit), kept = oracle::times_pow2<fixed>(t.kept, s.quantum_exponent);
  const fixed dropped = oracle::times_pow2<fixed>(t.dropped, lowest_bit);
  return kept + dropped == exact && dropped < oracle::times_pow2<fixed>(1, s.quantum_exponent) && (t.shift < 0 || t.dropped == 0);
}

/// The term is a[k]·b[k], or c.
bool term_is_the_operand(term_aligned const& t, testing::block_case const& k) {
  const fixed value = t.significand == 0 ? fixed(0) : oracle::times_pow2<fixed>(t.significand, t.exponent - t.scale_bits);
  if (t.index == term_aligned::accumulator) return value == oracle::magnitude_of<fixed>(oracle::f32, k.c) && t.negative == (k.c >> 31 == 1);
  const auto i = std::size_t(t.index);
  const oracle::parts x = oracle::take_apart(oracle::bf16, k.a[i]), y = oracle::take_apart(oracle::bf16, k.b[i]);
  return value == oracle::times_pow2<fixed>(std::uint64_t{x.whole} * y.whole, x.weight + y.weight) && t.negative == (x.minus != y.minus);
}

bool events_add_up(machine_unit const& unit, testing::block_case const& k) {
  block_recorder events;
  const std::uint32_t result = testing::block(unit, k, events);
  const auto terms = events.all<term_aligned>();
  const auto sums = events.all<block_summed>();
  const auto roundings = events.all<rounded>();
  if (const auto special = events.all<block_special>(); !special.empty())
    return events.events().size() == 1 && result == (special[0].nan ? 0x7fffffff : special[0].negative ? 0xff800000 : 0x7f800000);
  if (terms.size() != 17 || sums.size() != 1 || roundings.size() != 1 || events.events().size() != 19) return false;
  if (!std::holds_alternative<block_summed>(events.events()[17]) || !std::holds_alternative<rounded>(events.events()[18])) return false;
  block_summed const& s = sums[0];
  std::int64_t sum = 0;
  int largest = unit.min_alignment_exponent - 1;
  for (std::size_t i = 0; i < 17; ++i) {
    term_aligned const& t = terms[i];
    if (t.index != (i == 16 ? term_aligned::accumulator : int(i)) || !term_is_consistent(t, s) || !term_is_the_operand(t, k)) return false;
    if (t.significand != 0 && t.exponent > largest) largest = t.exponent;
    sum += t.negative ? -std::int64_t(t.kept) : std::int64_t(t.kept);
  }
  const bool clamped = largest < unit.min_alignment_exponent;
  if (s.sum != sum || s.clamped != clamped || s.max_exponent != (clamped ? unit.min_alignment_exponent : largest)) return false;
  if (s.quantum_exponent != s.max_exponent - unit.alignment_fraction_bits) return false;
  rounded const& r = roundings[0];
  if (r.significand != std::uint64_t(sum < 0 ? -sum : sum) || r.exponent != s.quantum_exponent || r.negative != (sum < 0)) return false;
  // The returned zero has lost its sign; otherwise the rounding's code is the result.
  return (r.bits & 0x7fffffff) == 0 ? result == 0 : result == r.bits;
}

}  // namespace

TEST_CASE("block_fma: its events add up to its result, sampled", "[block_fma][events][sampled]") {
  constexpr std::uint64_t seed = 0xe4e;
  for (auto const& generator : testing::block_generators) {
    testing::random_bits next(seed);
    testing::tally all(fmt::format("events of block_fma, {}", generator.name), seed);
    testing::block_case k;
    for (int i = 0; i < 10000; ++i) {
      generator.fill(next, k);
      all.expect(events_add_up(testing::hopper(), k), [&] { return testing::in_words(k, testing::block(testing::hopper(), k), oracle::block({}, k.a, k.b, k.c)); });
    }
    all.check();
  }
}

TEST_CASE("block_fma: a special result says which, and nothing is aligned", "[block_fma][events]") {
  testing::block_case k{};
  k.a[3] = 0xff80;
  k.b[3] = 0x3f80;
  block_recorder events;
  CHECK(testing::block(testing::hopper(), k, events) == 0xff800000);
  REQUIRE(events.all<block_special>().size() == 1);
  CHECK_FALSE(events.all<block_special>()[0].nan);
  CHECK(events.all<block_special>()[0].negative);
  CHECK(events.all<term_aligned>().empty());
}

TEST_CASE("inner_product: gives each block's events in order", "[block_fma][events]") {
  std::vector<std::uint16_t> a(40, 0x3f80), b(40, 0x4000);
  block_recorder events;
  CHECK(testing::inner_product(testing::hopper(), a, b, 0, events) == 0x42a00000);  // 80
  CHECK(events.all<term_aligned>().size() == 3 * 17);
  const auto sums = events.all<block_summed>();
  const auto roundings = events.all<rounded>();
  REQUIRE(sums.size() == 3);
  REQUIRE(roundings.size() == 3);
  CHECK(roundings[0].bits == 0x42000000);  // 32
  CHECK(roundings[1].bits == 0x42800000);  // 64
  CHECK(roundings[2].bits == 0x42a00000);
}
