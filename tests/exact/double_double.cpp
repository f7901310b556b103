#include "stickybit/exact/double_double.hpp"

#include <limits>
#include <random>
#include <vector>

#include "measure.hpp"
#include "support/catch.hpp"

using namespace stickybit;
using namespace stickybit_test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr int cases = 60000;

bool normalised(double_double x) { return x.hi + x.lo == x.hi; }
/// n·u², u = 2^-53, with a margin for the terms of order u³.
big u2(int n) { return n * pow2_big(-106) * (1 + pow2_big(-45)); }

/// A partner whose sum or difference with x cancels, to a random depth.
double_double near(double_double x, std::mt19937_64& random) {
  const double_double tiny = random_double_double(random, std::ilogb(x.hi) - 120, std::ilogb(x.hi));
  const double hi = x.hi + tiny.hi;
  const double lo = random() & 1 ? x.lo + tiny.lo : -x.lo;
  return two_sum(hi, lo);
}

}  // namespace

TEST_CASE("two_sum and two_product: no error, 60000 random pairs each, seed 1", "[exact][unit]") {
  std::mt19937_64 random(1);
  int wrong = 0;
  for (int i = 0; i < cases; ++i) {
    const double a = random_double_double(random, -400, 400).hi;
    const double b = random_double_double(random, -400, 400).hi;
    const double c = random_double_double(random, std::ilogb(a) - 60, std::ilogb(a)).hi;
    wrong += value_of(two_sum(a, b)) != big(a) + big(b) || value_of(two_sum(a, c)) != big(a) + big(c);
    wrong += value_of(quick_two_sum(a, c)) != big(a) + big(c);
    wrong += value_of(two_product(a, b)) != big(a) * big(b) || !normalised(two_product(a, b));
  }
  CHECK(wrong == 0);
}

TEST_CASE("double_double + - *: within 3u², 3u², 5u² and normalised, 60000 random pairs, half of them cancelling, seed 2", "[exact][unit]") {
  std::mt19937_64 random(2);
  worst sum, difference, product, with_double, times_double;
  int not_normalised = 0;
  for (int i = 0; i < cases; ++i) {
    const double_double a = random_double_double(random, -200, 200);
    const double_double b = i % 2 ? -near(a, random) : random_double_double(random, -200, 200);
    const big x = value_of(a), y = value_of(b);
    sum.see(value_of(a + b) - (x + y), x + y);
    difference.see(value_of(a - (-b)) - (x + y), x + y);
    product.see(value_of(a * b) - x * y, x * y);
    with_double.see(value_of(a + b.hi) - (x + big(b.hi)), x + big(b.hi));
    times_double.see(value_of(a * b.hi) - x * big(b.hi), x * big(b.hi));
    not_normalised += !normalised(a + b) + !normalised(a * b) + !normalised(a + b.hi) + !normalised(a * b.hi);
  }
  WARN(sum.text("a + b") << "; " << difference.text("a - b") << "; " << product.text("a * b"));
  WARN(with_double.text("a + double") << "; " << times_double.text("a * double"));
  CHECK(sum.ratio() <= u2(3));
  CHECK(difference.ratio() <= u2(3));
  CHECK(product.ratio() <= u2(5));
  CHECK(with_double.ratio() <= u2(2));
  CHECK(times_double.ratio() <= u2(2));
  CHECK(not_normalised == 0);
}

TEST_CASE("double_double /: within 16u² and normalised, 60000 random pairs, seed 3", "[exact][unit]") {
  std::mt19937_64 random(3);
  worst quotient;
  int not_normalised = 0;
  for (int i = 0; i < cases; ++i) {
    const double_double a = random_double_double(random, -200, 200), b = random_double_double(random, -200, 200);
    quotient.see(value_of(a / b) - value_of(a) / value_of(b), value_of(a) / value_of(b));
    not_normalised += !normalised(a / b);
  }
  WARN(quotient.text("a / b"));
  CHECK(quotient.ratio() <= u2(16));
  CHECK(not_normalised == 0);
}

TEST_CASE("double_double: order is that of the values, 60000 random pairs, half of equal hi, seed 4", "[exact][unit]") {
  std::mt19937_64 random(4);
  int wrong = 0;
  for (int i = 0; i < cases; ++i) {
    const double_double a = random_double_double(random, -3, 3);
    double_double b = random_double_double(random, -3, 3);
    if (i % 2) b = {a.hi, i % 4 == 1 ? a.lo : -a.lo};
    const big x = value_of(a), y = value_of(b);
    wrong += (a < b) != (x < y) || (a > b) != (x > y) || (a == b) != (x == y) || (a <= b) != (x <= y) || (-a < -b) != (y < x);
  }
  CHECK(wrong == 0);
  CHECK_FALSE(double_double{not_a_number} == double_double{not_a_number});
  CHECK_FALSE(double_double{not_a_number} < double_double{1});
  CHECK(double_double{-infinity} < double_double{-1e300});
  CHECK(to_double(double_double{1, 0x1p-60}) == 1);
}

TEST_CASE("double_double: infinity, NaN and overflow are those of IEEE 754 with lo = 0, 9 x 9 operands", "[exact][unit]") {
  const std::vector<double> operands{0.0, -0.0, 1.5, -1.5, infinity, -infinity, not_a_number, 0x1p1023, -0x1.fp1023};
  int checked = 0, wrong = 0;
  const auto see = [&](double_double x, double ieee) {
    if (std::isfinite(ieee) && ieee != 0) return;
    ++checked;
    wrong += x.lo != 0 || !(std::isnan(ieee) ? std::isnan(x.hi) : x.hi == ieee);
  };
  for (double a : operands)
    for (double b : operands) {
      const double_double x{a, 0}, y{b, 0};
      see(x + y, a + b);
      see(x + b, a + b);
      see(two_sum(a, b), a + b);
      see(x - y, a - b);
      see(x * y, a * b);
      see(x * b, a * b);
      see(two_product(a, b), a * b);
      see(x / y, a / b);
    }
  CAPTURE(checked);
  CHECK(wrong == 0);
  CHECK(checked > 400);
}
