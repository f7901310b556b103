#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "stickybit/format/code.hpp"
#include "stickybit/machine/unit.hpp"

namespace stickybit {

/// How to compute: by the integer definitions, or by the fast forms that are tested equal to them.
enum class engine : std::uint8_t { definition, fast };

/// The B operand of a product, taken apart once and used for many rows of A: K rows (k) of N columns (n), padded with +0 to
/// whole blocks of 16 rows and whole groups of columns.
class column_panel {
 public:
  /// element(k, n) = data[k·k_stride + n·n_stride], strides in elements: B[K×N] has strides {N, 1}, B stored as [N×K] {1, K}.
  column_panel(bf16_code const* data, std::int64_t k_count, std::int64_t n_count, std::int64_t k_stride, std::int64_t n_stride);

  [[nodiscard]] std::int64_t k_count() const noexcept { return k_count_; }
  [[nodiscard]] std::int64_t n_count() const noexcept { return n_count_; }
  /// @pre 0 ≤ k < k_count(), 0 ≤ n < n_count()
  [[nodiscard]] bf16_code at(std::int64_t k, std::int64_t n) const noexcept { return codes_[std::size_t(k * n_padded_ + n)]; }

 private:
  friend class row_times_panel;
  std::int64_t k_count_, n_count_, k_padded_, n_padded_;
  std::vector<bf16_code> codes_;           // [k_padded × n_padded]
  std::vector<float> values_;              // the same, as numbers; 0 for infinity and NaN
  std::vector<std::int16_t> exponents_;    // the same, as exponents; far below any for 0, far above any for infinity and NaN
};

/// One row of A against a panel, C[n] + Σ_k a[k]·B[k, n], chained over the unit's blocks in ascending k.
/// An object keeps the scratch memory of one thread.
class row_times_panel {
 public:
  /// @throws shape_error unless the unit takes BF16, gives FP32 and its block_size divides 16
  row_times_panel(machine_unit const& unit, engine how);

  /// c[j] becomes the chain over k in [k_begin, k_begin + a.size()) of column n_begin + j, starting from c[j].
  /// k_begin and n_begin are multiples of 16; a may end anywhere: the rest of its last block is +0 against the panel's rows there,
  /// which are +0 only past the panel's end (so a must reach a multiple of 16 or the panel's end).
  /// @throws shape_error when a range lies outside the panel
  void accumulate(std::span<bf16_code const> a, column_panel const& panel, std::int64_t k_begin, std::int64_t n_begin, std::span<f32_code> c);

 private:
  void take_apart(std::span<bf16_code const> a);
  template <int BlockSize>
  void fast_group(column_panel const& panel, std::int64_t k, std::int64_t n, int block, int count, f32_code* c);
  f32_code defined(column_panel const& panel, std::int64_t k, std::int64_t n, int block, f32_code c) const;

  machine_unit unit_;
  engine engine_;
  std::vector<bf16_code> codes_;  // the row, padded with +0 to whole blocks
  std::vector<float> values_;
  std::vector<std::int16_t> exponents_;
};

}  // namespace stickybit
