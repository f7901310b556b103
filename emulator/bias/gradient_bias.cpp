#include "stickybit/bias/gradient_bias.hpp"

#include <algorithm>
#include <cmath>
#include <deque>
#include <stdexcept>

#include "stickybit/attention/exact_head.hpp"
#include "stickybit/bias/streamed_error.hpp"
#include "stickybit/exact/gradients.hpp"
#include "stickybit/format/value.hpp"

namespace stickybit {
namespace {

/// The exact gradients of every query head, and what is needed to have its dP and dS again, key by key.
class exact_heads {
 public:
  exact_heads(attention_problem const& p, mask_alignment mask) : p_(p), mask_(mask) {}

  /// Computes head after head.
  void evaluate(progress const& report) {
    for (std::int64_t b = 0; b < p_.batch; ++b)
      for (std::int64_t head = 0; head < p_.heads; ++head) {
        gradients_.push_back(exact_gradients_of_head(p_, mask_, b, head));
        values_.push_back(gradients_.back().evaluate());
        report(std::int64_t(values_.size()), p_.batch * p_.heads);
      }
  }

  [[nodiscard]] exact_gradients const& of(std::int64_t b, std::int64_t head) const { return gradients_[index(b, head)]; }
  [[nodiscard]] head_gradients const& values(std::int64_t b, std::int64_t head) const { return values_[index(b, head)]; }
  /// The sum of `member`, dk or dv, over the query heads of a key head.
  [[nodiscard]] std::vector<double_double> group_sum(std::vector<double_double> head_gradients::*member, std::int64_t b, std::int64_t key_head) const {
    return sum_over_group(p_, values_, member, b, key_head);
  }

 private:
  [[nodiscard]] std::size_t index(std::int64_t b, std::int64_t head) const noexcept { return std::size_t(b * p_.heads + head); }

  attention_problem const& p_;
  mask_alignment mask_;
  std::deque<exact_gradients> gradients_;
  std::vector<head_gradients> values_;
};

/// dP and dS against their exact values while the kernel's blocks go by. The blocks of one row come one after another.
class score_errors {
 public:
  /// @param factor  of dS: the scale, where the schedule puts it there
  score_errors(attention_problem const& p, exact_heads const& exact, double factor)
      : p_(p), exact_(exact), factor_(factor), dp_(p.batch * p.heads, p.queries), ds_(p.batch * p.heads, p.queries) {}

  void see(score_block_row const& r) {
    const auto count = std::size_t(r.visible);
    if (count == 0) return;  // the block lies behind what the row sees
    std::vector<double_double> p(count), dp(count), ds(count);
    const auto row = std::size_t(r.row);
    exact_.of(r.batch, r.head).evaluate_keys(row, exact_.values(r.batch, r.head).rows[row], std::size_t(r.first_column), p, dp, ds);
    const std::int64_t head = r.batch * p_.heads + r.head;
    for (std::size_t j = 0; j < count; ++j) {
      dp_.add(head, r.row, to_double(r.dp[j]), dp[j]);
      ds_.add(head, r.row, to_double(r.ds[j]), ds[j] * factor_);
    }
  }

  void finish(gradient_bias& bias) const {
    bias.dp = dp_.summary(format::f32);
    bias.ds = ds_.summary(format::bf16);
  }

 private:
  attention_problem const& p_;
  exact_heads const& exact_;
  double factor_;
  streamed_error dp_, ds_;
};

void put(error_samples& samples, std::size_t at, double value, double_double exact) {
  samples.exact[at] = exact.hi;
  if (std::isfinite(value) && std::isfinite(exact.hi)) samples.error[at] = to_double(double_double{value, 0} - exact);
}

/// delta and dQ: what belongs to query rows.
void compare_queries(attention_problem const& p, exact_heads const& exact, backward_result const& g, gradient_bias& bias) {
  error_samples delta(p.batch * p.heads, p.queries, 1), dq(p.batch * p.heads, p.queries, p.head_dim);
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t head = 0; head < p.heads; ++head) {
      head_gradients const& x = exact.values(b, head);
      const std::int64_t index = b * p.heads + head;
      for (std::int64_t row = 0; row < p.queries; ++row) {
        if (x.without_keys[std::size_t(row)] != 0) {
          ++bias.rows_without_keys;
          continue;
        }
        put(delta, delta.at(index, row, 0), to_double(g.delta[std::size_t(index * p.queries + row)]), x.delta[std::size_t(row)]);
        const auto from = std::size_t(p.query_strides().offset(b, head, row));
        for (std::int64_t j = 0; j < p.head_dim; ++j)
          put(dq, dq.at(index, row, j), to_double(g.dq[from + std::size_t(j)]), x.dq[std::size_t(row * p.head_dim + j)]);
      }
    }
  bias.delta = summarize(delta, format::f32);
  bias.dq = summarize(dq, format::bf16);
}

/// dK or dV.
tensor_error compare_keys(attention_problem const& p, exact_heads const& exact, std::vector<double_double> head_gradients::*member, std::vector<bf16_code> const& values) {
  error_samples samples(p.batch * p.key_heads, p.keys, p.head_dim);
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t key_head = 0; key_head < p.key_heads; ++key_head) {
      const std::vector<double_double> x = exact.group_sum(member, b, key_head);
      for (std::int64_t key = 0; key < p.keys; ++key) {
        const auto from = std::size_t(p.key_strides().offset(b, key_head, key));
        for (std::int64_t j = 0; j < p.head_dim; ++j)
          put(samples, samples.at(b * p.key_heads + key_head, key, j), to_double(values[from + std::size_t(j)]), x[std::size_t(key * p.head_dim + j)]);
      }
    }
  return summarize(samples, format::bf16);
}

}  // namespace

gradient_bias bias_of_gradients(attention_schedule const& schedule, attention_problem const& p, engine how, progress const& report, bool with_scores) {
  if (p.d_o.size() != p.q.size()) throw std::invalid_argument("bias_of_gradients: the problem has no dO: expected a tensor 'do' of q's shape");
  static_cast<void>(dq_blocks(schedule, p));  // refuses early what has no backward pass
  const auto phase = [&](int index) -> progress {
    return [&report, index](std::int64_t done, std::int64_t total) {
      if (report) report(index * total + done, 3 * total);
    };
  };
  const forward_result forward = attention_forward(schedule, p, how, phase(0));
  exact_heads exact(p, mask_of(schedule, p));
  exact.evaluate(phase(1));
  score_errors scores(p, exact, schedule.backward.scaled == scale_place::score_gradients ? p.softmax_scale : 1);
  backward_options options;
  options.how = how;
  options.report = phase(2);
  if (with_scores) options.scores = [&](score_block_row const& r) { scores.see(r); };
  const backward_result g = attention_backward(schedule, p, forward, options);

  gradient_bias bias;
  compare_queries(p, exact, g, bias);
  bias.dk = compare_keys(p, exact, &head_gradients::dk, g.dk);
  bias.dv = compare_keys(p, exact, &head_gradients::dv, g.dv);
  if (with_scores) scores.finish(bias);
  return bias;
}

}  // namespace stickybit
