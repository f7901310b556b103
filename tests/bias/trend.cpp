#include "stickybit/bias/trend.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "support/catch.hpp"

using namespace stickybit;

TEST_CASE("trend: p is the share of all orders with at least this score, all permutations of 2 to 7", "[bias]") {
  for (std::size_t n = 2; n <= 7; ++n) {
    std::vector<double> x(n);
    for (std::size_t i = 0; i < n; ++i) x[i] = double(i);
    std::vector<std::int64_t> scores;
    std::vector<std::vector<double>> orders;
    do {
      scores.push_back(trend_of(x).score);
      orders.push_back(x);
    } while (std::next_permutation(x.begin(), x.end()));
    const std::int64_t pairs = std::int64_t(n * (n - 1) / 2);
    for (std::size_t k = 0; k < orders.size(); k += 1 + orders.size() / 50) {
      const trend t = trend_of(orders[k]);
      CHECK(t.pairs == pairs);
      const auto as_far = std::count_if(scores.begin(), scores.end(), [&](std::int64_t s) { return s >= std::abs(t.score); });
      CHECK(t.p == Approx(t.score == 0 ? 1 : double(as_far) / double(scores.size())));
    }
    CHECK(*std::max_element(scores.begin(), scores.end()) == pairs);
  }
}

TEST_CASE("trend: NaN are left out, equal numbers count nothing, long sequences go over to the normal distribution", "[bias]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(trend_of(std::vector{1.0, nan, 2.0, 3.0}).p == Approx(1.0 / 6));
  CHECK(trend_of(std::vector{1.0, nan, 2.0, 3.0}).count == 3);
  CHECK(trend_of(std::vector{2.0, 2.0, 2.0}).score == 0);
  CHECK(trend_of(std::vector{2.0, 2.0, 2.0}).p == 1);
  CHECK(trend_of(std::vector{2.0, 2.0, 3.0}).score == 2);
  CHECK(trend_of(std::vector<double>{}).p == 1);
  // 40 numbers, exact; 41, by the normal distribution; both near what the normal distribution says.
  for (int n : {40, 41}) {
    std::vector<double> x;
    for (int i = 0; i < n; ++i) x.push_back(i + 40 * std::sin(i * 2.4));
    const trend t = trend_of(x);
    const double deviation = std::sqrt(n * (n - 1.0) * (2 * n + 5) / 18);
    CHECK(t.p == Approx(std::erfc((double(t.score) - 1) / deviation / std::sqrt(2.0)) / 2).epsilon(0.05));
  }
}
