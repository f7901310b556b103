#include "stickybit/bias/call_reference.hpp"

#include <cmath>

#include "stickybit/attention/exact_head.hpp"
#include "stickybit/exact/round_to.hpp"
#include "stickybit/format/value.hpp"

namespace stickybit {
namespace {

void put(error_samples& samples, std::size_t at, double value, double_double exact) {
  samples.exact[at] = exact.hi;
  if (std::isfinite(value) && std::isfinite(exact.hi)) samples.error[at] = to_double(double_double{value, 0} - exact);
}

}  // namespace

call_reference::call_reference(attention_problem const& p, mask_alignment mask, of what, progress const& report) : problem_(p), mask_(mask) {
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t head = 0; head < p.heads; ++head) {
      exact_rows rows = exact_head(p, mask, b, head).evaluate();
      outputs_.push_back(std::move(rows.o));
      without_keys_.push_back(std::move(rows.without_keys));
      if (what == of::output_and_gradients && p.d_o.size() == p.q.size()) {
        gradients_.push_back(exact_gradients_of_head(p, mask, b, head));
        values_.push_back(gradients_.back().evaluate());
      }
      if (report) report(std::int64_t(outputs_.size()), p.batch * p.heads);
    }
}

template <class Value>
output_bias call_reference::compare_output(Value const& value) const {
  attention_problem const& p = problem_;
  output_bias result;
  error_samples samples(p.batch * p.heads, p.queries, p.head_dim);
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t head = 0; head < p.heads; ++head)
      for (std::int64_t row = 0; row < p.queries; ++row) {
        const bool empty = without_keys_[index(b, head)][std::size_t(row)] != 0;
        result.rows_without_keys += empty;
        for (std::int64_t j = 0; j < p.head_dim; ++j) {
          const double_double x = output(b, head)[std::size_t(row * p.head_dim + j)];
          const std::size_t at = samples.at(b * p.heads + head, row, j);
          if (empty) samples.exact[at] = x.hi;
          else put(samples, at, value(std::size_t(p.query_strides().offset(b, head, row) + j), x), x);
        }
      }
  result.o = summarize(samples, format::bf16);
  return result;
}

template <class Value>
tensor_error call_reference::compare_dq(Value const& value) const {
  attention_problem const& p = problem_;
  error_samples dq(p.batch * p.heads, p.queries, p.head_dim);
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t head = 0; head < p.heads; ++head) {
      head_gradients const& x = values(b, head);
      for (std::int64_t row = 0; row < p.queries; ++row)
        for (std::int64_t j = 0; j < p.head_dim && x.without_keys[std::size_t(row)] == 0; ++j) {
          const double_double exact = x.dq[std::size_t(row * p.head_dim + j)];
          put(dq, dq.at(b * p.heads + head, row, j), value(std::size_t(p.query_strides().offset(b, head, row) + j), exact), exact);
        }
    }
  return summarize(dq, format::bf16);
}

template <class Value>
tensor_error call_reference::compare_keys(std::vector<double_double> head_gradients::*gradient, Value const& value) const {
  attention_problem const& p = problem_;
  error_samples samples(p.batch * p.key_heads, p.keys, p.head_dim);
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t key_head = 0; key_head < p.key_heads; ++key_head) {
      const std::vector<double_double> x = sum_over_group(p, values_, gradient, b, key_head);
      for (std::int64_t key = 0; key < p.keys; ++key)
        for (std::int64_t j = 0; j < p.head_dim; ++j) {
          const double_double exact = x[std::size_t(key * p.head_dim + j)];
          put(samples, samples.at(b * p.key_heads + key_head, key, j), value(std::size_t(p.key_strides().offset(b, key_head, key) + j), exact), exact);
        }
    }
  return summarize(samples, format::bf16);
}

output_bias call_reference::error_of(forward_result const& forward) const {
  return compare_output([&](std::size_t at, double_double) { return to_double(forward.o[at]); });
}

gradient_bias call_reference::error_of(backward_result const& g) const {
  attention_problem const& p = problem_;
  gradient_bias bias;
  error_samples delta(p.batch * p.heads, p.queries, 1);
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t head = 0; head < p.heads; ++head) {
      head_gradients const& x = values(b, head);
      for (std::int64_t row = 0; row < p.queries; ++row) {
        if (x.without_keys[std::size_t(row)] != 0) {
          ++bias.rows_without_keys;
          continue;
        }
        put(delta, delta.at(b * p.heads + head, row, 0), to_double(g.delta[index(b, head) * std::size_t(p.queries) + std::size_t(row)]), x.delta[std::size_t(row)]);
      }
    }
  bias.delta = summarize(delta, format::f32);
  bias.dq = compare_dq([&](std::size_t at, double_double) { return to_double(g.dq[at]); });
  bias.dk = compare_keys(&head_gradients::dk, [&](std::size_t at, double_double) { return to_double(g.dk[at]); });
  bias.dv = compare_keys(&head_gradients::dv, [&](std::size_t at, double_double) { return to_double(g.dv[at]); });
  return bias;
}

output_bias call_reference::error_of_rounded_output() const {
  return compare_output([](std::size_t, double_double x) { return to_double(round_to<format::bf16>(x)); });
}

gradient_bias call_reference::error_of_rounded_gradients() const {
  const auto rounded = [](std::size_t, double_double x) { return to_double(round_to<format::bf16>(x)); };
  gradient_bias bias;
  bias.dq = compare_dq(rounded);
  bias.dk = compare_keys(&head_gradients::dk, rounded);
  bias.dv = compare_keys(&head_gradients::dv, rounded);
  return bias;
}

}  // namespace stickybit
