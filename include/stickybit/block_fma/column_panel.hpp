#pragma once
#include <cstdint>
#include <memory>
#include <new>
#include <span>

#include "stickybit/block_fma/matrix_rows.hpp"
#include "stickybit/format/code.hpp"
#include "stickybit/machine/unit.hpp"

namespace stickybit {

/// How to compute: by the integer definitions, or by the fast forms that are tested equal to them.
enum class engine : std::uint8_t { definition, fast };

namespace detail {

/// An array whose first element lies at a multiple of 64 bytes, as SIMD loads like it. It only grows.
template <class T>
class aligned_array {
 public:
  /// Contents are lost where it grows.
  void reserve(std::size_t size) {
    if (size <= size_) return;
    data_.reset(new (std::align_val_t{64}) T[size]);
    size_ = size;
  }
  [[nodiscard]] T* data() noexcept { return data_.get(); }
  [[nodiscard]] T const* data() const noexcept { return data_.get(); }

 private:
  struct release {
    void operator()(T* p) const noexcept { ::operator delete[](p, std::align_val_t{64}); }
  };
  std::unique_ptr<T[], release> data_;
  std::size_t size_ = 0;
};

}  // namespace detail

/// The B operand of a product, taken apart once and used for many rows of A: K rows (k) of N columns (n), padded with +0 to
/// whole blocks of 16 rows and whole groups of 16 columns. Memory: 8 bytes an element.
class column_panel {
 public:
  /// element(k, n) = data[k·k_stride + n·n_stride], strides in elements: B[K×N] has strides {N, 1}, B stored as [N×K] {1, K}.
  /// In: BF16 or FP16.
  template <format In>
  column_panel(code<In> const* data, std::int64_t k_count, std::int64_t n_count, std::int64_t k_stride, std::int64_t n_stride);

  [[nodiscard]] std::int64_t k_count() const noexcept { return k_count_; }
  [[nodiscard]] std::int64_t n_count() const noexcept { return n_count_; }
  [[nodiscard]] format input() const noexcept { return input_; }
  /// @pre 0 ≤ k < k_count(), 0 ≤ n < n_count(), In = input()
  template <format In = format::bf16>
  [[nodiscard]] code<In> at(std::int64_t k, std::int64_t n) const noexcept {
    return code<In>::from_bits(codes_.data()[index(k, n)]);
  }

 private:
  friend class rows_times_panel;
  /// By groups of 16 columns: a group's rows follow each other, so that a chain over k reads straight on.
  [[nodiscard]] std::size_t index(std::int64_t k, std::int64_t n) const noexcept { return std::size_t((n / 16 * k_padded_ + k) * 16 + n % 16); }

  format input_;
  std::int64_t k_count_, n_count_, k_padded_;
  detail::aligned_array<std::uint16_t> codes_;
  detail::aligned_array<float> values_;            // the same, as numbers; 0 for infinity and NaN
  detail::aligned_array<std::int16_t> exponents_;  // the same, as exponents; far below any for 0, far above any for infinity and NaN
};

/// Rows of A against a panel, C[i, n] + Σ_k A[i, k]·B[k, n], chained over the unit's blocks in ascending k.
/// An object keeps the scratch memory of one thread.
class rows_times_panel {
 public:
  /// The fast form covers every unit of sm80, sm90 and sm100 that may be given here; other numbers are left to
  /// the definition. The thread's floating-point modes do not matter.
  /// @throws shape_error unless the unit takes BF16 or FP16, gives FP32 or FP16, and its block_size divides 16
  rows_times_panel(machine_unit const& unit, engine how);

  /// c(i, j) becomes the chain over k in [k_begin, k_begin + a.columns) of row i and column n_begin + j, starting from c(i, j).
  /// k_begin and n_begin are multiples of 16; a may end anywhere: the rest of its last block is +0 against the panel's rows there,
  /// which are +0 only past the panel's end (so a.columns must be a multiple of 16 or reach the panel's end).
  /// @param a  codes of the unit's input format, which is the panel's too
  /// @throws shape_error when a range lies outside the panel, or a format is another one
  template <format In>
  void accumulate(matrix_rows<code<In> const> a, column_panel const& panel, std::int64_t k_begin, std::int64_t n_begin, matrix_rows<f32_code> c);

  /// The same for one row.
  template <format In>
  void accumulate(std::span<code<In> const> a, column_panel const& panel, std::int64_t k_begin, std::int64_t n_begin, std::span<f32_code> c) {
    accumulate(matrix_rows<code<In> const>(a), panel, k_begin, n_begin, matrix_rows<f32_code>(c));
  }
  void accumulate(std::span<bf16_code const> a, column_panel const& panel, std::int64_t k_begin, std::int64_t n_begin, std::span<f32_code> c) {
    accumulate<format::bf16>(a, panel, k_begin, n_begin, c);
  }

 private:
  template <format In>
  struct call;
  template <format In>
  void by_definition(call<In> const& of);
  template <format In>
  void take_apart(call<In> const& of, std::int64_t k, std::int64_t length);
  template <format In>
  void by_tiles(call<In> const& of);

  machine_unit unit_;
  engine engine_;
  detail::aligned_array<std::uint16_t> codes_;     // a chunk of k of A, in tiles of four rows: [tiles][k][4], padded with +0
  detail::aligned_array<float> values_;            // [tiles][k][4]
  detail::aligned_array<std::int32_t> exponents_;  // [tiles][k][4], the same 16 bits twice
};

}  // namespace stickybit
