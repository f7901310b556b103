// FP32 to every narrower format against exact thresholds. The values of a target and the middles between them are FP32 numbers
// and exact in double; between two neighbouring ones every FP32 code must round alike, so the oracle speaks once a piece.
#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "formats.hpp"
#include "stickybit/rounding/arithmetic.hpp"
#include "support/catch.hpp"

using namespace stickybit;
using testing::numbers_of;

namespace {

constexpr std::uint32_t infinity = 0x7f800000, minus = 0x80000000;

std::uint32_t f32_bits(double exact) { return std::bit_cast<std::uint32_t>(float(exact)); }

/// What the oracle gives for an FP32 code.
template <format To>
class narrowing_oracle {
 public:
  [[nodiscard]] oracle::outcome operator()(std::uint32_t bits, oracle::rules r) const {
    const bool negative = bits >= minus;
    const std::uint32_t magnitude = bits % minus;
    if (magnitude > infinity) return round_.nan(round_.format().nan == oracle::none);
    if (magnitude == infinity) {
      if (round_.format().sign == 0 && negative) return round_.nan(true);
      const std::uint32_t code = round_.infinite(r.overflow == oracle::beyond::saturate, negative);
      const bool lost = !round_.format().is_infinite(code);
      return {.code = code, .inexact = lost, .overflow = lost};
    }
    return round_(r, negative, double(std::bit_cast<float>(magnitude)));
  }

  /// The FP32 codes without sign at which a result may change, ascending, from 0 to 0x80000000: of each `step`th value and its
  /// successor the value, the middle, and the codes after both.
  [[nodiscard]] std::vector<std::uint32_t> borders(std::uint32_t step) const {
    std::vector<std::uint32_t> list{0, 1, infinity, infinity + 1, minus};
    const std::uint32_t largest = round_.format().largest;
    for (std::uint32_t t = 0; t <= largest; t += t + step > largest && t < largest ? largest - t : step) {
      const double low = round_.value(t), middle = std::ldexp(low, -1) + std::ldexp(beyond(t), -1);
      for (double x : {low, middle})
        for (std::uint32_t code : {f32_bits(x), f32_bits(x) + 1}) list.push_back(code);
    }
    if (beyond(largest) < 0x1p128) list.push_back(f32_bits(beyond(largest)));
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
    return list;
  }

 private:
  [[nodiscard]] double beyond(std::uint32_t t) const {
    const auto f = round_.format();
    return oracle::times_pow2<double>(f.whole(t + 1), f.weight(t + 1));
  }
  oracle::rounder<double> round_{numbers_of<To>()};
};

template <format To>
void around_borders(std::uint32_t step, std::size_t rules_a_code) {
  const narrowing_oracle<To> exact;
  const auto rules = testing::all_rules();
  testing::tally all(fmt::format("FP32 to {}, code and flags, at every {} and the middles, and next to them, {} of 36 rules each", traits_of(To).name,
                                 step == 1 ? "value" : fmt::format("{}th value", step), rules_a_code));
  std::size_t turn = 0;
  for (std::uint32_t border : exact.borders(step))
    for (std::uint32_t magnitude : {border - 1, border, border + 1})
      for (std::uint32_t sign : {0u, minus})
        for (std::size_t i = 0; i < rules_a_code; ++i) {
          if (magnitude >= minus) continue;
          auto const& r = rules[turn++ % rules.size()];
          const auto c = f32_code::from_bits(sign + magnitude);
          const auto got = with_flags([&](auto& sink) { return convert<To>(c, r.library, sink); });
          const auto expected = exact(c.to_bits(), r.oracle);
          all.expect(testing::same(got, expected), [&] { return fmt::format("{:08x}, {}: {}", c.to_bits(), r.words(), testing::difference(got, expected)); });
        }
  all.check();
}

/// How many FP32 codes of [begin, end) do not become `expected`. A loop of its own, everything inlined: it runs 2^32 times a sweep.
template <format To, rounding Mode>
[[gnu::flatten]] std::uint64_t count_wrong(std::uint32_t begin, std::uint32_t end, code<To> expected) {
  std::uint64_t wrong = 0;
  for (std::uint32_t bits = begin; bits != end; ++bits) wrong += convert<To>(f32_code::from_bits(bits), Mode) != expected;
  return wrong;
}

template <format To, rounding Mode>
void all_codes(narrowing_oracle<To> const& exact, std::vector<std::uint32_t> const& borders, oracle::direction toward) {
  testing::tally all(fmt::format("FP32 to {}, {}, all 2^32 codes", traits_of(To).name, name_of(Mode)));
  for (std::uint32_t sign : {0u, minus})
    for (std::size_t i = 0; i + 1 < borders.size(); ++i) {
      const std::uint32_t begin = sign + borders[i], end = sign + borders[i + 1];
      const std::uint32_t expected = exact(begin, {.toward = toward}).code;
      REQUIRE(exact(end - 1, {.toward = toward}).code == expected);
      all.add(end - begin, count_wrong<To, Mode>(begin, end, testing::library_code<To>(expected)),
              [=] { return fmt::format("in {:08x} ... {:08x}, not {:x}", begin, end - 1, expected); });
    }
  CHECK(all.cases() == std::uint64_t{1} << 32);
  all.check();
}

template <format To>
void all_codes_all_modes() {
  const narrowing_oracle<To> exact;
  const auto borders = exact.borders(1);
  all_codes<To, rounding::nearest_even>(exact, borders, oracle::direction::nearest_even);
  all_codes<To, rounding::nearest_away>(exact, borders, oracle::direction::nearest_away);
  all_codes<To, rounding::toward_zero>(exact, borders, oracle::direction::zero);
  all_codes<To, rounding::toward_positive>(exact, borders, oracle::direction::up);
  all_codes<To, rounding::toward_negative>(exact, borders, oracle::direction::down);
  all_codes<To, rounding::to_odd>(exact, borders, oracle::direction::odd);
}

}  // namespace

TEST_CASE("narrower from f32: code and flags equal the exact oracle around values and middles, every rule", "[rounding]") {
  around_borders<format::bf16>(1, 2);
  around_borders<format::f16>(1, 2);
  around_borders<format::tf32>(7, 2);
  testing::for_each_format<format::e4m3fn, format::e5m2, format::e4m3fnuz, format::e5m2fnuz, format::e8m0, format::e2m1, format::e3m2, format::e2m3>([]<format To> { around_borders<To>(1, 36); });
}
TEST_CASE("tf32 from f32: code and flags equal the exact oracle around all values and middles, every rule", "[.long][rounding]") { around_borders<format::tf32>(1, 36); }

TEST_CASE("bf16 from f32: every deterministic mode equals exact thresholds, all 2^32 codes", "[.exhaustive][rounding]") { all_codes_all_modes<format::bf16>(); }
TEST_CASE("f16 from f32: every deterministic mode equals exact thresholds, all 2^32 codes", "[.exhaustive][rounding]") { all_codes_all_modes<format::f16>(); }
TEST_CASE("tf32 from f32: every deterministic mode equals exact thresholds, all 2^32 codes", "[.exhaustive][rounding]") { all_codes_all_modes<format::tf32>(); }
TEST_CASE("8-bit formats from f32: every deterministic mode equals exact thresholds, all 2^32 codes", "[.exhaustive][rounding]") {
  testing::for_each_format<format::e4m3fn, format::e5m2, format::e4m3fnuz, format::e5m2fnuz>([]<format To> { all_codes_all_modes<To>(); });
}
TEST_CASE("e8m0 and e2m1 from f32: every deterministic mode equals exact thresholds, all 2^32 codes", "[.exhaustive][rounding]") {
  testing::for_each_format<format::e8m0, format::e2m1>([]<format To> { all_codes_all_modes<To>(); });
}
