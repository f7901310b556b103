#pragma once
#include <cstdint>
#include <memory>
#include <new>
#include <span>

#include "stickybit/block_fma/code_array.hpp"
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
/// multiples of 64 rows and whole groups of 16 columns. Memory: 8 bytes an element; TF32 10, E2M1 10.
class column_panel {
 public:
  /// element(k, n) = codes[k·k_stride + n·n_stride], strides in elements: B[K×N] has strides {N, 1}, B stored as [N×K] {1, K}.
  /// @param input  any format but FP32 and FP64; bits of a code that are not the format's are cut off
  /// @param scales one of B for every scales.block of k begun: lines are columns
  /// @throws shape_error for another format
  column_panel(format input, code_array codes, std::int64_t k_count, std::int64_t n_count, std::int64_t k_stride, std::int64_t n_stride, operand_scales const& scales = {});
  /// The same for codes that have a type.
  template <format In>
  column_panel(code<In> const* data, std::int64_t k_count, std::int64_t n_count, std::int64_t k_stride, std::int64_t n_stride)
      : column_panel(In, code_array(data, k_count > 0 && n_count > 0 ? std::size_t((k_count - 1) * k_stride + (n_count - 1) * n_stride + 1) : 0), k_count, n_count, k_stride, n_stride) {}

  [[nodiscard]] std::int64_t k_count() const noexcept { return k_count_; }
  [[nodiscard]] std::int64_t n_count() const noexcept { return n_count_; }
  [[nodiscard]] format input() const noexcept { return input_; }
  /// @pre 0 ≤ k < k_count(), 0 ≤ n < n_count()
  [[nodiscard]] std::uint32_t bits_at(std::int64_t k, std::int64_t n) const noexcept { return input_ == format::tf32 ? wide_codes_.data()[index(k, n)] : codes_.data()[index(k, n)]; }
  /// @pre the same, In = input()
  template <format In = format::bf16>
  [[nodiscard]] code<In> at(std::int64_t k, std::int64_t n) const noexcept {
    return code<In>::from_bits(typename code<In>::bits_type(bits_at(k, n)));
  }

 private:
  friend class rows_times_panel;
  /// By groups of 16 columns: a group's rows follow each other, so that a chain over k reads straight on.
  [[nodiscard]] std::size_t index(std::int64_t k, std::int64_t n) const noexcept { return std::size_t((n / 16 * k_padded_ + k) * 16 + n % 16); }
  [[nodiscard]] std::size_t scale_index(std::int64_t block, std::int64_t n) const noexcept { return std::size_t((n / 16 * scale_count_ + block) * 16 + n % 16); }
  void take_scales(operand_scales const& scales);

  format input_, scale_format_ = format::e8m0;
  int scale_block_ = 0;
  std::int64_t k_count_, n_count_, k_padded_, scale_count_ = 0;
  detail::aligned_array<std::uint16_t> codes_;
  detail::aligned_array<std::uint32_t> wide_codes_;  // instead, of TF32
  detail::aligned_array<float> values_;              // the same, as numbers; 0 for infinity and NaN
  detail::aligned_array<std::int16_t> exponents_;    // the same, as exponents; far below any for 0, far above any for infinity and NaN
  detail::aligned_array<std::int16_t> f16_exponents_;  // E4M3: the same once the codes are FP16, where subnormals are normal
  detail::aligned_array<std::int16_t> halves_;       // E2M1: in halves, −12 to 12
  detail::aligned_array<std::uint16_t> scale_codes_;
  detail::aligned_array<std::int16_t> scale_exponents_;  // far above any for NaN, far below for 0
  detail::aligned_array<double> scale_values_;
};

/// Rows of A against a panel, C[i, n] + Σ_k A[i, k]·B[k, n], chained over the unit's instructions in ascending k.
/// An object keeps the scratch memory of one thread.
class rows_times_panel {
 public:
  /// Every unit whose results are FP32 or FP16. The fast form covers NVIDIA's and CDNA2's; other numbers and arithmetics are left to the
  /// definition. The thread's floating-point modes do not matter.
  /// @throws shape_error when blocks cannot be made of the unit's numbers, or one ends inside a step of k
  rows_times_panel(machine_unit const& unit, engine how);

  /// Chains may be cut at multiples of this: 16, or the unit's instruction or scale block where that is longer.
  [[nodiscard]] std::int64_t k_step() const noexcept { return k_step_; }

  /// c(i, j) becomes the chain over k in [k_begin, k_begin + a.columns) of row i and column n_begin + j, starting from c(i, j).
  /// k_begin is a multiple of k_step() and n_begin of 16; a may end anywhere: the rest of its last block is +0 against the panel's rows there,
  /// which are +0 only past the panel's end (so a.columns must be a multiple of k_step() or reach the panel's end).
  /// @param a  codes of the unit's input format, and scales of A where the unit has any
  /// @throws shape_error when a range lies outside the panel, or a format or the scales are not the unit's
  void accumulate(raw_rows const& a, column_panel const& panel, std::int64_t k_begin, std::int64_t n_begin, matrix_rows<f32_code> c);

  /// The same for codes that have a type, of a unit without scales.
  template <format In>
  void accumulate(matrix_rows<code<In> const> a, column_panel const& panel, std::int64_t k_begin, std::int64_t n_begin, matrix_rows<f32_code> c) {
    require_input(In);
    accumulate(raw_rows{code_array(a.data, a.rows > 0 ? std::size_t((a.rows - 1) * a.stride + a.columns) : 0), a.rows, a.columns, a.stride}, panel, k_begin, n_begin, c);
  }
  /// The same for one row.
  template <format In>
  void accumulate(std::span<code<In> const> a, column_panel const& panel, std::int64_t k_begin, std::int64_t n_begin, std::span<f32_code> c) {
    accumulate(matrix_rows<code<In> const>(a), panel, k_begin, n_begin, matrix_rows<f32_code>(c));
  }
  void accumulate(std::span<bf16_code const> a, column_panel const& panel, std::int64_t k_begin, std::int64_t n_begin, std::span<f32_code> c) {
    accumulate<format::bf16>(a, panel, k_begin, n_begin, c);
  }

 private:
  enum class form : std::uint8_t { definition, blocks, groups, tree };
  struct call;
  struct tile_at;
  void require_input(format in) const;
  void check(raw_rows const& a, column_panel const& panel, std::int64_t k_begin, std::int64_t n_begin, matrix_rows<f32_code> const& c) const;
  void by_definition(call const& of);
  void take_apart(call const& of, std::int64_t k, std::int64_t length);
  void take_scales(call const& of, std::int64_t k, std::int64_t length);
  void by_tiles(call const& of);
  void run_tile(call const& of, tile_at const& at, std::uint32_t* c);

  machine_unit unit_;
  form form_;
  std::int64_t k_step_;
  detail::aligned_array<std::uint16_t> codes_;       // a chunk of k of A, in tiles of four rows: [tiles][k][4], padded with +0
  detail::aligned_array<std::uint32_t> wide_codes_;  // instead, of TF32
  detail::aligned_array<float> values_;              // [tiles][k][4]
  detail::aligned_array<std::int32_t> exponents_;    // [tiles][k][4], the same 16 bits twice
  detail::aligned_array<std::int16_t> halves_;       // [tiles][k][4], E2M1
  detail::aligned_array<std::int16_t> scale_exponents_;  // [tiles][scales of the chunk][4]
  detail::aligned_array<double> scale_values_;
};

}  // namespace stickybit
