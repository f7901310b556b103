// The units with FP8 operands: the block against the oracle, the worked example of the reports, every pair of codes, and what each number does.
#include <functional>
#include <vector>

#include "oracle/block.hpp"
#include "stickybit/format/text.hpp"
#include "support/catch.hpp"
#include "support/tally.hpp"
#include "units.hpp"

using namespace stickybit;

namespace {

constexpr std::array names{"sm90.wgmma.e4m3.f32", "sm90.wgmma.e5m2.f32", "sm89.mma.e4m3.f32", "sm89.mma.e5m2.f32"};

/// Any length; codes as raw bits.
struct operands {
  std::vector<std::uint16_t> a, b;
  std::uint32_t c;
};

template <format In, class Sink>
std::uint32_t product_of(machine_unit const& unit, operands const& k, Sink& sink) {
  std::vector<code<In>> a, b;
  for (std::uint16_t x : k.a) a.push_back(code<In>::from_bits(std::uint8_t(x)));
  for (std::uint16_t x : k.b) b.push_back(code<In>::from_bits(std::uint8_t(x)));
  return inner_product<In>(unit, std::span<code<In> const>(a), std::span<code<In> const>(b), f32_code::from_bits(k.c), sink).to_bits();
}
template <class Sink = null_sink>
std::uint32_t product(machine_unit const& unit, operands const& k, Sink&& sink = {}) {
  return unit.input == format::e4m3fn ? product_of<format::e4m3fn>(unit, k, sink) : product_of<format::e5m2>(unit, k, sink);
}
std::uint32_t by_oracle(oracle::block_rules const& rules, operands const& k) { return oracle::chain(rules, k.a, k.b, k.c); }

enum class kind : std::uint8_t { any_bits, numbers, zeros, cancelling, long_c, tiny_c, one_sign };
constexpr std::array kinds{
    std::pair{kind::any_bits, "any bits"},     std::pair{kind::numbers, "numbers"},          std::pair{kind::zeros, "zeros and few products"},
    std::pair{kind::cancelling, "cancelling"}, std::pair{kind::long_c, "c at every offset"}, std::pair{kind::tiny_c, "c far below, subnormal or near overflow"},
    std::pair{kind::one_sign, "largest sums"}};

std::uint16_t number(testing::random_bits& next, machine_unit const& unit) {
  for (;;) {
    const auto bits = std::uint16_t(next.below(256));
    if ((bits & 0x7f) < (unit.input == format::e4m3fn ? 0x7f : 0x7c)) return bits;
  }
}

operands drawn(testing::random_bits& next, kind which, machine_unit const& unit, std::size_t length) {
  operands k{std::vector<std::uint16_t>(length), std::vector<std::uint16_t>(length), testing::f32_at(next, next.between(-12, 12))};
  for (std::size_t i = 0; i < length; ++i) {
    k.a[i] = which == kind::any_bits ? std::uint16_t(next.below(256)) : number(next, unit);
    k.b[i] = which == kind::any_bits ? std::uint16_t(next.below(256)) : number(next, unit);
    if (which == kind::zeros && !next.one_in(8)) (next.one_in(2) ? k.a : k.b)[i] = next.one_in(2) ? 0x80 : 0;
    if (which == kind::cancelling && i % 2 == 1) {
      k.a[i] = std::uint16_t(k.a[i - 1] ^ 0x80);
      k.b[i] = k.b[i - 1];
    }
    if (which == kind::one_sign) {
      k.a[i] = std::uint16_t((unit.input == format::e4m3fn ? 0x7e : 0x7b) - next.below(9));
      k.b[i] = std::uint16_t((unit.input == format::e4m3fn ? 0x7e : 0x7b) - next.below(9));
    }
  }
  if (which == kind::any_bits) k.c = next.one_in(2) ? testing::f32_anywhere(next) : std::uint32_t(next());
  if (which == kind::cancelling && next.one_in(2)) k.c = 0;
  if (which == kind::long_c) k.c = testing::f32_at(next, next.between(-45, 45));
  if (which == kind::tiny_c) {
    if (next.one_in(2)) std::fill(k.a.begin(), k.a.end(), std::uint16_t{0});
    k.c = testing::f32_at(next, next.one_in(3) ? next.between(120, 127) : next.between(-150, -118));
  }
  return k;
}

std::string in_words(operands const& k, std::uint32_t got, std::uint32_t expected) {
  std::string text = fmt::format("c {:08x}", k.c);
  for (std::size_t i = 0; i < k.a.size(); ++i) text += fmt::format(" {:02x}*{:02x}", k.a[i], k.b[i]);
  return text + fmt::format(": {:08x}, not {:08x}", got, expected);
}

void sample(machine_unit const& unit, std::string const& name, std::uint64_t seed, int count) {
  const oracle::block_rules rules = testing::rules_of(unit);
  for (auto const& [which, words] : kinds) {
    testing::random_bits next(seed);
    testing::tally all(fmt::format("inner_product, {}, {}, lengths 1 ... 70", name, words), seed);
    for (int i = 0; i < count; ++i) {
      const operands k = drawn(next, which, unit, next.one_in(2) ? 32 : std::size_t(next.between(1, 70)));
      const std::uint32_t got = product(unit, k), expected = by_oracle(rules, k);
      all.expect(got == expected, [&] { return in_words(k, got, expected); });
    }
    all.check();
  }
}

/// Copies of one product x·y, then zeros.
operands repeated(std::size_t count, std::uint16_t x, std::uint16_t y, std::uint32_t c) {
  return {std::vector<std::uint16_t>(count, x), std::vector<std::uint16_t>(count, y), c};
}

constexpr std::uint16_t one = 0x38, two_to_minus_7 = 0x04;  // E4M3; 2^-7 is a subnormal

}  // namespace

TEST_CASE("block_fma on FP8: the units are 32 products (Hopper) and 16 (Ada), F = 13, 13 fraction bits in the result", "[block_fma]") {
  for (const char* name : names) {
    const oracle::block_rules r = testing::rules_of(unit_named(name));
    const bool hopper = std::string_view(name).starts_with("sm90");
    INFO(name);
    CHECK(r.products == (hopper ? 32 : 16));
    CHECK(r.fraction_bits == 13);
    CHECK(r.result_fraction_bits == 13);
    CHECK(r.smallest_exponent == (hopper ? -133 : -132));
    CHECK(r.output == oracle::direction::zero);
    CHECK_FALSE(r.accumulator_last);
    CHECK(std::string(r.input.name).substr(0, 4) == std::string(name).substr(hopper ? 11 : 9, 4));
  }
}

TEST_CASE("block_fma on FP8: equals the exact oracle, sampled", "[block_fma][sampled]") {
  for (const char* name : names) sample(unit_named(name), name, 0xf8, 20000);
}

TEST_CASE("block_fma on FP8: equals the exact oracle with other numbers in the unit, sampled", "[block_fma][sampled]") {
  for (int bits : {1, 10, 20, 22}) {
    machine_unit u = unit_named("sm90.wgmma.e5m2.f32");
    u.output_fraction_bits = bits;
    sample(u, fmt::format("{} fraction bits", bits), 0xf9, 2000);
    u.output_rounding = rounding::nearest_even;
    u.alignment_fraction_bits = 25;
    sample(u, fmt::format("{} fraction bits to nearest even, F = 25", bits), 0xfa, 2000);
  }
}

TEST_CASE("block_fma on FP8: the oracle on rationals equals the oracle on fixed-point numbers, sampled", "[block_fma][oracle][sampled]") {
  testing::tally all("the oracle's FP8 chain, rational against fixed", 0xfb);
  for (const char* name : names)
    for (auto const& kind_and_words : kinds) {
      testing::random_bits next(0xfb);
      for (int i = 0; i < 200; ++i) {
        const operands k = drawn(next, kind_and_words.first, unit_named(name), 40);
        const auto exact = oracle::chain<oracle::rational>(testing::rules_of(unit_named(name)), k.a, k.b, k.c), fixed = by_oracle(testing::rules_of(unit_named(name)), k);
        all.expect(exact == fixed, [&] { return in_words(k, fixed, exact); });
      }
    }
  all.check();
}

TEST_CASE("block_fma on FP8: every pair of codes alone, with c = 0 and with c = 1, equals the oracle", "[block_fma][exhaustive]") {
  for (const char* name : names) {
    machine_unit const& unit = unit_named(name);
    testing::tally all(fmt::format("one product, {}, all 2^16 pairs, c = 0 and c = 1", name));
    for (std::uint16_t x = 0; x < 256; ++x)
      for (std::uint16_t y = 0; y < 256; ++y)
        for (std::uint32_t c : {0u, 0x3f800000u}) {
          const operands k = repeated(1, x, y, c);
          const std::uint32_t got = product(unit, k), expected = by_oracle(testing::rules_of(unit), k);
          all.expect(got == expected, [&] { return in_words(k, got, expected); });
        }
    all.check();
  }
}

TEST_CASE("block_fma on sm90 FP8: an accumulator 1 + 2^-13 + 2^-14 leaves 1.0001220703125", "[block_fma][golden]") {
  machine_unit const& unit = unit_named("sm90.wgmma.e4m3.f32");
  const operands nothing = repeated(32, 0, 0, 0x3f800600);
  CHECK(exact_decimal(f32_code::from_bits(product(unit, nothing))) == "1.0001220703125");
  // As products: 1 in c, 2^-7·2^-6 and 2^-7·2^-7.
  operands k = repeated(32, 0, 0, 0x3f800000);
  k.a[0] = k.a[1] = two_to_minus_7;
  k.b[0] = 0x08;
  k.b[1] = two_to_minus_7;
  CHECK(product(unit, k) == 0x3f800400);
  CHECK(product(unit, repeated(32, 0, 0, 0x00000001)) == 0);  // c = 2^-149 does not survive
}

TEST_CASE("block_fma on sm90 FP8: 32 x 2^-14 one by one leave 1, in one block too; beside nothing they are 2^-9", "[block_fma][golden]") {
  machine_unit const& unit = unit_named("sm90.wgmma.e4m3.f32");
  std::uint32_t c = 0x3f800000;
  for (int i = 0; i < 32; ++i) c = product(unit, repeated(1, two_to_minus_7, two_to_minus_7, c));
  CHECK(c == 0x3f800000);
  CHECK(product(unit, repeated(32, two_to_minus_7, two_to_minus_7, 0x3f800000)) == 0x3f800000);
  CHECK(product(unit, repeated(32, two_to_minus_7, two_to_minus_7, 0)) == 0x3b000000);
  machine_unit wide = unit;  // a unit that kept 25 bits would give 1 + 2^-9
  wide.alignment_fraction_bits = 25;
  wide.output_fraction_bits = 23;
  CHECK(product(wide, repeated(32, two_to_minus_7, two_to_minus_7, 0x3f800000)) == 0x3f804000);
}

TEST_CASE("block_fma on sm90 FP8: a sum with more than 13 fraction bits is cut, and an event says so", "[block_fma][events]") {
  machine_unit const& unit = unit_named("sm90.wgmma.e4m3.f32");
  operands k = repeated(3, one, one, 0);  // 1 + 1 + 2^-13: 14 fraction bits below 2
  k.a[2] = two_to_minus_7;
  k.b[2] = 0x08;
  recorder<sum_shortened, rounded> events;
  CHECK(product(unit, k, events) == 0x40000000);
  REQUIRE(events.events().size() == 2);
  const sum_shortened s = events.all<sum_shortened>().at(0);
  CHECK(s.fraction_bits == 13);
  CHECK(s.quantum_exponent == -13);
  CHECK(s.significand == (2u << 13) + 1);
  CHECK(s.drop == 1);
  CHECK(s.dropped == 1);
  CHECK(events.all<rounded>().at(0).cut == tail::zero);
  recorder<sum_shortened> none;
  product(unit, repeated(1, one, one, 0), none);
  CHECK(none.events().empty());
}

TEST_CASE("block_fma on FP8: changing any number of the unit is noticed", "[block_fma][mutation]") {
  const std::vector<std::pair<const char*, std::function<void(machine_unit&)>>> changes{
      {"F = 12", [](machine_unit& u) { u.alignment_fraction_bits = 12; }},
      {"F = 14", [](machine_unit& u) { u.alignment_fraction_bits = 14; }},
      {"blocks of 16", [](machine_unit& u) { u.block_size = 16; }},
      {"12 fraction bits", [](machine_unit& u) { u.output_fraction_bits = 12; }},
      {"14 fraction bits", [](machine_unit& u) { u.output_fraction_bits = 14; }},
      {"23 fraction bits", [](machine_unit& u) { u.output_fraction_bits = 23; }},
      {"to nearest even", [](machine_unit& u) { u.output_rounding = rounding::nearest_even; }},
      {"c added last", [](machine_unit& u) { u.accumulator = accumulator_place::added_last; }},
  };
  for (const char* name : {"sm90.wgmma.e4m3.f32", "sm90.wgmma.e5m2.f32"})
    for (auto const& [what, change] : changes) {
      machine_unit changed = unit_named(name);
      change(changed);
      testing::random_bits next(0xfc);
      int different = 0;
      for (int i = 0; i < 2000; ++i) {
        const operands k = drawn(next, i % 2 == 0 ? kind::numbers : kind::long_c, changed, 32);
        different += product(changed, k) != by_oracle(testing::rules_of(unit_named(name)), k);
      }
      INFO(name << ", " << what);
      CHECK(different > 0);
    }
}
