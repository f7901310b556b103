// add, sub, mul, fma, min and max of the narrow formats: code and flags against exact integers.
#include <algorithm>
#include <type_traits>

#include "formats.hpp"
#include "oracle/operations.hpp"
#include "stickybit/format/value.hpp"
#include "stickybit/rounding/arithmetic.hpp"
#include "support/catch.hpp"
#include "support/generators.hpp"

using namespace stickybit;
using testing::library_code;
using testing::numbers_of;

namespace {

template <format F>
using exact_number = std::conditional_t<F == format::bf16 || F == format::tf32 || F == format::e8m0, oracle::fixed, oracle::narrow>;

template <format F>
class comparison {
 public:
  explicit comparison(std::string domain) : all_(std::move(domain)) {}
  comparison(std::string domain, std::uint64_t seed) : all_(std::move(domain), seed) {}

  void pair(std::uint32_t a, std::uint32_t b, testing::rule_pair const& r) {
    const auto x = library_code<F>(a), y = library_code<F>(b);
    compare("add", a, b, 0, r, with_flags([&](auto& sink) { return add(x, y, r.library, sink); }), exact_.add(a, b, r.oracle));
    compare("sub", a, b, 0, r, with_flags([&](auto& sink) { return sub(x, y, r.library, sink); }), exact_.sub(a, b, r.oracle));
    compare("mul", a, b, 0, r, with_flags([&](auto& sink) { return mul(x, y, r.library, sink); }), exact_.mul(a, b, r.oracle));
    compare("min", a, b, 0, r, {min(x, y, r.library.subnormal), {}}, {.code = exact_.min(a, b, r.oracle.flush)});
    compare("max", a, b, 0, r, {max(x, y, r.library.subnormal), {}}, {.code = exact_.max(a, b, r.oracle.flush)});
  }
  void triple(std::uint32_t a, std::uint32_t b, std::uint32_t c, testing::rule_pair const& r) {
    const auto x = library_code<F>(a), y = library_code<F>(b), z = library_code<F>(c);
    compare("fma", a, b, c, r, with_flags([&](auto& sink) { return fma(x, y, z, r.library, sink); }), exact_.fma(a, b, c, r.oracle));
  }
  void check() const { all_.check(); }

 private:
  void compare(char const* what, std::uint32_t a, std::uint32_t b, std::uint32_t c, testing::rule_pair const& r, rounded_value<F> got, oracle::outcome const& expected) {
    all_.expect(testing::same(got, expected), [&] { return fmt::format("{} {:x} {:x} {:x}, {}: {}", what, a, b, c, r.words(), testing::difference(got, expected)); });
  }
  testing::tally all_;
  oracle::operations<exact_number<F>> exact_{numbers_of<F>()};
};

template <format F>
void all_pairs() {
  comparison<F> all(fmt::format("{}: add, sub, mul, min, max, code and flags, all pairs, 36 rules", traits_of(F).name));
  for (auto const& rule : testing::all_rules())
    for (std::uint32_t a = 0; a < testing::code_count<F>(); ++a)
      for (std::uint32_t b = 0; b < testing::code_count<F>(); ++b) all.pair(a, b, rule);
  all.check();
}

/// All triples, each under `rules_a_triple` of the 36 rules, taken in turn.
template <format F>
void all_triples(std::uint32_t step_a, std::size_t rules_a_triple) {
  const auto rules = testing::all_rules();
  comparison<F> all(fmt::format("{}: fma, code and flags, all b and c, {}, {} of 36 rules each",
                                traits_of(F).name, step_a == 1 ? "all a" : fmt::format("every {}th a", step_a), rules_a_triple));
  std::size_t turn = 0;
  for (std::uint32_t a = 0; a < testing::code_count<F>(); a += step_a)
    for (std::uint32_t b = 0; b < testing::code_count<F>(); ++b)
      for (std::uint32_t c = 0; c < testing::code_count<F>(); ++c)
        for (std::size_t i = 0; i < rules_a_triple; ++i) all.triple(a, b, c, rules[turn++ % rules.size()]);
  all.check();
}

/// A code of any exponent with a structured fraction.
template <format F>
std::uint32_t structured(testing::random_bits& next, int field) {
  constexpr oracle::number_format f = numbers_of<F>();
  const std::uint32_t hidden = std::uint32_t{1} << f.fraction_width, fields = std::uint32_t{1} << f.exponent_width;
  const std::uint32_t fraction = testing::fraction_pattern(next, f.fraction_width);
  return (next.one_in(2) ? f.sign : 0) + (field < 0 ? 0 : std::uint32_t(field) < fields ? std::uint32_t(field) : fields - 1) * hidden + fraction;
}

/// a·b + c with every difference between the exponents of a·b and c, from far below to far above.
template <format F>
void every_difference(std::uint64_t seed, int repetitions) {
  constexpr oracle::number_format f = numbers_of<F>();
  testing::random_bits next(seed);
  const auto rules = testing::all_rules();
  comparison<F> all(fmt::format("{}: every operation, code and flags, every exponent difference x structured significands x 36 rules", traits_of(F).name), seed);
  const int fields = 1 << f.exponent_width;
  for (int difference = -fields; difference <= fields; ++difference)
    for (int i = 0; i < repetitions; ++i) {
      const int field_c = next.between(0, fields - 1), field_product = field_c + difference + f.bias;
      const int field_a = next.between(std::max(0, field_product - fields), std::min(fields - 1, std::max(0, field_product)));
      const std::uint32_t a = structured<F>(next, field_a), b = structured<F>(next, field_product - field_a), c = structured<F>(next, field_c);
      auto const& rule = rules[next.below(36)];
      all.triple(a, b, c, rule);
      all.pair(structured<F>(next, field_c + difference), c, rule);
      all.pair(a, b, rule);
    }
  all.check();
}

}  // namespace

TEST_CASE("8-bit formats, FP6 and E2M1: add, sub, mul, min, max, code and flags, all pairs in every rule", "[rounding]") {
  all_pairs<format::e4m3fn>();
  all_pairs<format::e5m2>();
  all_pairs<format::e4m3fnuz>();
  all_pairs<format::e5m2fnuz>();
  all_pairs<format::e2m1>();
  all_pairs<format::e3m2>();
  all_pairs<format::e2m3>();
}
TEST_CASE("E8M0: add, sub, mul, min, max, code and flags, all pairs in every rule", "[rounding]") { all_pairs<format::e8m0>(); }

TEST_CASE("8-bit formats, FP6 and E2M1: div, code and flags, all pairs", "[rounding]") {
  testing::for_each_format<format::e4m3fn, format::e5m2, format::e4m3fnuz, format::e5m2fnuz, format::e2m1, format::e3m2, format::e2m3>([]<format F> {
    testing::tally all(fmt::format("{}: div, code and flags, all pairs, 1 of 36 rules each", traits_of(F).name));
    const oracle::operations<oracle::rational> exact(numbers_of<F>());
    const auto rules = testing::all_rules();
    std::size_t turn = 0;
    for (std::uint32_t a = 0; a < testing::code_count<F>(); ++a)
      for (std::uint32_t b = 0; b < testing::code_count<F>(); ++b) {
        auto const& r = rules[turn++ % rules.size()];
        const auto got = with_flags([&](auto& sink) { return div(library_code<F>(a), library_code<F>(b), r.library, sink); });
        const auto expected = exact.div(a, b, r.oracle);
        all.expect(testing::same(got, expected), [&] { return fmt::format("{:x} / {:x}, {}: {}", a, b, r.words(), testing::difference(got, expected)); });
      }
    all.check();
  });
}
TEST_CASE("bf16 and f16: div, code and flags equal the exact oracle, sampled", "[rounding][sampled]") {
  testing::for_each_format<format::bf16, format::f16>([]<format F> {
    constexpr std::uint64_t seed = 0xd17;
    testing::random_bits next(seed);
    testing::tally all(fmt::format("{}: div, code and flags, random codes, 1 of 36 rules each", traits_of(F).name), seed);
    const oracle::operations<oracle::rational> exact(numbers_of<F>());
    const auto rules = testing::all_rules();
    for (int i = 0; i < 30000; ++i) {
      const std::uint32_t a = next.below(0x10000), b = next.one_in(8) ? a : next.below(0x10000);
      auto const& r = rules[next.below(36)];
      const auto got = with_flags([&](auto& sink) { return div(library_code<F>(a), library_code<F>(b), r.library, sink); });
      const auto expected = exact.div(a, b, r.oracle);
      all.expect(testing::same(got, expected), [&] { return fmt::format("{:x} / {:x}, {}: {}", a, b, r.words(), testing::difference(got, expected)); });
    }
    all.check();
  });
}

TEST_CASE("8-bit formats, FP6 and E2M1: fma, code and flags, all triples with every 17th a", "[rounding]") {
  all_triples<format::e4m3fn>(17, 1);
  all_triples<format::e5m2>(17, 1);
  all_triples<format::e4m3fnuz>(17, 1);
  all_triples<format::e5m2fnuz>(17, 1);
  all_triples<format::e2m1>(1, 36);
  all_triples<format::e3m2>(1, 36);
  all_triples<format::e2m3>(1, 36);
}
TEST_CASE("8-bit formats: fma, code and flags, all triples", "[.exhaustive][rounding]") {
  all_triples<format::e4m3fn>(1, 1);
  all_triples<format::e5m2>(1, 1);
  all_triples<format::e4m3fnuz>(1, 1);
  all_triples<format::e5m2fnuz>(1, 1);
}

TEST_CASE("bf16, f16, tf32, e8m0: operations equal the exact oracle, every exponent difference", "[rounding][sampled]") {
  every_difference<format::bf16>(0xd1f1, 40);
  every_difference<format::f16>(0xd1f2, 500);
  every_difference<format::tf32>(0xd1f3, 40);
  comparison<format::e8m0> all("e8m0: every operation, all pairs of every 5th code, 36 rules");
  for (auto const& rule : testing::all_rules())
    for (std::uint32_t a = 0; a < 256; a += 5)
      for (std::uint32_t b = 0; b < 256; b += 5) {
        all.pair(a, b, rule);
        all.triple(a, b, (a * 7 + b * 3) % 256, rule);
      }
  all.check();
}
TEST_CASE("bf16, f16, tf32: operations equal the exact oracle, every exponent difference, larger sample", "[.long][rounding]") {
  every_difference<format::bf16>(0xd1f4, 4000);
  every_difference<format::f16>(0xd1f5, 100000);
  every_difference<format::tf32>(0xd1f6, 4000);
}

TEST_CASE("fma on bf16: one rounding, where going through FP32 rounds twice", "[rounding][golden]") {
  const auto bf16 = [](float x) { return convert<format::bf16>(code_of(x)); };
  const auto a = bf16(1.75f), b = bf16(0.578125f), c = bf16(-0x1p-40f);
  CHECK(to_double(fma(a, b, c, subnormals::kept)) == 1.0078125);
  const f32_code by_f32 = fma(widen(a), widen(b), widen(c), subnormals::kept);
  CHECK(to_double(convert<format::bf16>(by_f32)) == 1.015625);
  // FP32 rounded to odd keeps what the second rounding needs.
  CHECK(to_double(convert<format::bf16>(fma(widen(a), widen(b), widen(c), subnormals::kept, null_sink{}, rounding::to_odd))) == 1.0078125);
}

TEST_CASE("sub and min of FP32: a - b is a + (-b), the smaller is minus the larger of the negated", "[rounding][sampled]") {
  constexpr std::uint64_t seed = 0x5b;
  testing::random_bits next(seed);
  testing::tally all("sub and min against add and max, both subnormal rules", seed);
  for (int i = 0; i < 1000000; ++i) {
    const auto a = f32_code::from_bits(testing::f32_anywhere(next)), b = f32_code::from_bits(testing::f32_anywhere(next));
    const auto s = next.one_in(2) ? subnormals::kept : subnormals::flushed;
    const auto in_words = [=] { return fmt::format("{:08x} {:08x}", a.to_bits(), b.to_bits()); };
    all.expect(sub(a, b, s) == add(a, b.negated(), s), in_words);
    const f32_code smaller = max(a.negated(), b.negated(), s);
    // A number that wins against a NaN, and NaN itself, keep their codes.
    all.expect(a.is_nan() && b.is_nan() ? min(a, b, s) == f32_code::nan() : min(a, b, s) == smaller.negated(), in_words);
  }
  all.check();
}

TEST_CASE("div: a quotient just above a tie is no tie", "[rounding][golden]") {
  // 2^23 / (2^24 - 1) = 2^-1 (1 + 2^-24 + 2^-48 + ...)
  CHECK(div(f32_code::from_bits(0x4b000000), f32_code::from_bits(0x4b7fffff), subnormals::kept).to_bits() == 0x3f000001);
}
