#include "stickybit/property/sequential_test.hpp"

#include <algorithm>
#include <cmath>

namespace stickybit {
namespace {

constexpr std::array bets{0.02, 0.1, 0.5};

}  // namespace

void sequential_mean_test::add(double x) noexcept {
  x = std::isnan(x) ? 0 : std::clamp(x, -1.0, 1.0);
  ++count_;
  sum_ += x;
  squares_ += x * x;
  double average = 0;
  for (std::size_t i = 0; i < bets.size(); ++i) {
    log_capital_[2 * i] += std::log1p(bets[i] * (x - tolerance_));       // that the mean is above +tolerance
    log_capital_[2 * i + 1] += std::log1p(-bets[i] * (x + tolerance_));  // below −tolerance
  }
  for (double c : log_capital_) average += std::exp(std::min(c, 700.0)) / 6;
  most_ = std::max(most_, average);
}

double sequential_mean_test::standard_error() const noexcept {
  if (count_ < 2) return 0;
  const double m = mean();
  return std::sqrt(std::max(0.0, squares_ / double(count_) - m * m) / double(count_ - 1));
}

void sequential_mean_test::restore(state const& s) noexcept {
  count_ = s.count;
  sum_ = s.sum;
  squares_ = s.squares;
  most_ = s.most;
  log_capital_ = s.log_capital;
}

}  // namespace stickybit
