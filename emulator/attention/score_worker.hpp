#pragma once
#include <algorithm>

#include "backward_plan.hpp"
#include "row_product.hpp"
#include "stickybit/softmax/scalars.hpp"

// S, P, dP and dS of one query row in one block of keys.

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

/// A query row: its operands and what the preprocessing made for it.
struct backward_row {
  std::span<bf16_code const> q, d_o;  // [d]
  f32_code lse;    ///< natural, or in units of log2, as the weight form wants it
  f32_code delta;
  std::int64_t visible;  ///< keys that it sees: the first so many
};

/// Operand: what the products take P and dS as, bf16_code or f32_code.
template <class Scalars, class Operand>
class score_worker {
 public:
  score_worker(backward_plan const& plan, engine how)
      : plan_(plan), rules_(*plan.rules), product_(*plan.unit, how), s_(width()), p_(width()), dp_(width()), p_cast_(width()), ds_(width()) {}

  /// S and P of the block.
  void weights(backward_key_panels const& panels, backward_row const& row, std::int64_t block) {
    first_ = block * plan_.tile.key_columns;
    count_ = std::size_t(plan_.columns_of(block));
    std::fill_n(s_.begin(), count_, f32_code::zero());
    product_.accumulate(row.q, panels.keys, 0, first_, std::span(s_).first(count_));
    visible_ = std::clamp<std::int64_t>(row.visible - first_, 0, std::int64_t(count_));
    for (std::size_t j = 0; j < count_; ++j) {
      if (std::int64_t(j) >= visible_) s_[j] = f32_code::infinity(true);
      p_[j] = weight(s_[j], row.lse);
      p_cast_[j] = product_.operand(p_[j]);
    }
  }

  /// dP and dS, after weights().
  void gradients(backward_key_panels const& panels, backward_row const& row) {
    products_with_values(panels, row);
    for (std::size_t j = 0; j < count_; ++j) ds_[j] = product_.operand(gradient(p_[j], product_.value(p_cast_[j]), dp_[j], row.delta));
  }

  /// dP alone, for sums over a row.
  void products_with_values(backward_key_panels const& panels, backward_row const& row) {
    std::fill_n(dp_.begin(), count_, f32_code::zero());
    product_.accumulate(row.d_o, panels.values, 0, first_, std::span(dp_).first(count_));
  }

  /// dS at a place of the block past the last key: K and V are zeros there and S counts as masked.
  Operand padding_gradient(backward_row const& row) const {
    const bool finite = std::all_of(row.d_o.begin(), row.d_o.end(), [](bf16_code c) { return c.is_finite(); });
    const f32_code p = weight(f32_code::infinity(true), row.lse);
    return product_.operand(gradient(p, product_.value(product_.operand(p)), finite ? f32_code::zero() : f32_code::nan(), row.delta));
  }

  f32_code weight(f32_code s, f32_code lse) const {
    const f32_code l = plan_.scales.scale_log2;
    switch (rules_.weight) {
      case weight_form::fused: return Scalars::exp2(*plan_.tables, Scalars::fma(s, l, lse.negated()));
      case weight_form::scaled_difference: return Scalars::exp2(*plan_.tables, Scalars::add(Scalars::mul(s, l), lse.negated()));
      case weight_form::natural: return cuda_expf(*plan_.tables, Scalars::add(Scalars::mul(s, plan_.scales.scale), lse.negated()));
      case weight_form::difference_scaled:
        return Scalars::exp2(*plan_.tables, Scalars::mul(Scalars::add(Scalars::mul(s, plan_.scales.scale), lse.negated()), f32_log2_e));
      case weight_form::fused_difference:
        return Scalars::exp2(*plan_.tables, Scalars::mul(Scalars::fma(s, plan_.scales.scale, lse.negated()), f32_log2_e));
    }
    return {};
  }

  f32_code gradient(f32_code p, f32_code p_cast, f32_code dp, f32_code delta) const {
    const f32_code ds = unscaled_gradient(p, p_cast, dp, delta);
    return rules_.scaled == scale_place::score_gradients ? Scalars::mul(ds, plan_.scales.scale) : ds;
  }

  [[nodiscard]] std::int64_t first_column() const noexcept { return first_; }
  [[nodiscard]] std::int64_t visible() const noexcept { return visible_; }
  [[nodiscard]] std::span<f32_code const> s() const noexcept { return std::span(s_).first(count_); }
  [[nodiscard]] std::span<f32_code const> p() const noexcept { return std::span(p_).first(count_); }
  [[nodiscard]] std::span<f32_code const> dp() const noexcept { return std::span(dp_).first(count_); }
  [[nodiscard]] std::span<Operand const> p_cast() const noexcept { return std::span(p_cast_).first(count_); }
  [[nodiscard]] std::span<Operand const> ds() const noexcept { return std::span(ds_).first(count_); }
  /// Zeros, to be made a part of dQ; valid until the next call.
  [[nodiscard]] std::span<f32_code> part(std::size_t d) {
    part_.assign(d, f32_code::zero());
    return part_;
  }
  [[nodiscard]] row_product<Scalars, Operand>& product() noexcept { return product_; }

 private:
  std::size_t width() const noexcept { return std::size_t(plan_.tile.key_columns); }

  f32_code unscaled_gradient(f32_code p, f32_code p_cast, f32_code dp, f32_code delta) const {
    switch (rules_.gradient) {
      case score_gradient::product_of_difference: return Scalars::mul(p, Scalars::add(dp, delta.negated()));
      case score_gradient::difference_of_products: return Scalars::add(Scalars::mul(p, dp), Scalars::mul(p, delta).negated());
      case score_gradient::fused_products: return Scalars::fma(p, dp, Scalars::mul(p, delta).negated());
      case score_gradient::from_bf16_weights: return Scalars::mul(p_cast, Scalars::add(dp, delta.negated()));
    }
    return {};
  }

  backward_plan const& plan_;
  backward_rules const& rules_;
  row_product<Scalars, Operand> product_;
  std::vector<f32_code> s_, p_, dp_, part_;
  std::vector<Operand> p_cast_, ds_;
  std::int64_t first_ = 0, visible_ = 0;
  std::size_t count_ = 0;
};

}  // namespace stickybit::detail
