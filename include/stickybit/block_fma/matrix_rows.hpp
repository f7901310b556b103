#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace stickybit {

/// A matrix that somebody else owns: element (i, j) is data[i · stride + j].
template <class T>
struct matrix_rows {
  T* data = nullptr;
  std::int64_t rows = 0, columns = 0;
  std::int64_t stride = 0;  ///< elements from one row to the next

  matrix_rows() = default;
  matrix_rows(T* first, std::int64_t row_count, std::int64_t column_count, std::int64_t row_stride) : data(first), rows(row_count), columns(column_count), stride(row_stride) {}
  /// One row.
  explicit matrix_rows(std::span<T> row) : matrix_rows(row.data(), 1, std::int64_t(row.size()), std::int64_t(row.size())) {}

  /// @pre 0 ≤ i < rows
  [[nodiscard]] std::span<T> row(std::int64_t i) const noexcept { return {data + i * stride, std::size_t(columns)}; }
};

}  // namespace stickybit
