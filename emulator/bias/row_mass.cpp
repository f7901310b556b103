#include "stickybit/bias/row_mass.hpp"

#include <cmath>
#include <limits>

#include "stickybit/format/value.hpp"

namespace stickybit {
namespace {

std::vector<double> doubles(std::vector<bf16_code> const& codes) {
  std::vector<double> values(codes.size());
  for (std::size_t i = 0; i < codes.size(); ++i) values[i] = to_double(codes[i]);
  return values;
}

/// Four sums, so that they can be taken side by side.
double dot(std::span<double const> a, std::span<double const> b) {
  double sums[4] = {};
  std::size_t i = 0;
  for (; i + 4 <= a.size(); i += 4)
    for (std::size_t j = 0; j < 4; ++j) sums[j] += a[i + j] * b[i + j];
  for (; i < a.size(); ++i) sums[0] += a[i] * b[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

}  // namespace

row_mass_collector::row_mass_collector(attention_problem const& p, std::vector<std::int64_t> watched)
    : problem_(p), watched_(std::move(watched)), k_(doubles(p.k)), v_(doubles(p.v)), d_o_(doubles(p.d_o)), sums_(std::size_t(p.batch * p.heads * p.queries)),
      keys_(sums_.size() * std::size_t(p.head_dim)) {
  for (row_sums& s : sums_) s.watched_dp = std::numeric_limits<double>::quiet_NaN();
}

void row_mass_collector::see(score_block_row const& r) {
  attention_problem const& p = problem_;
  const auto i = std::size_t((r.batch * p.heads + r.head) * p.queries + r.row), d = std::size_t(p.head_dim);
  row_sums& s = sums_[i];
  const auto d_o = std::span(d_o_).subspan(std::size_t(p.query_strides().offset(r.batch, r.head, r.row)), d);
  const auto keys = std::span(keys_).subspan(i * d, d);
  for (std::int64_t j = 0; j < r.visible; ++j) {
    const auto at = std::size_t(p.key_strides().offset(r.batch, p.key_head_of(r.head), r.first_column + j));
    const double weight = to_double(r.p[std::size_t(j)]), dp = to_double(r.dp[std::size_t(j)]);
    s.weights += weight;
    s.kernel += weight * dp;
    s.exact_dp += weight * dot(d_o, std::span(v_).subspan(at, d));
    s.cast += to_double(r.ds[std::size_t(j)]);
    if (!watched_.empty() && watched_[i] == r.first_column + j) s.watched_dp = dp;
    for (std::size_t c = 0; c < d; ++c) keys[c] += weight * k_[at + c];
  }
}

std::vector<row_mass_parts> row_mass_collector::finish(forward_result const& forward, backward_result const& g, bool scale_in_scores) const {
  attention_problem const& p = problem_;
  const auto d = std::size_t(p.head_dim);
  std::vector<row_mass_parts> all;
  std::vector<double> o(d);
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t head = 0; head < p.heads; ++head)
      for (std::int64_t row = 0; row < p.queries; ++row) {
        const auto i = std::size_t((b * p.heads + head) * p.queries + row), at = std::size_t(p.query_strides().offset(b, head, row));
        for (std::size_t c = 0; c < d; ++c) o[c] = to_double(forward.o[at + c]);
        row_sums const& s = sums_[i];
        const double delta = to_double(g.delta[i]), exact_delta = dot(std::span(d_o_).subspan(at, d), o), mass = scale_in_scores ? s.cast / p.softmax_scale : s.cast;
        const auto keys = std::span(keys_).subspan(i * d, d);
        all.push_back({.mass = mass,
                       .rounded_output = s.exact_dp - exact_delta * s.weights,
                       .different_arithmetic = s.kernel - s.exact_dp + (exact_delta - delta) * s.weights,
                       .score_cast = mass - (s.kernel - delta * s.weights),
                       .weighted_keys = std::sqrt(dot(keys, keys)),
                       .watched_difference = s.watched_dp - delta});
      }
  return all;
}

}  // namespace stickybit
