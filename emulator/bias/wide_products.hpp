#pragma once
#include <cstdint>
#include <vector>

#include "stickybit/block_fma/matrix_rows.hpp"
#include "stickybit/machine/unit.hpp"
#include "wide_chain.hpp"

// Products of matrices of doubles with BF16 matrices, in the vector registers of the machine that runs them.

namespace stickybit::detail {

/// A matrix of doubles that somebody else owns, either way round: element (i, k) is data[i·row_stride + k·column_stride].
struct strided_matrix {
  double const* data;
  std::int64_t rows, columns, row_stride, column_stride;

  [[nodiscard]] double at(std::int64_t i, std::int64_t k) const noexcept { return data[i * row_stride + k * column_stride]; }
};

/// A BF16 matrix B[K × N] as wide operands meet it: NaN and infinity are 0.
struct wide_panel {
  value_rows values;
  std::vector<std::int32_t> exponents;  ///< as in value_rows, but far below any for 0. [K × N]

  wide_panel(bf16_code const* data, std::int64_t rows, std::int64_t columns, std::int64_t stride);
};

/// c += a · the panel's rows k_begin … k_begin + a.columns − 1, in double, k ascending: the same bits on every machine.
void add_products(strided_matrix a, wide_panel const& b, std::int64_t k_begin, matrix_rows<double> c);

/// c becomes the unit's chain c + a·b as wide_chain() has it, row by row.
/// @checked equal to wide_chain() on random operands, tests/bias
void wide_chains(machine_unit const& unit, strided_matrix a, wide_panel const& b, std::int64_t k_begin, matrix_rows<double> c);

}  // namespace stickybit::detail
