#include "stickybit/bias/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace stickybit {

double sign_test(std::int64_t positive, std::int64_t negative) {
  const std::int64_t n = positive + negative, fewer = std::min(positive, negative);
  if (n == 0) return 1;
  if (n > 10000) return std::min(1.0, std::erfc((double(n - 2 * fewer) - 1) / std::sqrt(2.0 * double(n))));
  // Σ_{i ≤ fewer} C(n, i) / 2^n, both sides.
  double log_term = -double(n) * std::log(2.0), sum = std::exp(log_term);
  for (std::int64_t i = 1; i <= fewer; ++i) {
    log_term += std::log(double(n - i + 1)) - std::log(double(i));
    sum += std::exp(log_term);
  }
  return std::min(1.0, 2 * sum);
}

double median(std::vector<double> values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*std::max_element(values.begin(), middle) + *middle) / 2;
}

double running_moments::standard_error() const noexcept { return count_ < 2 ? 0 : std::sqrt(variance() / double(count_)); }

}  // namespace stickybit
