#pragma once
#include <array>
#include <cstdint>

namespace stickybit {

/// Is the mean of numbers in [−1, 1] beyond ±tolerance? A test that may be looked at after every number: six bets, each a capital of Π(1 + λ(x ∓ tolerance)),
/// whose average exceeds 1/α at any time with probability α at most where the mean given the past lies within ±tolerance.
/// @source J. Ville, 1939; I. Waudby-Smith, A. Ramdas, "Estimating means of bounded random variables by betting", JRSS B 86(1), 2024
class sequential_mean_test {
 public:
  explicit sequential_mean_test(double tolerance = 0, double error_rate = 1e-6) noexcept : tolerance_(tolerance), error_rate_(error_rate) {}

  /// @param x  cut to [−1, 1]; NaN counts as 0
  void add(double x) noexcept;

  [[nodiscard]] std::int64_t count() const noexcept { return count_; }
  [[nodiscard]] double mean() const noexcept { return count_ == 0 ? 0 : sum_ / double(count_); }
  [[nodiscard]] double standard_error() const noexcept;
  /// The largest evidence so far against either side, Σ capitals / 6; above 1/error rate the mean is beyond the tolerance.
  [[nodiscard]] double evidence() const noexcept { return most_; }
  [[nodiscard]] bool biased() const noexcept { return most_ * error_rate_ >= 1; }

  /// What a checkpoint keeps.
  struct state {
    std::int64_t count = 0;
    double sum = 0, squares = 0, most = 0;
    std::array<double, 6> log_capital{};
  };
  [[nodiscard]] state save() const noexcept { return {count_, sum_, squares_, most_, log_capital_}; }
  void restore(state const& s) noexcept;

 private:
  double tolerance_, error_rate_;
  std::int64_t count_ = 0;
  double sum_ = 0, squares_ = 0, most_ = 0;
  std::array<double, 6> log_capital_{};
};

}  // namespace stickybit
