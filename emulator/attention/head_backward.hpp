#pragma once
#include <algorithm>
#include <optional>

#include "dq_finish.hpp"
#include "gemm/guarded_progress.hpp"
#include "gemm/rows_at_once.hpp"
#include "row_delta.hpp"
#include "score_worker.hpp"
#include "stickybit/rounding/ieee_environment.hpp"

// The law of a backward kernel for one head: block of keys by block of keys. In a block every query row gives P and dS (as BF16) and
// its part of dQ; then every key of the block gets its chains of dV and dK over the rows. Rows and keys never meet among themselves,
// so both steps run in parallel without a change of any bit.

namespace stickybit::detail {

/// dQ, dK and dV of one head in FP32, before the scale and the cast.
struct head_sums {
  std::vector<f32_code> dq;  // [buffers × s × d]
  std::vector<f32_code> dk, dv;  // [s_k × d]
  std::vector<f32_code> delta, lse_log2;  // [s]
};

/// Keys that one thread takes at once: their rows of P or dS meet each part of Q or dO while it lies in the cache.
inline constexpr std::int64_t keys_together = 16;

/// Operand: what the products take P and dS as, bf16_code or f32_code.
template <template <subnormals> class Arithmetic, subnormals S, class Operand>
class head_backward {
 public:
  using scalars = Arithmetic<S>;
  using worker_type = score_worker<scalars, Operand>;

  head_backward(backward_plan const& plan, attention_problem const& p, forward_result const& forward, backward_options const& options, engine how,
                backward_key_panels const& panels, std::int64_t b, std::int64_t head)
      : plan_(plan), rules_(*plan.rules), p_(p), forward_(forward), options_(options), how_(how), panels_(panels), b_(b), head_(head),
        wanted_(rules_.mass == row_mass::kept ? options.wanted : wanted_gradients{}),
        d_(std::size_t(p.head_dim)),
        rows_together_(rows_at_once(p.queries)),
        query_rows_(p.q.data() + query_offset(0), p.queries, p.head_dim, p.query_strides().row, 1),
        gradient_rows_(p.d_o.data() + query_offset(0), p.queries, p.head_dim, p.query_strides().row, 1) {
    const auto rows = std::size_t(p.queries), block = std::size_t(plan.tile.key_columns);
    sums_.dq.assign(std::size_t(plan.dq_buffers) * rows * d_, f32_code::zero());
    sums_.dk.assign(std::size_t(p.keys) * d_, f32_code::zero());
    sums_.dv = sums_.dk;
    sums_.delta.resize(rows);
    sums_.lse_log2.resize(rows);
    guarded_lse_.resize(rows);
    weights_.resize(block * rows);
    gradients_.resize(block * rows);
    if (rules_.mass != row_mass::kept) {
      mass_.resize(rows);
      weight_sum_.resize(rows);
      weighted_keys_.assign(rows * d_, f32_code::zero());
    }
  }

  /// @param block_done  called once after each block of keys; what it throws comes out of this
  template <class Done>
  head_sums run(Done&& block_done) {
    const progress tell = [&](std::int64_t, std::int64_t) { block_done(); };
    guarded_progress told(tell);
#pragma omp parallel
    {
      const host::ieee_environment ieee;
      worker_type worker(plan_, how_);
#pragma omp for schedule(dynamic)
      for (std::int64_t row = 0; row < p_.queries; ++row) prepare(worker, row);
      for (const std::int64_t block : plan_.order) {
        const std::int64_t first = plan_.first_row_of(block);
#pragma omp for schedule(dynamic)
        for (std::int64_t row = first; row < p_.queries; row += rows_together_) take_rows(worker, row, std::min(rows_together_, p_.queries - row), block);
#pragma omp for schedule(dynamic)
        for (std::int64_t task = 0; task < 2 * groups_of_keys(block); ++task) take_keys(worker, block, task / 2, task % 2 == 0, first);
#pragma omp single
        {
          if (first < plan_.rows_padded()) take_padding_rows(worker, block);
          told(0, 0);
        }  // every thread waits here, so all see the same
        if (told.stopped()) break;
      }
    }
    told.rethrow();
    if (rules_.mass != row_mass::kept) restore_row_mass();
    return std::move(sums_);
  }

 private:
  std::int64_t query_offset(std::int64_t row) const noexcept { return p_.query_strides().offset(b_, head_, row); }
  std::size_t row_index(std::int64_t row) const noexcept { return std::size_t((b_ * p_.heads + head_) * p_.queries + row); }

  backward_rows rows_of(std::int64_t row, std::int64_t count) const {
    const auto at = std::size_t(row), size = std::size_t(count);
    const auto operand = [&](std::vector<bf16_code> const& m) { return matrix_rows<bf16_code const>(m.data() + query_offset(row), count, p_.head_dim, p_.query_strides().row); };
    return {row, operand(p_.q), operand(p_.d_o), std::span<f32_code const>(takes_natural_lse(rules_.weight) ? guarded_lse_ : sums_.lse_log2).subspan(at, size),
            std::span<f32_code const>(sums_.delta).subspan(at, size)};
  }

  static bool takes_natural_lse(weight_form f) noexcept { return f != weight_form::fused && f != weight_form::scaled_difference; }

  f32_code guarded_lse(std::int64_t row) const {
    const f32_code lse = forward_.lse[row_index(row)];
    return lse == f32_code::infinity(true) ? f32_code::zero() : lse;
  }

  /// lse_log2 and delta of a row.
  void prepare(worker_type& worker, std::int64_t row) {
    const auto r = std::size_t(row);
    guarded_lse_[r] = guarded_lse(row);
    sums_.lse_log2[r] = scalars::mul(guarded_lse_[r], f32_log2_e);
    sums_.delta[r] = rules_.delta == delta_sum::weighted_dp ? weighted_delta(worker, row) : delta_from_output(worker, row);
  }

  f32_code delta_from_output(worker_type& worker, std::int64_t row) {
    const auto at = std::size_t(query_offset(row));
    const auto stored = std::span(forward_.o).subspan(at, d_), d_o = std::span(p_.d_o).subspan(at, d_);
    if (rules_.delta == delta_sum::tensor_core) return tensor_core_delta(worker, d_o, stored);
    const std::span<f32_code const> in_f32 = rules_.delta_from == delta_source::bf16_output ? std::span<f32_code const>() : std::span(forward_.o_f32).subspan(at, d_);
    return detail::delta_from_output<scalars>(rules_, d_o, {stored, in_f32});
  }

  /// The chain that gives dP, with O in place of V's row.
  f32_code tensor_core_delta(worker_type& worker, std::span<bf16_code const> d_o, std::span<bf16_code const> o) {
    const column_panel column(o.data(), p_.head_dim, 1, 1, p_.head_dim);
    f32_code sum = f32_code::zero();
    worker.product().accumulate(matrix_rows<bf16_code const>(d_o), column, 0, 0, matrix_rows<f32_code>(std::span(&sum, 1)));
    return sum;
  }

  /// rowsum(P ∘ dP) / rowsum(P) over every block that the row's tile visits, ascending; 0 where no key has weight.
  f32_code weighted_delta(worker_type& worker, std::int64_t row) {
    four_lanes<scalars> products, weights;
    const backward_rows r = rows_of(row, 1);
    for (std::int64_t block = 0; block < plan_.key_blocks; ++block) {
      if (!plan_.visits(row, block)) continue;
      worker.weights(panels_, r, block);
      worker.products_with_values(panels_, r);
      for (std::size_t j = 0; j < worker.p(0).size(); ++j) products.add_product(j, worker.p(0)[j], worker.dp(0)[j]);
      weights.add(worker.p(0));
    }
    const f32_code sum = weights.joined();
    return sum.is_zero() ? f32_code::zero() : scalars::div(products.joined(), sum);
  }

  /// Some rows of one block: P and dS for the keys' chains, and the block's parts of the rows' dQ.
  void take_rows(worker_type& worker, std::int64_t first, std::int64_t count, std::int64_t block) {
    const backward_rows r = rows_of(first, count);
    const bool with_gradients = wanted_.dk || wanted_.dq || options_.scores;
    worker.weights(panels_, r, block);
    if (with_gradients) worker.gradients(panels_, r);
    const auto rows = std::size_t(p_.queries);
    for (std::size_t i = 0; i < std::size_t(count); ++i) {
      const std::size_t at = std::size_t(first) + i;
      for (std::size_t j = 0; j < worker.p_cast(i).size(); ++j) weights_[j * rows + at] = worker.p_cast(i)[j];
      for (std::size_t j = 0; with_gradients && j < worker.ds(i).size(); ++j) gradients_[j * rows + at] = worker.ds(i)[j];
      if (options_.scores) observe(worker, first, i);
    }
    if (wanted_.dq) add_to_dq(worker, r, block);
    if (rules_.mass != row_mass::kept) take_mass(worker, first, std::size_t(count));
  }

  void add_to_dq(worker_type& worker, backward_rows const& r, std::int64_t block) {
    const auto buffer = std::size_t(block % plan_.dq_buffers), count = std::size_t(r.q.rows);
    const matrix_rows<f32_code> dq(sums_.dq.data() + (buffer * std::size_t(p_.queries) + std::size_t(r.first)) * d_, r.q.rows, p_.head_dim, p_.head_dim);
    const bool chained = rules_.dq == dq_sum::one_chain, whole = plan_.columns_of(block) == plan_.tile.key_columns;
    const matrix_rows<f32_code> parts = chained ? dq : worker.parts(count, d_);
    worker.product().accumulate(worker.ds_rows(0, count), panels_.key_rows, worker.first_column(), 0, parts);
    for (std::int64_t i = 0; i < parts.rows; ++i) {
      if (!whole && !worker.padding_gradient(r, i).is_finite()) std::ranges::fill(parts.row(i), f32_code::nan());
      if (chained) continue;
      if (options_.dq_parts) options_.dq_parts({b_, head_, r.first + i, block, parts.row(i)});
      dq_add<Arithmetic>(rules_, dq.row(i), parts.row(i));
    }
  }

  void observe(worker_type const& worker, std::int64_t first, std::size_t i) const {
    const auto values = [](std::span<Operand const> operands) {
      std::vector<f32_code> wide(operands.size());
      worker_type::product_type::values(operands, wide);
      return wide;
    };
    const std::vector<f32_code> p_cast = values(worker.p_cast(i)), ds = values(worker.ds(i));
    options_.scores({b_, head_, first + std::int64_t(i), worker.first_column(), worker.visible(i), worker.s(i), worker.p(i), worker.dp(i), p_cast, ds});
  }

  /// The chains of dV, or of dK, of one group of keys over the rows of the block's tiles.
  void take_keys(worker_type& worker, std::int64_t block, std::int64_t group, bool values, std::int64_t first_row) {
    if (values ? !wanted_.dv : !wanted_.dk) return;
    const key_range of = keys_of(block, group);
    if (values) chain_over_rows(worker, key_columns(weights_, of), gradient_rows_, first_row, key_sums(sums_.dv, block, of));
    else chain_over_rows(worker, key_columns(gradients_, of), query_rows_, first_row, key_sums(sums_.dk, block, of));
  }
  /// Keys of a block, counted from its first.
  struct key_range {
    std::int64_t first, count;
  };
  std::int64_t groups_of_keys(std::int64_t block) const noexcept { return (plan_.columns_of(block) + keys_together - 1) / keys_together; }
  key_range keys_of(std::int64_t block, std::int64_t group) const noexcept {
    return {group * keys_together, std::min(keys_together, plan_.columns_of(block) - group * keys_together)};
  }
  /// Of P or dS of a block: [keys × s].
  matrix_rows<Operand const> key_columns(std::vector<Operand> const& m, key_range keys) const { return {m.data() + keys.first * p_.queries, keys.count, p_.queries, p_.queries}; }
  matrix_rows<f32_code> key_sums(std::vector<f32_code>& m, std::int64_t block, key_range keys) const {
    return {m.data() + (block * plan_.tile.key_columns + keys.first) * p_.head_dim, keys.count, p_.head_dim, p_.head_dim};
  }

  /// @param a  [keys × s], of which the rows from first_row on count
  void chain_over_rows(worker_type& worker, matrix_rows<Operand const> a, column_panel const& rows, std::int64_t first_row, matrix_rows<f32_code> sum) {
    if (first_row >= p_.queries) return;
    const auto take = [&](std::int64_t from, std::int64_t count) {
      worker.product().accumulate(matrix_rows<Operand const>(a.data + from, a.rows, count, a.stride), rows, from, 0, sum);
    };
    if (rules_.queries == query_order::ascending) return take(first_row, p_.queries - first_row);
    const std::int64_t tile = plan_.tile.query_rows;
    for (std::int64_t m = (p_.queries - 1) / tile; m >= first_row / tile; --m) take(m * tile, std::min(tile, p_.queries - m * tile));
  }

  /// The last tile's rows past the end: Q and dO are zeros there, lse is +inf and delta +0. With finite K and V nothing comes of them;
  /// an infinity or NaN in K makes S, and so P and dS, NaN; one in V makes dP and dS NaN; and NaN times the zeros of dO and Q spoils the key.
  void take_padding_rows(worker_type& worker, std::int64_t block) {
    if (plan_.rows_padded() == p_.queries) return;
    const std::int64_t first = block * plan_.tile.key_columns, key_head = p_.key_head_of(head_);
    for (std::int64_t key = first; key < first + plan_.columns_of(block); ++key) {
      const auto at = std::size_t(p_.key_strides().offset(b_, key_head, key));
      const auto spoils = [&](std::vector<bf16_code> const& m) {
        return std::any_of(m.begin() + std::ptrdiff_t(at), m.begin() + std::ptrdiff_t(at + d_), [](bf16_code c) { return !c.is_finite(); });
      };
      const bool in_k = spoils(p_.k), in_v = spoils(p_.v);
      if (!in_k && !in_v) continue;
      const f32_code p = worker.weight(in_k ? f32_code::nan() : f32_code::zero(), f32_code::infinity());
      const f32_code ds = worker.gradient(p, in_v ? f32_code::nan() : f32_code::zero(), f32_code::zero());
      const auto spoil = [&](std::vector<f32_code>& sums) { std::fill_n(sums.begin() + key * std::int64_t(d_), d_, f32_code::nan()); };
      if (!p.is_finite()) spoil(sums_.dv);
      if (!ds.is_finite()) spoil(sums_.dk);
    }
  }

  // The row mass of dS and its removal.

  void take_mass(worker_type& worker, std::int64_t first, std::size_t count) {
    const std::size_t columns = worker.ds(0).size();
    std::vector<Operand> w(count * columns);  // [rows × columns]
    std::vector<f32_code> values(columns);
    for (std::size_t i = 0; i < count; ++i) {
      const auto at = std::size_t(first) + i;
      const std::span<Operand> row = std::span(w).subspan(i * columns, columns);
      mass_weights(worker, i, row);
      worker_type::product_type::values(worker.ds(i), values);
      mass_[at].add(values);
      worker_type::product_type::values(row, values);
      weight_sum_[at].add(values);
    }
    const matrix_rows<f32_code> parts = worker.parts(count, d_);
    worker.product().accumulate(matrix_rows<Operand const>(w.data(), std::int64_t(count), std::int64_t(columns), std::int64_t(columns)), panels_.key_rows, worker.first_column(), 0, parts);
    dq_add<Arithmetic>(rules_, std::span(weighted_keys_).subspan(std::size_t(first) * d_, count * d_), {parts.data, count * d_});
  }

  /// The weights of the correction in row i of the worker's block, not yet divided by their sum: BF16 P, or 1 for each visible key.
  void mass_weights(worker_type const& worker, std::size_t i, std::span<Operand> w) const {
    if (rules_.mass == row_mass::by_weights) {
      std::ranges::copy(worker.p_cast(i), w.begin());
      return;
    }
    const std::size_t visible = std::size_t(worker.visible(i));
    std::fill(w.begin(), w.begin() + std::ptrdiff_t(visible), row_product<scalars, Operand>::operand(f32_code::from_bits(0x3f800000)));
    std::fill(w.begin() + std::ptrdiff_t(visible), w.end(), Operand::zero());
  }

  void restore_row_mass() {
    std::vector<f32_code> share(std::size_t(p_.queries));  // of the row mass, for one unit of weight
    for (std::size_t i = 0; i < share.size(); ++i) {
      const f32_code sum = weight_sum_[i].joined();
      share[i] = sum.is_zero() ? f32_code::zero() : scalars::div(mass_[i].joined(), sum);
      // One buffer is enough to correct: the buffers are added later.
      for (std::size_t j = i * d_; j < (i + 1) * d_; ++j) sums_.dq[j] = scalars::fma(share[i].negated(), weighted_keys_[j], sums_.dq[j]);
    }
    if (rules_.mass_in_dk) correct_dk(share);
  }

  /// dK's chains go on over −share·Q, as BF16 and the BF16 of what that leaves. P of every block is computed once more.
  void correct_dk(std::span<f32_code const> share) {
    const auto rows = std::size_t(p_.queries);
    std::vector<bf16_code> high(rows * d_), low(rows * d_);
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < d_; ++j) {
        const f32_code x = scalars::mul(share[i].negated(), widen(p_.q[std::size_t(query_offset(std::int64_t(i))) + j]));
        high[i * d_ + j] = scalars::to_bf16(x);
        low[i * d_ + j] = scalars::to_bf16(scalars::add(x, widen(high[i * d_ + j]).negated()));
      }
    const column_panel high_rows(high.data(), p_.queries, p_.head_dim, p_.head_dim, 1), low_rows(low.data(), p_.queries, p_.head_dim, p_.head_dim, 1);
#pragma omp parallel
    {
      const host::ieee_environment ieee;
      worker_type worker(plan_, how_);
      for (std::int64_t block = 0; block < plan_.key_blocks; ++block) {
        const std::int64_t first = plan_.first_row_of(block);
#pragma omp for schedule(dynamic)
        for (std::int64_t row = first; row < p_.queries; row += rows_together_) {
          const std::int64_t count = std::min(rows_together_, p_.queries - row);
          worker.weights(panels_, rows_of(row, count), block);
          std::vector<Operand> w(worker.p(0).size());
          for (std::size_t i = 0; i < std::size_t(count); ++i) {
            mass_weights(worker, i, w);
            for (std::size_t j = 0; j < w.size(); ++j) weights_[j * rows + std::size_t(row) + i] = w[j];
          }
        }
#pragma omp for schedule(dynamic)
        for (std::int64_t group = 0; group < groups_of_keys(block); ++group) {
          const key_range of = keys_of(block, group);
          chain_over_rows(worker, key_columns(weights_, of), high_rows, first, key_sums(sums_.dk, block, of));
          chain_over_rows(worker, key_columns(weights_, of), low_rows, first, key_sums(sums_.dk, block, of));
        }
      }
    }
  }

  backward_plan const& plan_;
  backward_rules const& rules_;
  attention_problem const& p_;
  forward_result const& forward_;
  backward_options const& options_;
  engine how_;
  backward_key_panels const& panels_;
  std::int64_t b_, head_;
  wanted_gradients wanted_;
  std::size_t d_;
  std::int64_t rows_together_;
  column_panel query_rows_, gradient_rows_;  // Q[s × d], dO[s × d]
  head_sums sums_;
  std::vector<f32_code> guarded_lse_;  // [s]
  std::vector<Operand> weights_, gradients_;  // of one block of keys: [key][row]
  std::vector<four_lanes<scalars>> mass_, weight_sum_;  // [s]
  std::vector<f32_code> weighted_keys_;                 // [s × d]
};

}  // namespace stickybit::detail
