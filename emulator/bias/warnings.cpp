#include "stickybit/bias/warnings.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <optional>
#include <stdexcept>

#include "stickybit/attention/exact_head.hpp"
#include "stickybit/attention/smooth_keys.hpp"
#include "stickybit/bias/statistics.hpp"
#include "stickybit/exact/dot_products.hpp"
#include "stickybit/format/value.hpp"
#include "stickybit/rounding/ieee_environment.hpp"

namespace stickybit {
namespace {

/// From here to 1 a number rounds to 1 in BF16: the midpoint of 1 − 2^-8 and 1 goes to the even one.
constexpr double rounds_to_one = 1 - 0x1p-9;

/// What the rows of a call have in common, counted.
struct row_counts {
  std::int64_t without_keys = 0, undetermined = 0, one_key = 0, counted = 0, visible = 0;
  std::int64_t repeated = 0, near = 0, bf16 = 0, at_one = 0;
  double largest = -1;  // of |S|, raw

  void add(row_counts const& other) noexcept {
    without_keys += other.without_keys;
    undetermined += other.undetermined;
    one_key += other.one_key;
    counted += other.counted;
    visible += other.visible;
    repeated += other.repeated;
    near += other.near;
    bf16 += other.bf16;
    at_one += other.at_one;
    largest = std::max(largest, other.largest);
  }
};

/// @param below  room for the visible keys
void count_row(dot_products const& products, std::span<bf16_code const> q, std::span<double_double> below, double scale, row_counts& counts) {
  if (below.empty()) {
    ++counts.without_keys;
    return;
  }
  const double largest = products.evaluate_below_largest(q, below).hi;
  if (!std::isfinite(largest)) {
    ++counts.undetermined;
    return;
  }
  const double tolerance = tie_parameters{}.tolerance;
  std::int64_t repeated = 0, near = 0, bf16 = 0;
  double sum = 0, lowest = 0;
  for (double_double x : below) {
    const double distance = -scale * x.hi, weight = std::exp(-distance);
    repeated += x.hi == 0;
    near += distance <= tolerance;
    bf16 += weight >= rounds_to_one;
    sum += weight;
    if (std::isfinite(x.hi)) lowest = std::min(lowest, x.hi);
  }
  counts.largest = std::max({counts.largest, std::fabs(largest), std::fabs(largest + lowest)});
  if (below.size() == 1) {
    ++counts.one_key;
    return;
  }
  ++counts.counted;
  counts.visible += std::int64_t(below.size());
  counts.repeated += repeated > 1;
  counts.near += near > 1;
  counts.bf16 += bf16 > 1;
  counts.at_one += 1 / sum >= rounds_to_one;
}

row_counts count_head(attention_problem const& p, mask_alignment mask, std::int64_t b, std::int64_t head) {
  const head_rows of = rows_of_head(p, b, head);
  const dot_products products(of.k);
  row_counts all;
#pragma omp parallel
  {
    const host::ieee_environment ieee;
    row_counts mine;
    std::vector<double_double> below(std::size_t(p.keys));
#pragma omp for schedule(dynamic, 16)
    for (std::int64_t row = 0; row < p.queries; ++row) {
      const std::size_t visible = visible_keys(mask, std::size_t(row), std::size_t(p.queries), std::size_t(p.keys));
      count_row(products, of.q.row(std::size_t(row)), std::span(below).first(visible), p.softmax_scale, mine);
    }
#pragma omp critical
    all.add(mine);
  }
  return all;
}

/// |mean| over the root mean square of |k − mean|, of the keys that some row sees. Infinite where all keys are equal and not 0; NaN for no key,
/// for keys that are all 0, and where one is infinite or NaN.
double mean_over_spread(attention_problem const& p, mask_alignment mask, std::int64_t b, std::int64_t key_head) {
  std::size_t keys = 0;
  for (std::int64_t row = 0; row < p.queries; ++row) keys = std::max(keys, visible_keys(mask, std::size_t(row), std::size_t(p.queries), std::size_t(p.keys)));
  double mean_squares = 0, spread_squares = 0;
  for (std::int64_t c = 0; c < p.head_dim; ++c) {
    running_moments column;
    for (std::size_t key = 0; key < keys; ++key) column.add(to_double(p.k[std::size_t(p.key_strides().offset(b, key_head, std::int64_t(key)) + c)]));
    mean_squares += column.mean() * column.mean();
    spread_squares += column.variance() * double(column.count() - 1) / double(column.count());
  }
  return keys == 0 ? early_warnings::undefined : std::sqrt(mean_squares / spread_squares);
}

double share(std::int64_t part, std::int64_t whole) { return whole == 0 ? early_warnings::undefined : double(part) / double(whole); }

}  // namespace

early_warnings warnings_of_inputs(attention_schedule const& schedule, attention_problem const& problem) {
  const mask_alignment mask = mask_of(schedule, problem);
  std::optional<attention_problem> smooth;
  if (schedule.smooths_keys) smooth = smooth_keys(problem, mask, schedule.rules.scalars);
  attention_problem const& p = smooth ? *smooth : problem;
  early_warnings w;
  w.rows = p.batch * p.heads * p.queries;
  row_counts counts;
  for (std::int64_t b = 0; b < p.batch; ++b) {
    for (std::int64_t head = 0; head < p.heads; ++head) counts.add(count_head(p, mask, b, head));
    for (std::int64_t key_head = 0; key_head < p.key_heads; ++key_head) w.key_mean_by_head.push_back(mean_over_spread(p, mask, b, key_head));
  }
  for (double x : w.key_mean_by_head)
    if (!(x <= w.key_mean_over_spread) && !std::isnan(x)) w.key_mean_over_spread = x;
  w.rows_without_keys = counts.without_keys;
  w.rows_undetermined = counts.undetermined;
  w.rows_of_one_key = counts.one_key;
  w.repeated_maxima = share(counts.repeated, counts.counted);
  w.repeated_maxima_near = share(counts.near, counts.counted);
  w.repeated_maxima_bf16 = share(counts.bf16, counts.counted);
  w.rows_at_one = share(counts.at_one, counts.counted);
  w.weights_at_one = share(counts.at_one, counts.visible);
  if (counts.largest >= 0) {
    w.largest_exponent = counts.largest * p.softmax_scale * std::numbers::log2e;
    w.exponent_ulp = ulp_at<format::f32>(w.largest_exponent);
  }
  return w;
}

void add_gradient_warnings(early_warnings& w, attention_schedule const& schedule, call_reference const& reference, gradient_bias const& bias) {
  attention_problem const& p = reference.problem();
  if (bias.masses.size() != std::size_t(p.batch * p.heads * p.queries)) throw std::invalid_argument("early warnings of gradients: expected one row mass for each query row");
  std::vector<double> total, output, arithmetic, cast, mismatch;
  w.rows_without_gradient = 0;
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t head = 0; head < p.heads; ++head) {
      head_gradients const& exact = reference.values(b, head);
      for (std::int64_t row = 0; row < p.queries; ++row) {
        row_mass_parts const& m = bias.masses[std::size_t((b * p.heads + head) * p.queries + row)];
        gradient_row const& r = exact.rows[std::size_t(row)];
        const double difference = r.determined && r.visible > 1 ? -r.mean.hi : 0, ratio = std::fabs(m.watched_difference - difference) / std::fabs(difference);
        if (difference != 0 && std::isfinite(ratio)) mismatch.push_back(ratio);
        double dq = 0;
        for (std::int64_t c = 0; c < p.head_dim; ++c) {
          const double x = exact.dq[std::size_t(row * p.head_dim + c)].hi;
          dq += x * x;
        }
        const double unit = p.softmax_scale * m.weighted_keys / std::sqrt(dq);
        if (dq == 0 || !std::isfinite(unit * m.mass)) {
          ++w.rows_without_gradient;
          continue;
        }
        total.push_back(std::fabs(m.mass) * unit);
        output.push_back(std::fabs(m.rounded_output) * unit);
        arithmetic.push_back(std::fabs(m.different_arithmetic) * unit);
        cast.push_back(std::fabs(m.score_cast) * unit);
      }
    }
  w.row_mass_over_dq = median(std::move(total));
  w.delta_mismatch = median(std::move(mismatch));
  if (schedule.kind != schedule_kind::online || schedule.backward.delta == delta_sum::weighted_dp) return;  // delta is not of O
  w.row_mass_rounded_output = median(std::move(output));
  w.row_mass_different_arithmetic = median(std::move(arithmetic));
  w.row_mass_score_cast = median(std::move(cast));
}

}  // namespace stickybit
