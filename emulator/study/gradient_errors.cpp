#include "stickybit/study/gradient_errors.hpp"

#include <fmt/format.h>

#include <cmath>
#include <functional>

#include "stickybit/attention/exact_head.hpp"
#include "stickybit/bias/statistics.hpp"
#include "stickybit/exact/round_to.hpp"
#include "stickybit/format/value.hpp"

namespace stickybit {
namespace {

/// @param value  of row and column
relative_error relative(std::int64_t rows, std::int64_t columns, std::vector<double_double> const& exact, std::function<double_double(std::int64_t, std::int64_t)> const& value) {
  std::vector<double> errors;
  relative_error result;
  for (std::int64_t i = 0; i < rows; ++i) {
    double error = 0, norm = 0;
    for (std::int64_t j = 0; j < columns; ++j) {
      const double_double x = exact[std::size_t(i * columns + j)];
      const double e = to_double(value(i, j) - x);
      error += e * e;
      norm += x.hi * x.hi;
    }
    const double ratio = std::sqrt(error) / std::sqrt(norm);
    if (norm != 0 && std::isfinite(ratio)) errors.push_back(ratio);
    else ++result.rows_left_out;
  }
  result.median = median(std::move(errors));
  return result;
}

template <class Value>
std::vector<gradient_errors> errors_by_head(attention_problem const& p, exact_call const& exact, Value value_of) {
  std::vector<gradient_errors> all;
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t head = 0; head < p.heads; ++head) {
      gradient_errors e{.batch = b, .head = head, .dq_before_cast = {}, .dq = {}, .dk_before_cast = {}, .dk = {}};
      const std::int64_t key_head = p.key_head_of(head);
      std::vector<double_double> const& dq = exact.heads[std::size_t(b * p.heads + head)].dq;
      std::vector<double_double> const& dk = exact.dk[std::size_t(b * p.key_heads + key_head)];
      for (bool cast : {false, true}) {
        const auto of_dq = [&](std::int64_t i, std::int64_t j) { return value_of(true, cast, std::size_t(p.query_strides().offset(b, head, i) + j), dq[std::size_t(i * p.head_dim + j)]); };
        const auto of_dk = [&](std::int64_t i, std::int64_t j) { return value_of(false, cast, std::size_t(p.key_strides().offset(b, key_head, i) + j), dk[std::size_t(i * p.head_dim + j)]); };
        (cast ? e.dq : e.dq_before_cast) = relative(p.queries, p.head_dim, dq, of_dq);
        (cast ? e.dk : e.dk_before_cast) = relative(p.keys, p.head_dim, dk, of_dk);
      }
      all.push_back(e);
    }
  return all;
}

}  // namespace

exact_call::exact_call(attention_problem const& p, mask_alignment mask_) : mask(mask_) {
  if (p.d_o.size() != p.q.size()) throw std::invalid_argument("the call has no dO: expected a tensor 'do' of q's shape");
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t head = 0; head < p.heads; ++head) heads.push_back(exact_gradients_of_head(p, mask, b, head).evaluate());
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t key_head = 0; key_head < p.key_heads; ++key_head) dk.push_back(sum_over_group(p, heads, &head_gradients::dk, b, key_head));
}

std::vector<gradient_errors> errors_of_gradients(attention_schedule const& schedule, attention_problem const& p, exact_call const& exact, engine how, progress const& report) {
  return errors_of_gradients(schedule, p, attention_forward(schedule, p, how, report), exact, how, report);
}

std::vector<gradient_errors> errors_of_gradients(attention_schedule const& schedule, attention_problem const& p, forward_result const& forward, exact_call const& exact, engine how,
                                                 progress const& report) {
  backward_options options;
  options.how = how;
  options.keep_f32 = true;
  options.report = report;
  const backward_result g = attention_backward(schedule, p, forward, options);
  return errors_by_head(p, exact, [&](bool query, bool cast, std::size_t at, double_double) {
    if (cast) return double_double{to_double(query ? g.dq[at] : g.dk[at]), 0};
    return double_double{to_double(query ? g.dq_f32[at] : g.dk_f32[at]), 0};
  });
}

std::vector<gradient_errors> errors_with_winner(attention_schedule const& schedule, attention_problem const& p, forward_result const& forward, exact_call const& exact, engine how) {
  if (schedule.kind != schedule_kind::online) throw unsupported_call("the row mass of dS is known for schedules that go block by block");
  struct row {
    double mass = 0, largest = -1;
    std::int64_t key = 0;
  };
  std::vector<row> rows(std::size_t(p.batch * p.heads * p.queries));
  backward_options options;
  options.how = how;
  options.keep_f32 = true;
  options.scores = [&](score_block_row const& r) {
    row& at = rows[std::size_t((r.batch * p.heads + r.head) * p.queries + r.row)];
    for (std::int64_t j = 0; j < r.visible; ++j) {
      at.mass += to_double(r.ds[std::size_t(j)]);
      const double weight = to_double(r.p[std::size_t(j)]);
      if (weight > at.largest) at.largest = weight, at.key = r.first_column + j;
    }
  };
  const backward_result g = attention_backward(schedule, p, forward, options);
  std::vector<double> dq, dk;
  for (f32_code c : g.dq_f32) dq.push_back(to_double(c));
  for (f32_code c : g.dk_f32) dk.push_back(to_double(c));
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t head = 0; head < p.heads; ++head)
      for (std::int64_t i = 0; i < p.queries; ++i) {
        row const& at = rows[std::size_t((b * p.heads + head) * p.queries + i)];
        const double mass = (schedule.backward.scaled == scale_place::outputs ? p.softmax_scale : 1) * to_double(round_to<format::f32>({at.mass, 0}));
        const auto query = std::size_t(p.query_strides().offset(b, head, i)), key = std::size_t(p.key_strides().offset(b, p.key_head_of(head), at.key));
        if (at.largest < 0) continue;
        for (std::size_t c = 0; c < std::size_t(p.head_dim); ++c) {
          dq[query + c] -= mass * to_double(p.k[key + c]);
          dk[key + c] -= mass * to_double(p.q[query + c]);
        }
      }
  return errors_by_head(p, exact, [&](bool query, bool cast, std::size_t at, double_double) {
    const double x = (query ? dq : dk)[at];
    return double_double{cast ? to_double(round_to<format::bf16>({x, 0})) : x, 0};
  });
}

std::vector<gradient_errors> errors_of_cast(attention_problem const& p, exact_call const& exact) {
  return errors_by_head(p, exact, [](bool, bool cast, std::size_t, double_double x) { return cast ? double_double{to_double(round_to<format::bf16>(x)), 0} : x; });
}

}  // namespace stickybit
