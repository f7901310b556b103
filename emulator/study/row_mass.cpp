#include <algorithm>
#include <cmath>

#include "stickybit/bias/statistics.hpp"
#include "stickybit/format/value.hpp"
#include "stickybit/study/gradient_errors.hpp"

namespace stickybit {
namespace {

double dot(std::span<bf16_code const> a, std::span<bf16_code const> b) {
  double sum = 0;
  for (std::size_t j = 0; j < a.size(); ++j) sum += to_double(a[j]) * to_double(b[j]);
  return sum;
}

/// Sums of one row over its keys, in double: each term is far above double's precision of the sum.
struct row_sums {
  double weights = 0;        // Σ P
  double kernel = 0;         // Σ P dP, the kernel's dP
  double exact_dp = 0;       // Σ P (dO·V)
  double cast = 0;           // Σ BF16 dS
  std::vector<double> keys;  // P K
};

}  // namespace

std::vector<row_mass_causes> causes_of_row_mass(attention_schedule const& schedule, attention_problem const& p, exact_call const& exact, engine how) {
  if (schedule.kind != schedule_kind::online) throw unsupported_call("the row mass of dS is split for schedules that go block by block");
  const forward_result forward = attention_forward(schedule, p, how);
  std::vector<row_sums> sums(std::size_t(p.batch * p.heads * p.queries));
  for (row_sums& s : sums) s.keys.resize(std::size_t(p.head_dim));
  const auto d = std::size_t(p.head_dim);
  backward_options options;
  options.how = how;
  options.scores = [&](score_block_row const& r) {
    row_sums& s = sums[std::size_t((r.batch * p.heads + r.head) * p.queries + r.row)];
    const auto d_o = std::span(p.d_o).subspan(std::size_t(p.query_strides().offset(r.batch, r.head, r.row)), d);
    for (std::int64_t j = 0; j < r.visible; ++j) {
      const auto at = std::size_t(p.key_strides().offset(r.batch, p.key_head_of(r.head), r.first_column + j));
      const double weight = to_double(r.p[std::size_t(j)]);
      s.weights += weight;
      s.kernel += weight * to_double(r.dp[std::size_t(j)]);
      s.exact_dp += weight * dot(d_o, std::span(p.v).subspan(at, d));
      s.cast += to_double(r.ds[std::size_t(j)]);
      for (std::size_t c = 0; c < d; ++c) s.keys[c] += weight * to_double(p.k[at + c]);
    }
  };
  const backward_result g = attention_backward(schedule, p, forward, options);

  std::vector<row_mass_causes> all;
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t head = 0; head < p.heads; ++head) {
      std::vector<double> total, output, arithmetic, cast;
      for (std::int64_t row = 0; row < p.queries; ++row) {
        const auto i = std::size_t((b * p.heads + head) * p.queries + row), at = std::size_t(p.query_strides().offset(b, head, row));
        row_sums const& s = sums[i];
        const double delta = to_double(g.delta[i]), exact_delta = dot(std::span(p.d_o).subspan(at, d), std::span(forward.o).subspan(at, d));
        double keys = 0, dq = 0;
        for (std::size_t c = 0; c < d; ++c) {
          const double x = exact.heads[std::size_t(b * p.heads + head)].dq[std::size_t(row) * d + c].hi;
          keys += s.keys[c] * s.keys[c];
          dq += x * x;
        }
        const double unit = p.softmax_scale * std::sqrt(keys) / std::sqrt(dq);
        if (dq == 0 || !std::isfinite(unit * s.cast)) continue;
        total.push_back(std::fabs(s.cast) * unit);
        output.push_back(std::fabs(s.exact_dp - exact_delta * s.weights) * unit);
        arithmetic.push_back(std::fabs(s.kernel - s.exact_dp + (exact_delta - delta) * s.weights) * unit);
        cast.push_back(std::fabs(s.cast - (s.kernel - delta * s.weights)) * unit);
      }
      all.push_back({b, head, median(total), median(output), median(arithmetic), median(cast)});
    }
  return all;
}

}  // namespace stickybit
