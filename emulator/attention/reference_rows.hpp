#pragma once
#include <array>

#include "row_worker.hpp"

// Attention that is not computed block by block: as BF16 matrices, and as its mathematical value.

namespace stickybit::detail {

/// A warp's sum of a row's first columns: lane i adds the columns i, i + 32, ... in ascending order from 0; the lanes are added by halves.
/// @param keys  of the whole row; fewer than 32 take fewer lanes
/// @source PyTorch 2.11 aten/src/ATen/native/cuda/PersistentSoftmax.cuh, softmax_warp_forward and softmax_warp_backward (up to 1024 keys)
template <class Scalars>
typename Scalars::number warp_sum(std::span<typename Scalars::number const> row, std::int64_t keys) {
  const std::size_t lanes = std::min<std::size_t>(32, std::bit_ceil(std::size_t(keys)));
  std::array<typename Scalars::number, 32> sums{};
  for (std::size_t j = 0; j < row.size(); ++j) sums[j % lanes] = Scalars::add(sums[j % lanes], row[j]);
  for (std::size_t half = lanes / 2; half != 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) sums[i] = Scalars::add(sums[i], sums[i + half]);
  return sums[0];
}

/// One row of S, P and O as BF16 matrices: S = BF16(QK), t = BF16(S·s), p = expf(t − max), P = BF16(p / Σp), O = BF16(PV).
template <class Scalars>
class eager_worker {
 public:
  using number = typename Scalars::number;
  using narrow = typename Scalars::narrow;

  eager_worker(call_plan const& plan, attention_problem const& p, engine how) : plan_(plan), problem_(p), product_(*plan.unit, how) {
    scores_.resize(std::size_t(p.keys));
    weights_.resize(std::size_t(p.keys));
    output_.resize(std::size_t(p.head_dim));
  }

  /// O[d] before its cast, of the last row run.
  [[nodiscard]] std::span<number const> output() const noexcept { return output_; }
  /// P[keys] of the last row run.
  [[nodiscard]] std::span<narrow const> weights() const noexcept { return weights_; }

  /// Each row alone: the softmax is over all of it.
  [[nodiscard]] static std::int64_t rows_together(call_plan const&, attention_problem const&, std::int64_t, std::int64_t, std::int64_t) noexcept { return 1; }

  template <class Sink>
  void run(key_value_panels const& panels, row_group row, narrow* o, std::int64_t, number* lse, Sink&& sink) {
    *lse = run(panels, row.batch, row.head, row.first, o, sink);
  }

  template <class Sink>
  number run(key_value_panels const& panels, std::int64_t b, std::int64_t head, std::int64_t row, narrow* o, Sink&&) {
    const bf16_code* q = problem_.q.data() + problem_.query_strides().offset(b, head, row);
    const std::vector<typename Scalars::input> operands(q, q + problem_.head_dim);
    return run(panels, operands, row, o);
  }

  /// The same for a row of Q that the caller has.  @param row  in the call, for the mask
  number run(key_value_panels const& panels, std::span<typename Scalars::input const> q, std::int64_t row, narrow* o) {
    std::fill(scores_.begin(), scores_.end(), f32_code::zero());
    multiply(q, panels.keys, scores_);
    const std::size_t visible = visible_keys(plan_.mask, std::size_t(row), std::size_t(problem_.queries), std::size_t(problem_.keys));
    number largest = f32_code::infinity(true);
    for (std::size_t j = 0; j < visible; ++j) {
      scores_[j] = widen(Scalars::to_bf16(Scalars::mul(widen(Scalars::to_bf16(scores_[j])), plan_.scales.scale)));
      largest = Scalars::max(largest, scores_[j]);
    }
    const std::span<number> seen = std::span(scores_).first(visible);
    Scalars::add(seen, largest.negated(), seen);
    Scalars::expf(plan_.ex2, seen, seen);
    const number sum = warp_sum<Scalars>(std::span(scores_).first(visible), problem_.keys);
    std::fill(weights_.begin(), weights_.end(), bf16_code::zero());
    for (std::size_t j = 0; j < visible; ++j) weights_[j] = Scalars::to_bf16(Scalars::div(scores_[j], sum));
    std::fill(output_.begin(), output_.end(), f32_code::zero());
    multiply(weights_, panels.values, output_);
    std::transform(output_.begin(), output_.end(), o, [](number x) { return Scalars::to_bf16(x); });
    return visible == 0 ? f32_code::infinity(true) : Scalars::add(largest, cuda_logf(sum));
  }

 private:
  void multiply(std::span<narrow const> a, column_panel const& panel, std::span<number> c) {
    product_.accumulate(matrix_rows<narrow const>(a), panel, 0, 0, matrix_rows<number>(c));
  }

  call_plan const& plan_;
  attention_problem const& problem_;
  row_product<Scalars, narrow> product_;
  std::vector<number> scores_;
  std::vector<narrow> weights_;
  std::vector<number> output_;
};

/// The exact O and lse, rounded once to BF16 and FP32.
[[nodiscard]] forward_result exact_forward(attention_schedule const& schedule, attention_problem const& problem, progress const& report);

}  // namespace stickybit::detail
