#include "reference_backward.hpp"

#include <fmt/format.h>

#include "backward_plan.hpp"
#include "reference_rows.hpp"
#include "score_worker.hpp"
#include "stickybit/attention/exact_head.hpp"
#include "stickybit/exact/constants.hpp"
#include "stickybit/exact/gradients.hpp"
#include "stickybit/exact/round_to.hpp"
#include "stickybit/rounding/ieee_environment.hpp"

namespace stickybit::detail {
namespace {

std::vector<f32_code> wide(std::span<bf16_code const> codes) {
  std::vector<f32_code> values(codes.size());
  std::transform(codes.begin(), codes.end(), values.begin(), [](bf16_code c) { return widen(c); });
  return values;
}

/// One head as matrices of BF16. P, dt and dS of every row are kept, as autograd keeps them.
/// @source PyTorch 2.11 aten/src/ATen/native/cuda/SoftMax.cu (softmax_backward_cuda_out), PersistentSoftmax.cuh (softmax_warp_backward)
template <class Scalars>
class eager_head {
 public:
  eager_head(call_plan const& plan, attention_problem const& p, backward_options const& options, engine how, std::int64_t b, std::int64_t head)
      : plan_(plan), p_(p), options_(options), how_(how), b_(b), head_(head), d_(std::size_t(p.head_dim)), rows_(std::size_t(p.queries)), forward_panels_(p, b, head),
        panels_(p, b, head), query_rows_(p.q.data() + query_offset(0), p.queries, p.head_dim, p.query_strides().row, 1),
        gradient_rows_(p.d_o.data() + query_offset(0), p.queries, p.head_dim, p.query_strides().row, 1),
        weights_(rows_ * std::size_t(p.keys)), gradients_(weights_.size()) {}

  void run(backward_result& result) {
#pragma omp parallel
    {
      const host::ieee_environment ieee;
      eager_worker<Scalars> forward(plan_, p_, how_);
      rows_times_panel product(*plan_.unit, how_);
#pragma omp for schedule(dynamic, 8)
      for (std::int64_t row = 0; row < p_.queries; ++row) take_row(forward, product, row, result);
#pragma omp for schedule(dynamic, 4)
      for (std::int64_t key = 0; key < p_.keys; ++key) take_key(product, key, result);
    }
  }

 private:
  std::size_t query_offset(std::int64_t row) const noexcept { return std::size_t(p_.query_strides().offset(b_, head_, row)); }

  void take_row(eager_worker<Scalars>& forward, rows_times_panel& product, std::int64_t row, backward_result& result) {
    const auto keys = std::size_t(p_.keys), at = query_offset(row), index = std::size_t((b_ * p_.heads + head_) * p_.queries + row);
    std::vector<bf16_code> o(d_), dp(keys), ds(keys);
    const f32_code lse = forward.run(forward_panels_, b_, head_, row, o.data(), null_sink{});
    const std::span<bf16_code const> p = forward.weights();
    std::vector<f32_code> products(keys, f32_code::zero());
    product.accumulate(std::span(p_.d_o).subspan(at, d_), panels_.values, 0, 0, products);
    for (std::size_t j = 0; j < keys; ++j) {
      dp[j] = Scalars::to_bf16(products[j]);
      products[j] = widen(Scalars::to_bf16(Scalars::mul(widen(dp[j]), widen(p[j]))));
    }
    const f32_code sum = warp_sum<Scalars>(products, p_.keys);
    const std::size_t visible = visible_keys(plan_.mask, std::size_t(row), rows_, keys);
    for (std::size_t j = 0; j < keys; ++j) {
      const bf16_code dt = j < visible ? Scalars::to_bf16(Scalars::fma(widen(p[j]).negated(), sum, products[j])) : bf16_code::zero();
      ds[j] = Scalars::to_bf16(Scalars::mul(widen(dt), plan_.scales.scale));
      weights_[j * rows_ + std::size_t(row)] = p[j];
      gradients_[j * rows_ + std::size_t(row)] = ds[j];
    }
    std::vector<f32_code> dq(d_, f32_code::zero());
    product.accumulate(ds, panels_.key_rows, 0, 0, dq);
    store(dq, at, result.dq, result.dq_f32);
    result.delta[index] = sum;
    result.lse_log2[index] = lse == f32_code::infinity(true) ? f32_code::zero() : Scalars::mul(lse, f32_log2_e);
    if (options_.scores) observe(product, row, visible, p, dp, ds);
  }

  void observe(rows_times_panel& product, std::int64_t row, std::size_t visible, std::span<bf16_code const> p, std::vector<bf16_code> const& dp,
               std::vector<bf16_code> const& ds) const {
    std::vector<f32_code> s(p.size(), f32_code::zero());
    product.accumulate(std::span(p_.q).subspan(query_offset(row), d_), panels_.keys, 0, 0, s);
    for (std::size_t j = 0; j < s.size(); ++j) s[j] = j < visible ? widen(Scalars::to_bf16(s[j])) : f32_code::infinity(true);
    const std::vector<f32_code> weights = wide(p), dps = wide(dp), dss = wide(ds);
    options_.scores({b_, head_, row, 0, std::int64_t(visible), s, weights, dps, weights, dss});
  }

  void take_key(rows_times_panel& product, std::int64_t key, backward_result& result) {
    const auto at = std::size_t(p_.key_strides().offset(b_, head_, key));
    std::vector<f32_code> sums(d_, f32_code::zero());
    std::vector<f32_code> not_kept;
    product.accumulate(std::span<bf16_code const>(weights_).subspan(std::size_t(key) * rows_, rows_), gradient_rows_, 0, 0, sums);
    store(sums, at, result.dv, not_kept);
    std::fill(sums.begin(), sums.end(), f32_code::zero());
    product.accumulate(std::span<bf16_code const>(gradients_).subspan(std::size_t(key) * rows_, rows_), query_rows_, 0, 0, sums);
    store(sums, at, result.dk, result.dk_f32);
  }

  void store(std::vector<f32_code> const& sums, std::size_t at, std::vector<bf16_code>& to, std::vector<f32_code>& to_f32) const {
    std::transform(sums.begin(), sums.end(), to.begin() + std::ptrdiff_t(at), [](f32_code x) { return Scalars::to_bf16(x); });
    if (!to_f32.empty()) std::copy(sums.begin(), sums.end(), to_f32.begin() + std::ptrdiff_t(at));
  }

  call_plan const& plan_;
  attention_problem const& p_;
  backward_options const& options_;
  engine how_;
  std::int64_t b_, head_;
  std::size_t d_, rows_;
  key_value_panels forward_panels_;
  backward_key_panels panels_;
  column_panel query_rows_, gradient_rows_;        // Q[s × d], dO[s × d]
  std::vector<bf16_code> weights_, gradients_;     // P and dS: [key][row]
};

/// One head of the mathematical value.
class exact_backward_head {
 public:
  exact_backward_head(attention_problem const& p, mask_alignment mask, std::int64_t b, std::int64_t head)
      : p_(p), b_(b), head_(head), rows_(rows_of_head(p, b, head)), gradients_(exact_gradients_of_head(p, mask, b, head)),
        softmax_(rows_.q, rows_.k, p.softmax_scale, mask) {}

  /// dq, delta and lse_log2 to the result; dk and dv are added to the group's.
  void run(backward_result& result, std::vector<double_double>& dk, std::vector<double_double>& dv) const {
    const head_gradients g = gradients_.evaluate();
    const auto d = std::size_t(p_.head_dim);
    for (std::int64_t row = 0; row < p_.queries; ++row) {
      const auto at = std::size_t(p_.query_strides().offset(b_, head_, row));
      for (std::size_t c = 0; c < d; ++c) {
        const double_double x = g.dq[std::size_t(row) * d + c];
        result.dq[at + c] = round_to<format::bf16>(x);
        if (!result.dq_f32.empty()) result.dq_f32[at + c] = round_to<format::f32>(x);
      }
      result.delta[index(row)] = round_to<format::f32>(g.delta[std::size_t(row)]);
    }
    for (std::size_t i = 0; i < dk.size(); ++i) {
      dk[i] = dk[i] + g.dk[i];
      dv[i] = dv[i] + g.dv[i];
    }
#pragma omp parallel
    {
      const host::ieee_environment ieee;
      std::vector<double_double> weights(gradients_.keys());
#pragma omp for schedule(dynamic, 8)
      for (std::int64_t row = 0; row < p_.queries; ++row) {
        const double_double lse = softmax_.evaluate(std::size_t(row), weights).lse;
        result.lse_log2[index(row)] = lse.hi == -std::numeric_limits<double>::infinity() ? f32_code::zero() : round_to<format::f32>(lse * exact_log2_e);
      }
    }
  }

  /// P, dP, dS and S of every row, rounded once: dS and the cast P to BF16, all others to FP32.
  void observe(score_observer const& tell) const {
    const dot_products scores(rows_.k);
    const std::size_t keys = gradients_.keys();
#pragma omp parallel
    {
      const host::ieee_environment ieee;
      std::vector<double_double> p(keys), dp(keys), ds(keys), s(keys), dq(std::size_t(p_.head_dim));
#pragma omp for schedule(dynamic, 8)
      for (std::int64_t row = 0; row < p_.queries; ++row) {
        for (std::vector<double_double>* m : {&p, &dp, &ds}) std::fill(m->begin(), m->end(), double_double{});
        const std::size_t visible = gradients_.evaluate_row(std::size_t(row), p, dp, ds, dq).visible;
        scores.evaluate(rows_.q.row(std::size_t(row)), s);
        std::fill(s.begin() + std::ptrdiff_t(visible), s.end(), double_double{-std::numeric_limits<double>::infinity(), 0});
        tell({b_, head_, row, 0, std::int64_t(visible), to_f32(s), to_f32(p), to_f32(dp), to_bf16(p), to_bf16(ds)});
      }
    }
  }

 private:
  std::size_t index(std::int64_t row) const noexcept { return std::size_t((b_ * p_.heads + head_) * p_.queries + row); }
  static std::vector<f32_code> to_f32(std::vector<double_double> const& x) {
    std::vector<f32_code> codes(x.size());
    std::transform(x.begin(), x.end(), codes.begin(), [](double_double v) { return round_to<format::f32>(v); });
    return codes;
  }
  static std::vector<f32_code> to_bf16(std::vector<double_double> const& x) {
    std::vector<f32_code> codes(x.size());
    std::transform(x.begin(), x.end(), codes.begin(), [](double_double v) { return widen(round_to<format::bf16>(v)); });
    return codes;
  }

  attention_problem const& p_;
  std::int64_t b_, head_;
  head_rows rows_;
  exact_gradients gradients_;
  exact_softmax softmax_;
};

template <class Scalars>
backward_result eager(call_plan const& plan, attention_problem const& p, backward_options const& options, engine how) {
  backward_result result = room_for(p, options);
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t head = 0; head < p.heads; ++head) {
      eager_head<Scalars>(plan, p, options, how, b, head).run(result);
      if (options.report) options.report(b * p.heads + head + 1, p.batch * p.heads);
    }
  return result;
}

}  // namespace

backward_result eager_backward(attention_schedule const& schedule, attention_problem const& p, backward_options const& options) {
  constexpr std::int64_t most_keys = 1024;  // beyond, another softmax runs
  if (p.heads != p.key_heads) throw unsupported_call(fmt::format("schedule {}: the backward pass of grouped heads ({} on {}) is not emulated", schedule.name, p.heads, p.key_heads));
  if (p.keys > most_keys) throw unsupported_call(fmt::format("schedule {}: the backward pass of {} keys is not emulated; expected at most {}", schedule.name, p.keys, most_keys));
  static_cast<void>(plan_backward(schedule, p, options.dq_order));  // refuses what is no order of its one block
  const call_plan plan = plan_call(schedule, p);
  if (options.how == engine::fast && host::is_ieee()) return eager<host_scalars<subnormals::kept>>(plan, p, options, engine::fast);
  return eager<defined_scalars<subnormals::kept>>(plan, p, options, engine::definition);
}

backward_result exact_backward(attention_schedule const& schedule, attention_problem const& p, backward_options const& options) {
  static_cast<void>(plan_backward(schedule, p, options.dq_order));
  backward_result result = room_for(p, options);
  const std::int64_t group = p.heads / p.key_heads;
  const auto d = std::size_t(p.head_dim), size = std::size_t(p.keys) * d;
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t key_head = 0; key_head < p.key_heads; ++key_head) {
      std::vector<double_double> dk(size), dv(size);
      for (std::int64_t head = key_head * group; head < (key_head + 1) * group; ++head) {
        const exact_backward_head one(p, mask_of(schedule, p), b, head);
        one.run(result, dk, dv);
        if (options.scores) one.observe(options.scores);
        if (options.report) options.report(b * p.heads + head + 1, p.batch * p.heads);
      }
      for (std::size_t i = 0; i < size; ++i) {
        const std::size_t to = std::size_t(p.key_strides().offset(b, key_head, std::int64_t(i / d))) + i % d;
        result.dk[to] = round_to<format::bf16>(dk[i]);
        result.dv[to] = round_to<format::bf16>(dv[i]);
        if (!result.dk_f32.empty()) result.dk_f32[to] = round_to<format::f32>(dk[i]);
      }
    }
  return result;
}

}  // namespace stickybit::detail
