#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "stickybit/exact/double_double.hpp"

namespace stickybit {

/// Σ_j w_j·row_j for rows of BF16 values and double_double weights (P·V, dS·K, …), one sum a column.
///
/// Error of a column after n rows: ≤ (1236 + 3·⌈n/32⌉)·2^-106·Σ_j |w_j·row_j|, plus n·2^-1072·max(1, |row|), for what falls below
/// the range of double; the weights are taken as exact. That is below 2^-95·Σ up to n = 2^13.
/// @pre weights and row values are finite, |w| < 2^800; a row value has at most 26 significand bits
class weighted_sum {
 public:
  explicit weighted_sum(std::size_t columns);

  /// @pre row.size() == columns()
  void add(double_double weight, std::span<double const> row) noexcept;

  [[nodiscard]] std::size_t columns() const noexcept { return high_.size(); }
  /// The sums so far; adding may go on.  @pre sums.size() == columns()
  void result(std::span<double_double> sums) noexcept;
  /// All sums become 0.
  void clear() noexcept;

 private:
  void fold() noexcept;

  static constexpr int block = 32;  ///< rows between two folds
  int pending_ = 0;                 ///< rows since the last fold
  std::vector<double> high_, middle_, low_;
  std::vector<double_double> total_;
};

}  // namespace stickybit
