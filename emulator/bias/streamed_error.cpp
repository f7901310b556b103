#include "stickybit/bias/streamed_error.hpp"

#include <cmath>
#include <limits>

#include "stickybit/format/value.hpp"

namespace stickybit {

streamed_error::streamed_error(std::int64_t heads, std::int64_t rows) : rows_(rows), moments_(std::size_t(heads * rows)) {}

void streamed_error::add(std::int64_t head, std::int64_t row, double value, double_double exact) noexcept {
  row_moments& m = moments_[std::size_t(head * rows_ + row)];
  if (!std::isfinite(value) || !std::isfinite(exact.hi)) {
    ++m.not_finite;
    return;
  }
  const double e = to_double(double_double{value, 0} - exact);
  m.error.add(e);
  m.error_squares += e * e;
  m.exact_squares += exact.hi * exact.hi;
  m.positive += e > 0;
  m.negative += e < 0;
  m.exact_zeros += exact.hi == 0;
}

tensor_error streamed_error::summary(format in_ulp_of) const {
  tensor_error total;
  total.in_ulp_of = in_ulp_of;
  running_moments row_means;
  std::vector<double> relative;
  double squares_ulp = 0;
  std::int64_t in_means = 0, positive_rows = 0, negative_rows = 0;
  for (std::size_t i = 0; i < moments_.size(); ++i) {
    row_moments const& m = moments_[i];
    const std::int64_t count = m.error.count();
    total.counted += count;
    total.not_finite += m.not_finite;
    total.exact_zeros += m.exact_zeros;
    total.positive += m.positive;
    total.negative += m.negative;
    if (count == 0 || m.exact_squares == 0) {
      ++total.rows_left_out;
      continue;
    }
    const double root = std::sqrt(m.exact_squares / double(count)), ulp = in_ulp_of == format::bf16 ? ulp_at<format::bf16>(root) : ulp_at<format::f32>(root);
    const double mean = m.error.mean() / ulp;
    relative.push_back(std::sqrt(m.error_squares / m.exact_squares));
    row_means.add(mean);
    (mean > 0 ? positive_rows : negative_rows) += mean != 0;
    squares_ulp += m.error_squares / (ulp * ulp);
    in_means += count;
    total.rows.push_back({std::int64_t(i) / rows_, std::int64_t(i) % rows_, mean, relative.back(), ulp});
  }
  total.mean_signed_error_ulp = row_means.mean();
  total.standard_error_ulp = row_means.standard_error();
  total.rms_error_ulp = in_means == 0 ? 0 : std::sqrt(squares_ulp / double(in_means));
  total.median_relative_error = median(std::move(relative));
  total.row_sign_test = sign_test(positive_rows, negative_rows);
  return total;
}

}  // namespace stickybit
