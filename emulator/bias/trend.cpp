#include "stickybit/bias/trend.hpp"

#include <cmath>
#include <cstdlib>
#include <vector>

namespace stickybit {
namespace {

/// Share of the permutations of n with a score of at least `score`. With k inversions the score is pairs − 2k.
double exact_tail(std::int64_t n, std::int64_t score) {
  const std::int64_t pairs = n * (n - 1) / 2, most_inversions = (pairs - score) / 2;
  std::vector<double> share(std::size_t(pairs + 1));  // of permutations of the first m numbers, by inversions
  share[0] = 1;
  for (std::int64_t m = 2; m <= n; ++m) {
    std::vector<double> next(share.size());
    for (std::int64_t k = 0; k <= m * (m - 1) / 2; ++k)
      for (std::int64_t added = 0; added < m && added <= k; ++added) next[std::size_t(k)] += share[std::size_t(k - added)] / double(m);
    share = std::move(next);
  }
  double tail = 0;
  for (std::int64_t k = 0; k <= most_inversions; ++k) tail += share[std::size_t(k)];
  return std::min(1.0, tail);
}

}  // namespace

trend trend_of(std::span<double const> values) {
  std::vector<double> x;
  for (double v : values)
    if (!std::isnan(v)) x.push_back(v);
  trend t;
  t.count = std::int64_t(x.size());
  t.pairs = t.count * (t.count - 1) / 2;
  for (std::size_t j = 1; j < x.size(); ++j)
    for (std::size_t i = 0; i < j; ++i) t.score += (x[i] < x[j]) - (x[i] > x[j]);
  const std::int64_t size = std::abs(t.score);
  if (size == 0) return t;
  const double n = double(t.count);
  t.p = t.count <= 40 ? exact_tail(t.count, size) : std::erfc((double(size) - 1) / std::sqrt(n * (n - 1) * (2 * n + 5) / 18) / std::sqrt(2.0)) / 2;
  return t;
}

}  // namespace stickybit
