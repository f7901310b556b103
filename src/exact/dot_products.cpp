#include "stickybit/exact/dot_products.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include "fixed_point_sum.hpp"
#include "inlined.hpp"
#include "stickybit/format/value.hpp"

namespace stickybit {

double ieee_dot(std::span<bf16_code const> a, std::span<bf16_code const> b) noexcept {
  double sum = 0;
  for (std::size_t c = 0; c < a.size(); ++c) sum += to_double(a[c]) * to_double(b[c]);
  return sum;
}

void dot_products::exponent_range::include(double x) noexcept {
  if (x == 0 || !std::isfinite(x)) return;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const int e = int((bits >> 52) & 0x7ff) - 1023;  // every BF16 number is normal as a double
  const int last = e - 52 + std::countr_zero((bits & ((std::uint64_t{1} << 52) - 1)) | (std::uint64_t{1} << 52));
  lowest = empty ? last : std::min(lowest, last);
  above = empty ? e + 1 : std::max(above, e + 1);
  empty = false;
}

dot_products::dot_products(bf16_rows keys) : rows_(keys.rows), columns_(keys.columns) {
  if (keys.stride < keys.columns && keys.rows > 1)
    throw std::invalid_argument("dot_products: stride " + std::to_string(keys.stride) + " is below the " + std::to_string(columns_) + " columns");
  if (columns_ >= (std::size_t{1} << 30)) throw std::invalid_argument("dot_products: " + std::to_string(columns_) + " columns, the limit is 2^30 - 1");
  log2_columns_ = columns_ <= 1 ? 0 : int(std::bit_width(columns_ - 1));
  const std::size_t blocks = (rows_ + block_rows - 1) / block_rows;
  values_.resize(blocks * block_rows * columns_);
  ranges_.resize(blocks);
  for (std::size_t j = 0; j < rows_; ++j) {
    double* const column = values_.data() + j / block_rows * block_rows * columns_ + j % block_rows;
    const auto row = keys.row(j);
    for (std::size_t c = 0; c < columns_; ++c) {
      column[c * block_rows] = to_double(row[c]);
      ranges_[j / block_rows].include(column[c * block_rows]);
    }
  }
}

// Every product and every sum of products is a multiple of 2^(lowest + lowest), and every sum is at most 2^(bits) of those.
// one_double: bits ≤ 53, so each partial sum is a double, whatever the order.
// two_doubles: two_sum moves the error of each addition, a multiple too and at most 2^-53 of the sum, to a second double;
// n of them stay below 2^(bits − 53)·n, so if that is at most 2^53 their plain sum is exact as well.
dot_products::method dot_products::method_for(exponent_range query, exponent_range block) const noexcept {
  const int bits = query.empty || block.empty ? 0 : log2_columns_ + query.above + block.above - query.lowest - block.lowest;
  if (bits <= 53) return method::one_double;
  return bits + log2_columns_ <= 106 ? method::two_doubles : method::fixed_point;
}

/// Products of products.size() rows from `first_row` on, exact; false, and nothing of use, if a block needs fixed point.
bool dot_products::evaluate_in_doubles(std::span<double const> query, std::size_t first_row, std::span<double_double> products) const {
  exponent_range range;
  for (double x : query) range.include(x);
  std::size_t used = 0;
  for (std::size_t done = 0; done < products.size(); done += used) {
    const std::size_t index = (first_row + done) / block_rows, skipped = (first_row + done) % block_rows;
    used = std::min(block_rows - skipped, products.size() - done);
    const method how = method_for(range, ranges_[index]);
    if (how == method::fixed_point) return false;
    double const* values = block(index);  // [columns][block_rows]
    std::array<double, block_rows> sum{}, error{};
    for (std::size_t c = 0; c < columns_; ++c, values += block_rows) {
      const double q = query[c];
      if (how == method::one_double) {
#pragma omp simd
        for (std::size_t j = 0; j < block_rows; ++j) sum[j] += q * values[j];
      } else {
#pragma omp simd
        for (std::size_t j = 0; j < block_rows; ++j) {
          const double_double s = inlined::two_sum(sum[j], q * values[j]);
          sum[j] = s.hi;
          error[j] += s.lo;
        }
      }
    }
    for (std::size_t j = 0; j < used; ++j) {
      const double high = sum[skipped + j];
      products[done + j] = std::isfinite(high) ? inlined::two_sum(high, error[skipped + j]) : double_double{high, 0};
    }
  }
  return true;
}

namespace {

/// Dot product of a query and the row whose elements are `stride` apart: its class and sign if not finite, else the exact sum.
double exact_sum(std::span<double const> query, double const* row, std::size_t stride, fixed_point_sum& sum) noexcept {
  double ieee = 0;
  for (std::size_t c = 0; c < query.size(); ++c) ieee += query[c] * row[c * stride];
  sum = {};
  if (!std::isfinite(ieee)) return ieee;
  for (std::size_t c = 0; c < query.size(); ++c) sum.add(query[c] * row[c * stride]);
  sum.normalise();
  return ieee;
}

}  // namespace

void dot_products::fixed_point_products(std::span<double const> query, std::size_t first, std::span<double_double> products) const {
  fixed_point_sum sum;
  for (std::size_t j = 0; j < products.size(); ++j) {
    const std::size_t row = first + j;
    const double ieee = exact_sum(query, block(row / block_rows) + row % block_rows, block_rows, sum);
    products[j] = std::isfinite(ieee) ? sum.value() : double_double{ieee, 0};
  }
}

double_double dot_products::fixed_point_below_largest(std::span<double const> query, std::span<double_double> below) const {
  std::vector<fixed_point_sum> sums(below.size());
  fixed_point_sum const* largest = nullptr;
  double not_finite = -std::numeric_limits<double>::infinity();  // the maximum of those, NaN once there is one
  for (std::size_t j = 0; j < below.size(); ++j) {
    const double ieee = exact_sum(query, block(j / block_rows) + j % block_rows, block_rows, sums[j]);
    below[j] = {ieee, 0};
    if (std::isfinite(ieee)) {
      if (largest == nullptr || sums[j] > *largest) largest = &sums[j];
    } else if (!(ieee <= not_finite)) {
      not_finite = std::isnan(not_finite) ? not_finite : ieee;
    }
  }
  if (largest == nullptr || !(not_finite < 0)) return {not_finite, 0};
  for (std::size_t j = 0; j < below.size(); ++j)
    if (std::isfinite(below[j].hi)) below[j] = -largest->minus(sums[j]).value();
  return largest->value();
}

std::vector<double> dot_products::checked(std::span<bf16_code const> query, std::size_t first, std::size_t count) const {
  if (query.size() != columns_)
    throw std::invalid_argument("dot_products: a query of " + std::to_string(query.size()) + " elements, expected " + std::to_string(columns_));
  if (first > rows_ || count > rows_ - first)
    throw std::invalid_argument("dot_products: products " + std::to_string(first) + " to " + std::to_string(first + count) + " asked of " + std::to_string(rows_) + " rows");
  std::vector<double> values(columns_);
  std::transform(query.begin(), query.end(), values.begin(), [](bf16_code c) { return to_double(c); });
  return values;
}

void dot_products::evaluate(std::span<bf16_code const> query, std::span<double_double> products) const { evaluate(query, 0, products); }

void dot_products::evaluate(std::span<bf16_code const> query, std::size_t first, std::span<double_double> products) const {
  const std::vector<double> values = checked(query, first, products.size());
  if (!evaluate_in_doubles(values, first, products)) fixed_point_products(values, first, products);
}

void dot_products::evaluate_differences(std::span<bf16_code const> query, std::size_t reference, std::size_t first, std::span<double_double> differences) const {
  const std::vector<double> values = checked(query, first, differences.size());
  if (reference >= rows_) throw std::invalid_argument("dot_products: reference " + std::to_string(reference) + " of " + std::to_string(rows_) + " rows");
  double_double of_reference;
  if (evaluate_in_doubles(values, reference, {&of_reference, 1}) && evaluate_in_doubles(values, first, differences)) {
    for (double_double& x : differences)
      x = std::isfinite(x.hi) && std::isfinite(of_reference.hi) ? inlined::add(x, -of_reference) : double_double{x.hi - of_reference.hi, 0};
    return;
  }
  const auto row_at = [&](std::size_t row) { return block(row / block_rows) + row % block_rows; };
  fixed_point_sum sum, reference_sum;
  const double reference_ieee = exact_sum(values, row_at(reference), block_rows, reference_sum);
  for (std::size_t j = 0; j < differences.size(); ++j) {
    const double ieee = exact_sum(values, row_at(first + j), block_rows, sum);
    differences[j] = std::isfinite(ieee) && std::isfinite(reference_ieee) ? sum.minus(reference_sum).value() : double_double{ieee - reference_ieee, 0};
  }
}

double_double dot_products::evaluate_below_largest(std::span<bf16_code const> query, std::span<double_double> below) const {
  const std::vector<double> values = checked(query, 0, below.size());
  if (!evaluate_in_doubles(values, 0, below)) return fixed_point_below_largest(values, below);
  double_double largest{-std::numeric_limits<double>::infinity(), 0};
  for (double_double product : below) {
    if (std::isnan(product.hi)) return {product.hi, 0};
    if (product > largest) largest = product;
  }
  if (std::isfinite(largest.hi))
    for (double_double& product : below)
      if (std::isfinite(product.hi)) product = inlined::add(product, -largest);
  return largest;
}

}  // namespace stickybit
