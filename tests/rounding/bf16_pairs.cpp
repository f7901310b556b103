// BF16 add and mul over all pairs of codes. Products are exact in double, and so are sums in which a term far below the other one
// is replaced by a somewhat larger one: what lies below 2^-40 of a BF16 number is below every middle, whatever its size. The
// oracle rounds the value of the first pair and tells how far the same result goes; as b ascends the value walks through the pieces.
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "formats.hpp"
#include "oracle/operations.hpp"
#include "stickybit/rounding/arithmetic.hpp"
#include "support/catch.hpp"
#include "support/generators.hpp"

using namespace stickybit;

namespace {

constexpr std::uint32_t largest = 0x7f7f, infinity = 0x7f80, sign_bit = 0x8000;

/// For each code t without sign up to infinity: the first double that is rounded to t or beyond.
std::vector<double> thresholds(oracle::rounder<double> const& round, oracle::rules r, bool minus) {
  std::vector<double> first{0.0};
  const auto reaches = [&](double x, std::uint32_t t) { return round(r, minus, x).code % sign_bit >= t; };
  for (std::uint32_t t = 1; t <= infinity; ++t) {
    const double low = round.value(t - 1), high = t == infinity ? 0x1p128 : round.value(t), middle = (low + high) / 2;
    const double up = std::numeric_limits<double>::infinity();
    double found = up;  // never
    for (double x : {high, std::nextafter(middle, up), middle, std::nextafter(low, up)})
      if (reaches(x, t)) found = x;
    first.push_back(found);
  }
  first.push_back(std::numeric_limits<double>::infinity());
  return first;
}

class pieces {
 public:
  pieces(oracle::rounder<double> const& round, oracle::rules r) : first_{thresholds(round, r, false), thresholds(round, r, true)} {}

  /// The code of x ≠ 0, found from where the last one was.
  std::uint32_t operator()(double x) {
    const bool minus = x < 0;
    const double magnitude = std::fabs(x);
    std::vector<double> const& first = first_[minus];
    while (magnitude >= first[at_ + 1]) ++at_;
    while (magnitude < first[at_]) --at_;
    return at_ + (minus ? sign_bit : 0);
  }

 private:
  std::vector<double> first_[2];
  std::uint32_t at_ = 0;
};

double exact_sum(double a, double b) {
  const double bound_a = std::fabs(a) * 0x1p-40, bound_b = std::fabs(b) * 0x1p-40;
  if (b != 0 && std::fabs(b) < bound_a) b = std::copysign(std::ldexp(1.0, std::ilogb(bound_a)), b);
  if (a != 0 && std::fabs(a) < bound_b) a = std::copysign(std::ldexp(1.0, std::ilogb(bound_b)), a);
  return a + b;
}

/// Every `step`th a with all b.
template <rounding Mode, bool Multiply>
void pairs(oracle::direction toward, std::uint32_t first_a, std::uint32_t step) {
  const oracle::operations<double> exact(oracle::bf16_format);
  const oracle::rules rules{.toward = toward};
  pieces rounded_code(exact.round, rules);
  std::vector<double> values;
  for (std::uint32_t c = 0; c < 0x10000; ++c) values.push_back(c % sign_bit > largest ? 0 : exact.round.value(c));
  testing::tally all(fmt::format("BF16 {}, {}, all b, {}", Multiply ? "mul" : "add", name_of(Mode), step == 1 ? "all a" : fmt::format("every {}th a", step)));
  for (std::uint32_t a = first_a; a < 0x10000; a += step) {
    const auto x = bf16_code::from_bits(std::uint16_t(a));
    std::uint64_t wrong = 0;
    std::uint32_t first_wrong = 0;
    const auto compare = [&](std::uint32_t b) {
      const auto y = bf16_code::from_bits(std::uint16_t(b));
      const std::uint32_t got = (Multiply ? mul(x, y, rounding_rule{.mode = Mode}) : add(x, y, rounding_rule{.mode = Mode})).to_bits();
      std::uint32_t expected = 0;
      const bool special = a % sign_bit > largest || b % sign_bit > largest;
      const double value = special ? 0 : Multiply ? values[a] * values[b] : exact_sum(values[a], values[b]);
      if (value == 0) expected = (Multiply ? exact.mul(a, b, rules) : exact.add(a, b, rules)).code;
      else expected = rounded_code(value);
      if (got != expected && wrong++ == 0) first_wrong = b;
    };
    for (std::uint32_t b = 0xffff; b >= sign_bit; --b) compare(b);  // from the most negative number up
    for (std::uint32_t b = 0; b < sign_bit; ++b) compare(b);
    all.add(0x10000, wrong, [=] { return fmt::format("{:04x} {:04x}", a, first_wrong); });
  }
  all.check();
}

}  // namespace

TEST_CASE("bf16 add and mul: equal exact thresholds, all b with every 1021st a, directed and nearest", "[rounding]") {
  pairs<rounding::nearest_even, false>(oracle::direction::nearest_even, 5, 1021);
  pairs<rounding::nearest_even, true>(oracle::direction::nearest_even, 6, 1021);
  pairs<rounding::nearest_away, false>(oracle::direction::nearest_away, 7, 1021);
  pairs<rounding::toward_positive, true>(oracle::direction::up, 8, 1021);
  pairs<rounding::toward_negative, false>(oracle::direction::down, 9, 1021);
  pairs<rounding::to_odd, true>(oracle::direction::odd, 10, 1021);
  pairs<rounding::toward_zero, false>(oracle::direction::zero, 11, 1021);
}
TEST_CASE("bf16 add: equals exact thresholds, nearest_even, all 2^32 pairs", "[.exhaustive][rounding]") {
  pairs<rounding::nearest_even, false>(oracle::direction::nearest_even, 0, 1);
}
TEST_CASE("bf16 mul: equals exact thresholds, nearest_even, all 2^32 pairs", "[.exhaustive][rounding]") {
  pairs<rounding::nearest_even, true>(oracle::direction::nearest_even, 0, 1);
}

TEST_CASE("bf16 add and mul: the reference in double equals the fixed-point oracle, sampled pairs", "[rounding][sampled]") {
  constexpr std::uint64_t seed = 0xb1f;
  testing::random_bits next(seed);
  const oracle::operations<oracle::fixed> exact(oracle::bf16_format);
  const oracle::rounder<double> round(oracle::bf16_format);
  testing::tally all("sums and products in double against fixed point, 6 modes", seed);
  for (auto mode : testing::all_modes) {
    const oracle::rules rules{.toward = mode.oracle};
    pieces rounded_code(round, rules);
    for (int i = 0; i < 20000; ++i) {
      const std::uint32_t a = testing::bf16_at(next, next.between(-134, 127)), b = testing::bf16_at(next, next.between(-134, 127));
      const double sum = exact_sum(round.value(a), round.value(b)), product = round.value(a) * round.value(b);
      if (sum != 0) all.expect(rounded_code(sum) == exact.add(a, b, rules).code, [=] { return fmt::format("{:04x} + {:04x}, {}", a, b, name_of(mode.library)); });
      if (product != 0) all.expect(rounded_code(product) == exact.mul(a, b, rules).code, [=] { return fmt::format("{:04x} * {:04x}, {}", a, b, name_of(mode.library)); });
    }
  }
  all.check();
}
