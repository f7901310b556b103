#pragma once
#include <span>
#include <type_traits>
#include <vector>

#include "stickybit/block_fma/column_panel.hpp"

// One row of A against a panel in the operand type that a schedule has: BF16 through its tensor core, or FP32 by fused
// multiply-adds in ascending k, which is what a fix that computes in FP32 puts in its place.

namespace stickybit::detail {

template <class Scalars, class Operand>
class row_product;

template <class Scalars>
class row_product<Scalars, bf16_code> {
 public:
  row_product(machine_unit const& unit, engine how) : product_(unit, how) {}

  void accumulate(std::span<bf16_code const> a, column_panel const& panel, std::int64_t k_begin, std::int64_t n_begin, std::span<f32_code> c) {
    product_.accumulate(a, panel, k_begin, n_begin, c);
  }
  static bf16_code operand(f32_code x) { return Scalars::to_bf16(x); }
  static f32_code value(bf16_code x) { return widen(x); }

 private:
  row_times_panel product_;
};

template <class Scalars>
class row_product<Scalars, f32_code> {
 public:
  row_product(machine_unit const&, engine) {}

  void accumulate(std::span<f32_code const> a, column_panel const& panel, std::int64_t k_begin, std::int64_t n_begin, std::span<f32_code> c) const {
    for (std::size_t k = 0; k < a.size(); ++k)
      for (std::size_t j = 0; j < c.size(); ++j) c[j] = Scalars::fma(a[k], widen(panel.at(k_begin + std::int64_t(k), n_begin + std::int64_t(j))), c[j]);
  }
  void accumulate(std::span<bf16_code const> a, column_panel const& panel, std::int64_t k_begin, std::int64_t n_begin, std::span<f32_code> c) {
    wide_.resize(a.size());
    for (std::size_t k = 0; k < a.size(); ++k) wide_[k] = widen(a[k]);
    accumulate(std::span<f32_code const>(wide_), panel, k_begin, n_begin, c);
  }
  static f32_code operand(f32_code x) { return x; }
  static f32_code value(f32_code x) { return x; }

 private:
  std::vector<f32_code> wide_;
};

}  // namespace stickybit::detail
