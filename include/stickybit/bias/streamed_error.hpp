#pragma once
#include <cstdint>
#include <vector>

#include "stickybit/bias/signed_error.hpp"
#include "stickybit/bias/statistics.hpp"
#include "stickybit/exact/double_double.hpp"

namespace stickybit {

/// Signed error of a matrix that is too large to keep, such as dS [heads × rows × keys]: its elements are seen one by one, and each
/// row is measured in the ulp at its own root mean square. Memory: 80 bytes a row.
class streamed_error {
 public:
  streamed_error(std::int64_t heads, std::int64_t rows);

  /// One element. Elements of different rows may come from different threads.
  void add(std::int64_t head, std::int64_t row, double value, double_double exact) noexcept;

  /// As summarize() has it, with rows in the place of columns as units: the mean is that of the rows' means. No columns, and no
  /// correlation of columns.
  [[nodiscard]] tensor_error summary(format in_ulp_of) const;

 private:
  struct row_moments {
    running_moments error;
    double error_squares = 0, exact_squares = 0;
    std::int64_t positive = 0, negative = 0, exact_zeros = 0, not_finite = 0;
  };

  std::int64_t rows_;
  std::vector<row_moments> moments_;  // [heads × rows]
};

}  // namespace stickybit
