#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "stickybit/machine/unit.hpp"

// Products of dense matrices in double, and what a tensor core's chain loses on the way: the two loops that take a prediction's time.

namespace stickybit::detail {

/// A matrix that somebody else owns, row-major.
template <class Number>
struct matrix_view {
  Number* data;
  std::int64_t rows, columns, stride;

  [[nodiscard]] Number* row(std::int64_t i) const noexcept { return data + i * stride; }
  operator matrix_view<Number const>() const noexcept { return {data, rows, columns, stride}; }
};

/// c[M×N] += a[M×K]·b[K×N] in double (host IEEE, products and sums rounded as they come).
/// @pre a.columns == b.rows, c.rows == a.rows, c.columns == b.columns
void add_product(matrix_view<double const> a, matrix_view<double const> b, matrix_view<double> c);
void add_product(matrix_view<float const> a, matrix_view<float const> b, matrix_view<float> c);

/// Numbers of a product's operand, with what its alignment looks at. Values are kept divided by 2^shift, so that products stay inside FP32.
struct chain_operand {
  std::int64_t rows = 0, columns = 0;
  int shift = 0;
  double scale_of_values = 1;  ///< 2^-shift
  std::vector<float> value, exponent, lowest;  ///< [rows×columns]; exponents of the number and of its lowest bit set; of 0: −far and +far

  static constexpr float far = 1 << 20;

  chain_operand() = default;
  chain_operand(std::int64_t rows_, std::int64_t columns_) : rows(rows_), columns(columns_), value(std::size_t(rows * columns)), exponent(value.size(), -far), lowest(value.size(), far) {}

  /// Before elements are set: they are kept divided by 2^by.
  void shift_by(int by) noexcept;
  /// Sets one element.  @pre x is a BF16 number, finite
  void set(std::int64_t i, std::int64_t j, double x) noexcept;
};

/// Where a chain stands, for M×N sums at once: the exact sum so far, what the chain is expected to be off by, and the variance of that.
struct chain_state {
  std::int64_t rows = 0, columns = 0;
  int shift = 0;  ///< sum, mean and √variance are divided by 2^shift
  std::vector<float> sum, lowest, mean, variance;  ///< [rows×columns]; lowest: exponent of the lowest bit that the sum can have

  chain_state() = default;
  chain_state(std::int64_t rows_, std::int64_t columns_)
      : rows(rows_), columns(columns_), sum(std::size_t(rows * columns)), lowest(sum.size(), chain_operand::far), mean(sum.size()), variance(sum.size()) {}
  void restart(int shift_of_products);
};

/// An operand from a place on.
struct chain_factor {
  chain_operand const& of;
  std::int64_t first;  ///< of a: column; of b: row
};

/// What a chain of unit steps over `count` products adds to the state of rows [row, row + row_count).
///
/// A block of n products is aligned at E, the largest exponent of its products and of c; every term is cut toward zero at 2^(E−F), and the
/// sum of the rest toward zero to 24 bits (or to nearest). The bits that are cut are taken as uniformly distributed between the lowest bit
/// that a term can have and the place of the cut: the mean loss is half of what fits there, toward zero, with the sign of the term.
/// @param a  [M×K] from a column on  @param b  [K×N] from a row on
/// @source  the unit's rule; stickybit models
void add_chain_losses(machine_unit const& unit, chain_factor a, chain_factor b, std::int64_t count, std::int64_t row, std::int64_t row_count, chain_state& state);

/// The same, element by element, as the definition.
void add_chain_losses_plainly(machine_unit const& unit, chain_factor a, chain_factor b, std::int64_t count, std::int64_t row, std::int64_t row_count, chain_state& state);

}  // namespace stickybit::detail
