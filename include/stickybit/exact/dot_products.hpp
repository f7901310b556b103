#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "stickybit/exact/double_double.hpp"
#include "stickybit/exact/rows.hpp"

namespace stickybit {

/// Σ_c a[c]·b[c] in double, left to right: right in class and sign if an element is NaN or infinite (infinity·0 and
/// infinity − infinity are NaN), because finite BF16 products cannot overflow there. Finite sums are rounded.
/// @pre equal sizes
[[nodiscard]] double ieee_dot(std::span<bf16_code const> a, std::span<bf16_code const> b) noexcept;

/// The dot products of any BF16 row with the rows of one matrix (q with all k, dO with all V). Finite ones are never rounded
/// on the way: where the exponents are close enough the sum is exact in a double, or in two; else it is taken in fixed point.
/// Cancellation costs nothing and there is no overflow. With NaN or infinity among the elements a product is what ieee_dot() says.
/// Holds a copy of the matrix as doubles (8 bytes an element); const members may be called from many threads.
class dot_products {
 public:
  /// @param keys  shape {rows, columns}.  @throws std::invalid_argument for stride < columns, or 2^30 columns or more
  explicit dot_products(bf16_rows keys);

  [[nodiscard]] std::size_t rows() const noexcept { return rows_; }
  [[nodiscard]] std::size_t columns() const noexcept { return columns_; }

  /// products[j] = Σ_c query[c]·keys[j][c] for every j < products.size(). Relative error ≤ 2^-103; mostly none.
  /// @throws std::invalid_argument unless query.size() == columns() and products.size() ≤ rows()
  void evaluate(std::span<bf16_code const> query, std::span<double_double> products) const;
  /// The same for the rows from `first` on: products[j] = Σ_c query[c]·keys[first + j][c].
  /// @throws std::invalid_argument unless query.size() == columns() and first + products.size() ≤ rows()
  void evaluate(std::span<bf16_code const> query, std::size_t first, std::span<double_double> products) const;

  /// Returns the largest product (relative error ≤ 2^-103) and sets below[j] = product j − the largest, relative error
  /// ≤ 5·2^-106 whatever cancels: this, not the product, is what exp() needs. A NaN product makes the returned maximum NaN.
  /// If the maximum is not finite, `below` means nothing; else a product −infinity gives −infinity. Nothing asked gives −infinity.
  /// @throws as evaluate()
  double_double evaluate_below_largest(std::span<bf16_code const> query, std::span<double_double> below) const;

  /// differences[j] = product first + j − product `reference`, relative error ≤ 5·2^-106 whatever cancels; with a product that is NaN
  /// or infinite, what IEEE subtraction gives.
  /// @throws std::invalid_argument unless query.size() == columns(), reference < rows() and first + differences.size() ≤ rows()
  void evaluate_differences(std::span<bf16_code const> query, std::size_t reference, std::size_t first, std::span<double_double> differences) const;

 private:
  /// Exponents that bound the finite non-zero elements of a group: each is a multiple of 2^lowest and below 2^above in magnitude.
  struct exponent_range {
    int lowest = 0;
    int above = 0;
    bool empty = true;
    void include(double x) noexcept;
  };
  enum class method { one_double, two_doubles, fixed_point };

  /// Rows a block; each block is stored [column][row], so that a dot product of all its rows is a loop over contiguous data.
  static constexpr std::size_t block_rows = 32;

  [[nodiscard]] method method_for(exponent_range query, exponent_range block) const noexcept;
  [[nodiscard]] double const* block(std::size_t index) const noexcept { return values_.data() + index * block_rows * columns_; }
  [[nodiscard]] bool evaluate_in_doubles(std::span<double const> query, std::size_t first, std::span<double_double> products) const;
  void fixed_point_products(std::span<double const> query, std::size_t first, std::span<double_double> products) const;
  double_double fixed_point_below_largest(std::span<double const> query, std::span<double_double> below) const;
  [[nodiscard]] std::vector<double> checked(std::span<bf16_code const> query, std::size_t first, std::size_t count) const;

  std::size_t rows_ = 0;
  std::size_t columns_ = 0;
  int log2_columns_ = 0;  ///< rounded up
  std::vector<double> values_;
  std::vector<exponent_range> ranges_;  ///< of each block
};

}  // namespace stickybit
