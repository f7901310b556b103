// A result beside its exact value: exact, nearest, neighbour or wrong, with the error in ulp of its own format.
#include <array>

#include "oracle/exact.hpp"
#include "oracle/round.hpp"
#include "reports/account.hpp"
#include "reports/tiny_attention.hpp"
#include "stickybit/format/value.hpp"
#include "support/catch.hpp"
#include "support/generators.hpp"
#include "support/tally.hpp"

using namespace stickybit;
using detail::judged;

namespace {

report_result bf16_beside(std::uint16_t bits, double_double exact) { return judged("who", bf16_code::from_bits(bits), exact); }

}  // namespace

TEST_CASE("reports: a result is judged by its place among the numbers of its format", "[reports]") {
  constexpr double_double x{1 + 0x1p-9, 0};  // a quarter of an ulp above 1
  CHECK(bf16_beside(0x3f80, x).judged == accuracy::nearest);
  CHECK(bf16_beside(0x3f80, x).error_ulp == -0.25);
  CHECK(bf16_beside(0x3f81, x).judged == accuracy::neighbour);
  CHECK(bf16_beside(0x3f81, x).error_ulp == 0.75);
  CHECK(bf16_beside(0x3f82, x).judged == accuracy::wrong);
  CHECK(bf16_beside(0x3f7f, x).judged == accuracy::wrong);
  CHECK(bf16_beside(0xbf80, {-1 - 0x1p-9, 0}).error_ulp == 0.25);  // signed, not of the magnitude
  // A tie: the even one is nearest.
  CHECK(bf16_beside(0x3f80, {1 + 0x1p-8, 0}).judged == accuracy::nearest);
  CHECK(bf16_beside(0x3f81, {1 + 0x1p-8, 0}).judged == accuracy::neighbour);
  // Where the exact value is a number of the format, nothing beside it is a neighbour.
  CHECK(bf16_beside(0x3f80, {1, 0}).judged == accuracy::exact);
  CHECK(bf16_beside(0x3f7f, {1, 0}).judged == accuracy::wrong);
  CHECK(bf16_beside(0x3f80, {1, -0x1p-90}).judged == accuracy::exact);  // the noise of a double-double
  CHECK(bf16_beside(0x3f80, {1, -0x1p-60}).judged == accuracy::nearest);
}

TEST_CASE("reports: specials are wrong beside a number, and an exact 0 has no error in ulp", "[reports]") {
  for (std::uint16_t special : std::array<std::uint16_t, 3>{0x7fff, 0x7f80, 0xff80}) {
    const report_result r = bf16_beside(special, {1, 0});
    CHECK(r.judged == accuracy::wrong);
    CHECK_FALSE(r.error_ulp);
    CHECK_FALSE(r.relative_error);
  }
  CHECK(bf16_beside(0x7f80, {1, 0}).value == "infinity");
  CHECK(bf16_beside(0xff80, {1, 0}).value == "-infinity");
  CHECK(bf16_beside(0x7fff, {1, 0}).value == "NaN");
  CHECK(bf16_beside(0x0000, {0, 0}).judged == accuracy::exact);
  CHECK(bf16_beside(0x3f80, {0, 0}).judged == accuracy::wrong);
  CHECK_FALSE(bf16_beside(0x3f80, {0, 0}).error_ulp);
}

TEST_CASE("reports: the verdict equals the oracle's search for the two neighbours, sampled", "[reports][sampled]") {
  constexpr std::uint64_t seed = 0x4e9;
  testing::random_bits next(seed);
  testing::tally all("judged(BF16) against the oracle's neighbours", seed);
  for (int i = 0; i < 20000; ++i) {
    const std::uint32_t wide = testing::f32_at(next, next.between(-20, 20)), magnitude = wide & 0x7fffffff;
    const bool minus = wide >> 31 != 0;
    const auto x = oracle::magnitude_of<oracle::rational>(oracle::f32, magnitude);
    const auto rounded = [&](oracle::direction toward) { return oracle::round_by_search(oracle::bf16, toward, minus, x); };
    const std::uint32_t nearest = rounded(oracle::direction::nearest_even), down = rounded(oracle::direction::down), up = rounded(oracle::direction::up);
    const auto code = std::uint16_t((wide >> 16) + std::uint32_t(next.between(-2, 2)));
    const bool exact = down == up && code == down;
    const accuracy expected = exact ? accuracy::exact : code == nearest ? accuracy::nearest : code == down || code == up ? accuracy::neighbour : accuracy::wrong;
    const report_result r = bf16_beside(code, {to_double(f32_code::from_bits(wide)), 0});
    all.expect(r.judged == expected, [&] { return fmt::format("{:04x} beside {:08x}: {}, not {}", code, wide, name_of(r.judged), name_of(expected)); });
  }
  all.check();
}

TEST_CASE("reports: a measured number is close within its tolerance only", "[reports]") {
  CHECK(detail::measured("who", 0.009, 0, 0.01).judged == accuracy::close);
  CHECK(detail::measured("who", -0.011, 0, 0.01).judged == accuracy::wrong);
  CHECK(detail::measured("who", 0, 0, 0.01).judged == accuracy::exact);
  CHECK(detail::measured("who", 0.25, 0, 0.01, "ulp").value == "0.25 ulp");
}

TEST_CASE("reports: a call of a few keys refuses what BF16 does not hold, and splits a score into three that it does", "[reports]") {
  CHECK_THROWS_AS(detail::problem_of({.q = {{1.001}}, .k = {{1}}, .v = {{1}}}), std::logic_error);
  for (double x : {5.02, -60000.0, -0.9943782, 1e-3}) {
    const std::vector<double> parts = detail::score_parts(x);
    REQUIRE(parts.size() == 3);
    CHECK(std::abs(parts[0] + parts[1] + parts[2] - x) <= std::abs(x) * 0x1p-24);
    CHECK_NOTHROW(detail::problem_of({.q = {{1}}, .k = {parts}, .v = {{1}}}));
  }
}
