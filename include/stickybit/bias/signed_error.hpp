#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "stickybit/format/format.hpp"

namespace stickybit {

/// Values and what they should have been, for heads × rows × columns; `error` is value − exact.
struct error_samples {
  std::int64_t heads = 0, rows = 0, columns = 0;
  std::vector<double> exact;  // [heads, rows, columns]
  std::vector<double> error;  // the same; NaN where value or exact is infinite or NaN, or the row sees no key

  error_samples(std::int64_t heads_, std::int64_t rows_, std::int64_t columns_);
  [[nodiscard]] std::size_t at(std::int64_t head, std::int64_t row, std::int64_t column) const noexcept {
    return std::size_t((head * rows + row) * columns + column);
  }
};

/// Signed error of one column of one head, over its rows.
struct column_error {
  std::int64_t head, column;
  double ulp;                 ///< the format's ulp at the root mean square of the column's exact values; 0 where they are all 0
  double mean_ulp;            ///< mean of value − exact, in that ulp
  double standard_error_ulp;  ///< of the mean, over rows
  std::int64_t positive, negative, zero;
  double sign_test;           ///< two-sided
};

/// Signed error of one row of one head, over its columns.
struct row_error {
  std::int64_t head, row;
  double mean_ulp;  ///< each error in the ulp of its column
  double relative;  ///< |value − exact|₂ / |exact|₂; NaN where the exact row is 0
  double ulp = 0;   ///< what mean_ulp is in, where the row is its own unit (S, P, dP, dS); else 0
};

/// Bias of a tensor. Single values near 0 would swamp a mean in their own ulp, so means are in the ulp at the column's root mean square.
struct tensor_error {
  format in_ulp_of;
  std::int64_t counted = 0;      ///< elements in the means
  std::int64_t exact_zeros = 0;  ///< counted elements whose exact value is 0
  std::int64_t not_finite = 0;   ///< left out: value or exact infinite or NaN, or a row without keys
  double mean_signed_error_ulp = 0;
  double standard_error_ulp = 0;    ///< over rows: the columns of a row share its weights
  double column_correlation = 0;    ///< mean correlation of two columns' errors, from the spread of the row means; 0: independent
  double rms_error_ulp = 0;         ///< each error in the ulp of its column, as in the means
  double median_relative_error = 0; ///< over rows
  std::int64_t rows_left_out = 0;   ///< rows whose exact norm is 0, or with nothing finite
  std::int64_t positive = 0, negative = 0;
  double row_sign_test = 1;         ///< of the rows' mean signed errors
  std::vector<column_error> columns;  // [heads × columns]
  std::vector<row_error> rows;        // [heads × rows], rows with nothing finite left out
};

[[nodiscard]] tensor_error summarize(error_samples const& samples, format in_ulp_of);

}  // namespace stickybit
