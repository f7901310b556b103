#pragma once
#include <algorithm>
#include <span>
#include <type_traits>
#include <vector>

#include "stickybit/block_fma/column_panel.hpp"

// Rows of A against a panel in the operand type that a schedule has: BF16 through its tensor core, or FP32 by fused
// multiply-adds in ascending k, which is what a fix that computes in FP32 puts in its place.

namespace stickybit::detail {

template <class Scalars, class Operand>
class row_product;

template <class Scalars>
class row_product<Scalars, bf16_code> {
 public:
  row_product(machine_unit const& unit, engine how) : product_(unit, how) {}

  void accumulate(matrix_rows<bf16_code const> a, column_panel const& panel, std::int64_t k_begin, std::int64_t n_begin, matrix_rows<f32_code> c) {
    product_.accumulate(a, panel, k_begin, n_begin, c);
  }
  static void operands(std::span<f32_code const> x, std::span<bf16_code> out) { Scalars::to_bf16(x, out); }
  static bf16_code operand(f32_code x) { return Scalars::to_bf16(x); }
  static f32_code value(bf16_code x) { return widen(x); }
  static void values(std::span<bf16_code const> x, std::span<f32_code> out) { Scalars::widen(x, out); }

 private:
  rows_times_panel product_;
};

template <class Scalars>
class row_product<Scalars, f32_code> {
 public:
  row_product(machine_unit const&, engine) {}

  template <class Code>
  void accumulate(matrix_rows<Code const> a, column_panel const& panel, std::int64_t k_begin, std::int64_t n_begin, matrix_rows<f32_code> c) {
    panel_row_.resize(std::size_t(c.columns));
    for (std::int64_t k = 0; k < a.columns; ++k) {
      for (std::size_t j = 0; j < panel_row_.size(); ++j) panel_row_[j] = widen(panel.at(k_begin + k, n_begin + std::int64_t(j)));
      for (std::int64_t i = 0; i < a.rows; ++i) Scalars::fma(panel_row_, wide(a.row(i)[std::size_t(k)]), c.row(i), c.row(i));
    }
  }
  static void operands(std::span<f32_code const> x, std::span<f32_code> out) { std::copy(x.begin(), x.end(), out.begin()); }
  static f32_code operand(f32_code x) { return x; }
  static f32_code value(f32_code x) { return x; }
  static void values(std::span<f32_code const> x, std::span<f32_code> out) { std::copy(x.begin(), x.end(), out.begin()); }

 private:
  static f32_code wide(f32_code x) { return x; }
  static f32_code wide(bf16_code x) { return widen(x); }

  std::vector<f32_code> panel_row_;
};

}  // namespace stickybit::detail
