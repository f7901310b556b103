#pragma once
#include <cstdint>
#include <vector>

namespace stickybit {

/// The chance of a split at least this uneven if both signs were equally likely: the two-sided sign test. 1 when both are 0.
/// Exact up to 10,000 signs, beyond by the normal approximation with continuity correction.
[[nodiscard]] double sign_test(std::int64_t positive, std::int64_t negative);

/// The mean of the middle two (or of the middle one); NaN when empty.
[[nodiscard]] double median(std::vector<double> values);

/// Count, mean and spread of numbers seen one by one.  @source Welford, Technometrics 4(3), 1962
class running_moments {
 public:
  void add(double x) noexcept {
    ++count_;
    const double before = x - mean_;
    mean_ += before / double(count_);
    squares_ += before * (x - mean_);
  }
  [[nodiscard]] std::int64_t count() const noexcept { return count_; }
  [[nodiscard]] double mean() const noexcept { return mean_; }
  /// Unbiased; 0 for fewer than two.
  [[nodiscard]] double variance() const noexcept { return count_ < 2 ? 0 : squares_ / double(count_ - 1); }
  /// Of the mean.
  [[nodiscard]] double standard_error() const noexcept;

 private:
  std::int64_t count_ = 0;
  double mean_ = 0, squares_ = 0;
};

}  // namespace stickybit
