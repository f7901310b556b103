#pragma once
#include <algorithm>

#include "backward_plan.hpp"
#include "row_product.hpp"
#include "stickybit/softmax/scalars.hpp"

// S, P, dP and dS of some query rows in one block of keys.

namespace stickybit::detail {

/// K and V of one key head, packed for the three products that they enter.
struct backward_key_panels {
  column_panel keys;        // Kᵀ[d × s_k]
  column_panel values;      // Vᵀ[d × s_k]
  column_panel key_rows;    // K[s_k × d]

  backward_key_panels(attention_problem const& p, std::int64_t b, std::int64_t key_head)
      : keys(p.k.data() + p.key_strides().offset(b, key_head, 0), p.head_dim, p.keys, 1, p.key_strides().row),
        values(p.v.data() + p.key_strides().offset(b, key_head, 0), p.head_dim, p.keys, 1, p.key_strides().row),
        key_rows(p.k.data() + p.key_strides().offset(b, key_head, 0), p.keys, p.head_dim, p.key_strides().row, 1) {}
};

/// Neighbouring query rows of one head: their operands and what the preprocessing made for them.
template <class Number, class Input>
struct backward_rows_of {
  std::int64_t first;
  matrix_rows<Input const> q, d_o;  // [count × d]
  std::span<Number const> lse;        ///< natural, or in units of log2, as the weight form wants it: [count]
  std::span<Number const> delta;      // [count]
};
using backward_rows = backward_rows_of<f32_code, bf16_code>;

/// Operand: what the products take P and dS as: Scalars::narrow or Scalars::number.
template <class Scalars, class Operand>
class score_worker {
 public:
  using number = typename Scalars::number;
  using input = typename Scalars::input;
  using rows_type = backward_rows_of<number, input>;
  using product_type = row_product<Scalars, Operand>;

  score_worker(backward_plan const& plan, engine how) : plan_(plan), rules_(*plan.rules), product_(*plan.unit, how) {}

  /// S and P of the block.
  template <class Panels>
  void weights(Panels const& panels, rows_type const& rows, std::int64_t block) {
    first_column_ = block * plan_.tile.key_columns;
    columns_ = std::size_t(plan_.columns_of(block));
    make_room(std::size_t(rows.q.rows));
    multiply(rows.q, panels.keys, s_);
    for (std::size_t i = 0; i < rows_; ++i) {
      visible_[i] = std::clamp<std::int64_t>(plan_.visible(rows.first + std::int64_t(i)) - first_column_, 0, std::int64_t(columns_));
      std::ranges::fill(row(s_, i).subspan(std::size_t(visible_[i])), f32_code::infinity(true));
      std::ranges::copy(row(s_, i), row(p_, i).begin());
      take_weights(row(p_, i), rows.lse[i]);
      product_type::operands(row(p_, i), row(p_cast_, i));
    }
  }

  /// dP and dS, after weights().
  template <class Panels>
  void gradients(Panels const& panels, rows_type const& rows) {
    products_with_values(panels, rows);
    for (std::size_t i = 0; i < rows_; ++i) {
      take_gradients(row(p_, i), row(p_cast_, i), row(dp_, i), rows.delta[i], row(gradient_, i));
      product_type::operands(row(gradient_, i), row(ds_, i));
    }
  }

  /// dP alone, for sums over a row.
  template <class Panels>
  void products_with_values(Panels const& panels, rows_type const& rows) { multiply(rows.d_o, panels.values, dp_); }

  /// dS of row i at a place of the block past the last key: K and V are zeros there and S counts as masked.
  Operand padding_gradient(rows_type const& rows, std::int64_t i) {
    const bool finite = std::ranges::all_of(rows.d_o.row(i), [](input const& c) { return c.is_finite(); });
    const number p = weight(f32_code::infinity(true), rows.lse[std::size_t(i)]);
    return product_type::operand(gradient(p, finite ? f32_code::zero() : f32_code::nan(), rows.delta[std::size_t(i)]));
  }

  /// P of one score; dS of one place before its cast.
  number weight(number s, number lse) const {
    take_weights({&s, 1}, lse);
    return s;
  }
  number gradient(number p, number dp, number delta) {
    const Operand cast = product_type::operand(p);
    number ds;
    take_gradients({&p, 1}, {&cast, 1}, {&dp, 1}, delta, {&ds, 1});
    return ds;
  }

  [[nodiscard]] std::int64_t first_column() const noexcept { return first_column_; }
  [[nodiscard]] std::int64_t visible(std::size_t i) const noexcept { return visible_[i]; }
  [[nodiscard]] std::span<number const> s(std::size_t i) const noexcept { return row(s_, i); }
  [[nodiscard]] std::span<number const> p(std::size_t i) const noexcept { return row(p_, i); }
  [[nodiscard]] std::span<number const> dp(std::size_t i) const noexcept { return row(dp_, i); }
  [[nodiscard]] std::span<Operand const> p_cast(std::size_t i) const noexcept { return row(p_cast_, i); }
  [[nodiscard]] std::span<Operand const> ds(std::size_t i) const noexcept { return row(ds_, i); }
  /// dS of rows i to i + count as an operand: [count × columns].
  [[nodiscard]] matrix_rows<Operand const> ds_rows(std::size_t i, std::size_t count) const noexcept {
    return {ds_.data() + i * columns_, std::int64_t(count), std::int64_t(columns_), std::int64_t(columns_)};
  }
  /// Zeros, to be made parts of dQ: [count × d]; valid until the next call.
  [[nodiscard]] matrix_rows<number> parts(std::size_t count, std::size_t d) {
    parts_.assign(count * d, f32_code::zero());
    return {parts_.data(), std::int64_t(count), std::int64_t(d), std::int64_t(d)};
  }
  [[nodiscard]] product_type& product() noexcept { return product_; }

 private:
  template <class Code>
  std::span<Code> row(std::vector<Code>& m, std::size_t i) noexcept {
    return std::span(m).subspan(i * columns_, columns_);
  }
  template <class Code>
  std::span<Code const> row(std::vector<Code> const& m, std::size_t i) const noexcept {
    return std::span(m).subspan(i * columns_, columns_);
  }

  void make_room(std::size_t rows) {
    rows_ = rows;
    visible_.resize(rows);
    for (auto* m : {&s_, &p_, &dp_, &gradient_}) m->resize(rows * columns_);
    for (auto* m : {&p_cast_, &ds_}) m->resize(rows * columns_);
  }

  /// m = a times the block's columns of the panel.
  template <class Panel>
  void multiply(matrix_rows<input const> a, Panel const& panel, std::vector<number>& m) {
    std::ranges::fill(m, f32_code::zero());
    product_.accumulate(a, panel, 0, first_column_, matrix_rows<number>(m.data(), std::int64_t(rows_), std::int64_t(columns_), std::int64_t(columns_)));
  }

  /// Scores become weights.
  void take_weights(std::span<number> x, number lse) const {
    const number minus = lse.negated();
    switch (rules_.weight) {
      case weight_form::fused: Scalars::fma(x, plan_.scales.scale_log2, minus, x); break;
      case weight_form::scaled_difference: Scalars::mul(x, plan_.scales.scale_log2, x); Scalars::add(x, minus, x); break;
      case weight_form::natural: Scalars::mul(x, plan_.scales.scale, x); Scalars::add(x, minus, x); return Scalars::expf(plan_.ex2, x, x);
      case weight_form::difference_scaled:
        Scalars::mul(x, plan_.scales.scale, x);
        Scalars::add(x, minus, x);
        Scalars::mul(x, f32_log2_e, x);
        break;
      case weight_form::fused_difference: Scalars::fma(x, plan_.scales.scale, minus, x); Scalars::mul(x, f32_log2_e, x); break;
    }
    Scalars::exp2(plan_.ex2, x, x);
  }

  /// dS before its cast.
  void take_gradients(std::span<number const> p, std::span<Operand const> p_cast, std::span<number const> dp, number delta, std::span<number> ds) {
    const number minus = delta.negated();
    scratch_.resize(p.size());
    switch (rules_.gradient) {
      case score_gradient::product_of_difference: Scalars::add(dp, minus, ds); Scalars::mul(p, ds, ds); break;
      case score_gradient::difference_of_products:
        Scalars::mul(p, minus, scratch_);
        Scalars::mul(p, dp, ds);
        Scalars::add(ds, scratch_, ds);
        break;
      case score_gradient::fused_products: Scalars::mul(p, minus, ds); Scalars::fma(p, dp, ds, ds); break;
      case score_gradient::from_bf16_weights:
        product_type::values(p_cast, scratch_);
        Scalars::add(dp, minus, ds);
        Scalars::mul(scratch_, ds, ds);
        break;
    }
    if (rules_.scaled == scale_place::score_gradients) Scalars::mul(ds, plan_.scales.scale, ds);
  }

  backward_plan const& plan_;
  backward_rules const& rules_;
  product_type product_;
  std::vector<number> s_, p_, dp_, gradient_;  // [rows × columns]
  std::vector<Operand> p_cast_, ds_;             // [rows × columns]
  std::vector<std::int64_t> visible_;            // [rows]
  std::vector<number> parts_, scratch_;
  std::int64_t first_column_ = 0;
  std::size_t rows_ = 0, columns_ = 0;
};

}  // namespace stickybit::detail
