#include "stickybit/bias/signed_error.hpp"

#include <cmath>
#include <limits>

#include "stickybit/bias/statistics.hpp"
#include "stickybit/format/value.hpp"

namespace stickybit {
namespace {

double ulp_of(format f, double x) { return f == format::bf16 ? ulp_at<format::bf16>(x) : ulp_at<format::f32>(x); }

column_error column_summary(error_samples const& s, format f, std::int64_t head, std::int64_t column, double& variance_ulps) {
  column_error c{head, column, 0, 0, 0, 0, 0, 0, 1};
  double squares = 0;
  running_moments moments;
  for (std::int64_t row = 0; row < s.rows; ++row) {
    const std::size_t i = s.at(head, row, column);
    const double e = s.error[i];
    if (std::isnan(e)) continue;
    squares += s.exact[i] * s.exact[i];
    moments.add(e);
    (e > 0 ? c.positive : e < 0 ? c.negative : c.zero) += 1;
  }
  variance_ulps = 0;
  if (moments.count() == 0 || squares == 0) return c;
  c.ulp = ulp_of(f, std::sqrt(squares / double(moments.count())));
  c.mean_ulp = moments.mean() / c.ulp;
  c.standard_error_ulp = moments.standard_error() / c.ulp;
  c.sign_test = sign_test(c.positive, c.negative);
  variance_ulps = moments.variance() / (c.ulp * c.ulp);
  return c;
}

/// What the rows contribute: means over columns and relative errors.
void add_rows(error_samples const& s, tensor_error& total, running_moments& row_means) {
  std::vector<double> relative;
  running_moments ulp_squares;
  for (std::int64_t head = 0; head < s.heads; ++head)
    for (std::int64_t row = 0; row < s.rows; ++row) {
      double sum = 0, error_squares = 0, exact_squares = 0;
      std::int64_t count = 0;
      for (std::int64_t column = 0; column < s.columns; ++column) {
        const std::size_t i = s.at(head, row, column);
        const double e = s.error[i], x = s.exact[i], ulp = total.columns[std::size_t(head * s.columns + column)].ulp;
        if (std::isnan(e)) {
          ++total.not_finite;
          continue;
        }
        ++total.counted;
        if (ulp > 0) {
          sum += e / ulp;
          ulp_squares.add(e / ulp * (e / ulp));
          ++count;
        }
        error_squares += e * e;
        exact_squares += x * x;
        total.exact_zeros += x == 0;
      }
      if (exact_squares > 0) relative.push_back(std::sqrt(error_squares / exact_squares));
      else ++total.rows_left_out;
      if (count == 0) continue;
      row_means.add(sum / double(count));
      total.rows.push_back({head, row, sum / double(count), exact_squares > 0 ? relative.back() : std::numeric_limits<double>::quiet_NaN()});
    }
  total.median_relative_error = median(relative);
  total.rms_error_ulp = std::sqrt(ulp_squares.mean());
}

}  // namespace

error_samples::error_samples(std::int64_t heads_, std::int64_t rows_, std::int64_t columns_)
    : heads(heads_), rows(rows_), columns(columns_), exact(std::size_t(heads_ * rows_ * columns_)), error(exact.size(), std::numeric_limits<double>::quiet_NaN()) {}

tensor_error summarize(error_samples const& s, format in_ulp_of) {
  tensor_error total;
  total.in_ulp_of = in_ulp_of;
  double variance_sum = 0;
  for (std::int64_t head = 0; head < s.heads; ++head)
    for (std::int64_t column = 0; column < s.columns; ++column) {
      double variance = 0;
      total.columns.push_back(column_summary(s, in_ulp_of, head, column, variance));
      total.positive += total.columns.back().positive;
      total.negative += total.columns.back().negative;
      variance_sum += variance;
    }
  running_moments row_means;
  add_rows(s, total, row_means);
  total.mean_signed_error_ulp = row_means.mean();
  total.standard_error_ulp = row_means.standard_error();
  std::int64_t positive = 0, negative = 0;
  for (row_error const& r : total.rows) (r.mean_ulp > 0 ? positive : negative) += r.mean_ulp != 0;
  total.row_sign_test = sign_test(positive, negative);
  // Independent columns of variance v have row means of variance v/n; a common correlation ρ adds ρ·v·(n − 1)/n.
  const double n = double(s.columns), mean_variance = variance_sum / double(s.heads * s.columns);
  if (n > 1 && mean_variance > 0) total.column_correlation = (row_means.variance() * n / mean_variance - 1) / (n - 1);
  return total;
}

}  // namespace stickybit
