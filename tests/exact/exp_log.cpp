#include <limits>
#include <random>

#include "measure.hpp"
#include "stickybit/exact/double_double.hpp"
#include "support/catch.hpp"

using namespace stickybit;
using namespace stickybit_test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// Uniform in [from, to], with a lo part.
double_double uniform(std::mt19937_64& random, double from, double to) {
  const double hi = std::uniform_real_distribution<double>(from, to)(random);
  return two_sum(hi, hi * 0x1p-54 * std::uniform_real_distribution<double>(-0.9, 0.9)(random));
}

}  // namespace

TEST_CASE("exp: relative error below 2^-101 where the result is above 2^-900, 9914 arguments with edges, seed 5", "[exact][unit]") {
  std::mt19937_64 random(5);
  worst error;
  const auto see = [&](double_double x) {
    const double_double e = exp(x);
    REQUIRE(e.hi + e.lo == e.hi);
    const big truth = mp::exp(value_of(x));
    error.see(value_of(e) - truth, truth, std::to_string(x.hi));
  };
  for (int i = 0; i < 3000; ++i) see(uniform(random, -620, 709.7));
  for (int i = 0; i < 3000; ++i) see(uniform(random, -2, 2));
  for (int i = 0; i < 2000; ++i) see(random_double_double(random, -300, 8));  // tiny arguments too
  // Around k·ln 2, where r is tiny, and around (k + ½)·ln 2, where it is largest and k changes.
  for (int k = -890; k <= 1020; k += 2)
    for (double part : {0.0, 0.5})
      see(two_sum((k + part) * 0x1.62e42fefa39efp-1, (k + part) * 0x1.abc9e3b39803fp-56 + std::ldexp(double(random() >> 60), -60)));
  see({0, 0});
  see({-0.0, 0});
  WARN(error.text("exp"));
  CHECK(error.ratio() <= pow2_big(-101));
}

TEST_CASE("exp: absolute error below 2^-1073 beside the relative one down to 0, 3000 arguments, seed 6", "[exact][unit]") {
  std::mt19937_64 random(6);
  worst error;
  for (int i = 0; i < 3000; ++i) {
    const double_double x = uniform(random, -750, -600);
    const big truth = mp::exp(value_of(x));
    error.see(value_of(exp(x)) - truth, truth * pow2_big(-101) + pow2_big(-1073), std::to_string(x.hi));
  }
  WARN(error.text("exp, as a part of its bound"));
  CHECK(error.ratio() <= 1);
}

TEST_CASE("exp: limits", "[exact][unit]") {
  CHECK(exp(double_double{0}) == double_double{1});
  CHECK(exp(double_double{-infinity}) == double_double{0});
  CHECK(exp(double_double{-1e300}) == double_double{0});
  CHECK(exp(double_double{-746}) == double_double{0});
  CHECK(exp(double_double{-745}).hi == 0x1p-1074);
  CHECK(exp(double_double{infinity}) == double_double{infinity});
  CHECK(exp(double_double{1e300}) == double_double{infinity});
  CHECK(exp(double_double{709.79}) == double_double{infinity});
  CHECK(exp(double_double{709.78}).hi < infinity);
  CHECK(std::isnan(exp(double_double{not_a_number}).hi));
}

TEST_CASE("log: relative error below 2^-100, near 1 too, 12024 arguments with edges, seed 7", "[exact][unit]") {
  std::mt19937_64 random(7);
  worst error;
  const auto see = [&](double_double x) {
    const double_double l = log(x);
    REQUIRE(l.hi + l.lo == l.hi);
    const big truth = mp::log(value_of(x));
    error.see(value_of(l) - truth, truth, std::to_string(x.hi));
  };
  const auto positive = [](double_double x) { return x.hi < 0 ? -x : x; };
  for (int i = 0; i < 4000; ++i) see(positive(random_double_double(random, -950, 1022)));
  for (int i = 0; i < 4000; ++i) see(uniform(random, 0.5, 3));
  for (int i = 0; i < 3000; ++i) see(double_double{1} + random_double_double(random, -100, -2));
  for (int e = -1020; e <= 1020; e += 4) {
    see({std::ldexp(1.0, e), 0});
    see({std::ldexp(0x1.6a09e667f3bcdp+0, e), 0});  // √2: k changes
  }
  see({0x1p-1074, 0});
  see({std::numeric_limits<double>::max(), 0});
  WARN(error.text("log"));
  CHECK(error.ratio() <= pow2_big(-100));
}

TEST_CASE("log: limits", "[exact][unit]") {
  CHECK(log(double_double{1}) == double_double{0});
  CHECK(log(double_double{0}) == double_double{-infinity});
  CHECK(log(double_double{infinity}) == double_double{infinity});
  CHECK(std::isnan(log(double_double{-1}).hi));
  CHECK(std::isnan(log(double_double{not_a_number}).hi));
}
