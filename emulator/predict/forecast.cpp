#include "stickybit/predict/forecast.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "head_model.hpp"
#include "rounded_value.hpp"
#include "stickybit/format/value.hpp"
#include "stickybit/machine/machine.hpp"
#include "stickybit/rounding/ieee_environment.hpp"

namespace stickybit {
namespace {

using namespace detail;

constexpr std::int64_t band_rows = 64;

void require_shape(bf16_rows m, std::size_t rows, std::size_t columns, char const* name) {
  if (m.rows != rows || m.columns != columns) throw std::invalid_argument(fmt::format("predict_bias: {} is {} x {}, expected {} x {}", name, m.rows, m.columns, rows, columns));
}

/// The model has no underflow and no overflow: what a tensor core flushes or FP32 cannot hold is beyond it.
void require_modelled_size(bf16_rows m, char const* name) {
  constexpr double most = 0x1p60;
  double largest = 0;
  for (std::size_t i = 0; i < m.rows; ++i)
    for (std::size_t c = 0; c < m.columns; ++c) {
      if (!m.row(i)[c].is_finite()) throw no_forecast(fmt::format("no prediction: {} is NaN or infinite at row {}, column {}", name, i, c));
      largest = std::max(largest, std::fabs(to_double(m.row(i)[c])));
    }
  if (largest > most || (largest != 0 && largest < 1 / most))
    throw no_forecast(fmt::format("no prediction: the largest element of {} is {:.3g}: expected between 2^-60 and 2^60, where nothing underflows or overflows", name, largest));
}

void require_inputs(forecast_inputs const& in) {
  if (!(in.softmax_scale > 0 && in.softmax_scale < std::numeric_limits<double>::infinity()))
    throw std::invalid_argument(fmt::format("softmax scale {}: expected a finite number above 0", in.softmax_scale));
  if (in.q.empty()) throw std::invalid_argument("predict_bias: no query head");
  if (in.k.rows == 0 || in.q[0].rows == 0) throw no_forecast("no prediction: the call has no key or no query");
  if (in.softmax_scale > 0x1p60 || in.softmax_scale < 0x1p-60)
    throw no_forecast(fmt::format("no prediction: softmax scale {}: expected between 2^-60 and 2^60", in.softmax_scale));
  if (!in.d_o.empty() && in.d_o.size() != in.q.size()) throw std::invalid_argument(fmt::format("predict_bias: dO of {} heads, q of {}", in.d_o.size(), in.q.size()));
  require_shape(in.v, in.k.rows, in.k.columns, "v");
  require_modelled_size(in.k, "k");
  require_modelled_size(in.v, "v");
  for (bf16_rows q : in.q) require_shape(q, in.q[0].rows, in.k.columns, "q"), require_modelled_size(q, "q");
  for (bf16_rows d_o : in.d_o) require_shape(d_o, in.q[0].rows, in.k.columns, "do"), require_modelled_size(d_o, "do");
}

/// What the model lacks of the schedule's backward pass; null: nothing.
char const* gradients_missing(attention_schedule const& s) noexcept {
  if (s.kind != schedule_kind::online) return "gradients of matrices in BF16 are not modelled";
  if (s.backward_tiles.empty()) return "its backward pass is not known";
  if (s.backward_in_fp32) return "products in FP32 are not modelled";
  if (s.backward.delta == delta_sum::weighted_dp || s.backward.delta == delta_sum::tensor_core) return "a delta whose errors go with those of dP is not modelled";
  if (s.backward.mass != row_mass::kept) return "the correction of the row mass is not modelled";
  return nullptr;
}

/// Rules that the model has.
void require_known(attention_schedule const& s, forecast_inputs const& in) {
  const auto refuse = [&](char const* what) { throw no_forecast(fmt::format("no prediction for {}: {}", s.name, what)); };
  if (s.smooths_keys) refuse("smoothed keys are not modelled");
  if (s.forward_in_fp32) refuse("products in FP32 are not modelled");
  if (s.rules.ties == tied_maximum::extended) refuse("the extended tie rule is not modelled");
  if (s.rules.weight_cast != rounding::nearest_even) refuse("casts of P that are not to nearest are not modelled");
  if (s.kind == schedule_kind::exact_value) refuse("it has no rounding but the last");
  if (forward_tile(s, in) == nullptr) refuse("no tile for this head dimension");
  if (in.d_o.empty()) return;
  if (char const* why = gradients_missing(s)) refuse(why);
  if (tile_of(s.backward_tiles, std::int64_t(in.k.columns), in.mask != mask_alignment::none) == nullptr) refuse("no tile of the backward pass for this head dimension");
}

expected_matrix empty_matrix(std::size_t rows, std::size_t columns) {
  return {std::int64_t(rows), std::int64_t(columns), std::vector<double>(rows * columns), std::vector<double>(rows * columns), std::vector<expected_mean>(columns), std::vector<expected_mean>(rows), {}};
}

/// The unit of a column; 0 where its exact values are nothing but what double left of 0, beside errors 2^30 times as large.
double ulp_of_column(double squares, double error_sum, double count) noexcept {
  return std::fabs(error_sum) / count > 0x1p30 * std::sqrt(squares / count) ? 0 : bf16_ulp_at_rms(squares, count);
}

/// Rows that are alike share their errors; others have nothing to do with each other.
expected_matrix matrix_of(element_errors const& e, std::int64_t rows, std::int64_t columns, std::size_t counted, std::span<std::int64_t const> alike, std::vector<expected_mean> by_row) {
  expected_matrix m = empty_matrix(std::size_t(rows), std::size_t(columns));
  m.mean = e.mean;
  std::ranges::transform(e.width, m.variance.begin(), [](spread const& s) { return s.smooth + s.jumps; });
  m.by_row = std::move(by_row);
  double total = 0;
  spread of_all;
  for (std::int64_t i = 0; i < rows; ++i) {
    expected_mean const& row = m.by_row[std::size_t(i)];
    total += row.mean;
    of_all.add(spread{row.smooth, row.jumps, row.fourth}.shared_by(alike[std::size_t(i)]));
  }
  if (counted != 0) m.all = mean_of(total, of_all, double(counted));
  for (std::int64_t c = 0; counted != 0 && c < columns; ++c) {
    double sum = 0, squares = 0;
    spread width;
    for (std::int64_t i = 0; i < rows; ++i) squares += square(e.value[std::size_t(i * columns + c)]), sum += e.mean[std::size_t(i * columns + c)], width.add(e.width[std::size_t(i * columns + c)].shared_by(alike[std::size_t(i)]));
    m.by_column[std::size_t(c)] = mean_of(sum, width, double(counted));
    m.by_column[std::size_t(c)].ulp = ulp_of_column(squares, sum, double(counted));
  }
  return m;
}

/// A gradient that is a sum over query rows, dK or dV, of one query head: values, expected errors and what the errors of a column share.
struct key_gradient {
  matrix<double> value, mean;
  matrix<float> variance;
  chain_state chain;
  std::vector<spread> common;  ///< {d}: of the sum over keys of the errors, without the casts
  spread common_of_all;        ///< of the sum over keys and columns

  key_gradient(std::int64_t keys, std::int64_t d, int shift) : value(keys, d), mean(keys, d), variance(keys, d), chain(keys, d), common(std::size_t(d)) { chain.restart(shift); }
};

/// The sum over the heads of a group, cast as the schedule does.
class group_gradient {
 public:
  group_gradient(std::int64_t keys, std::int64_t d) : keys_(keys), d_(d), value_(std::size_t(keys * d)), mean_(value_.size()), shared_(value_.size()), own_(value_.size()), common_(std::size_t(d)) {}

  /// @param cast  the head's part is rounded to BF16 before it is added
  void add(key_gradient const& g, double factor, bool cast) {
    int exponent = 0;
    const bool scaling_is_exact = std::frexp(factor, &exponent) == 0.5;
    for (std::size_t i = 0; i < value_.size(); ++i) {
      const double x = factor * g.value.data[i], of_scores = square(factor) * double(g.variance.data[i]);
      const double own = square(factor) * std::ldexp(double(g.chain.variance[i]), 2 * g.chain.shift) + (scaling_is_exact ? 0 : square(f32_ulp(x)) / 12);
      rounded_error e{factor * (g.mean.data[i] + std::ldexp(double(g.chain.mean[i]), g.chain.shift)), of_scores + own};
      if (cast) e = round_to_bf16(x, {e.mean, e.variance});
      own_[i].add({e.variance - e.jumps - (2 * e.gain - 1) * of_scores, e.jumps, e.fourth});
      value_[i] += x, mean_[i] += e.mean, shared_[i] += of_scores;
    }
    for (std::size_t c = 0; c < common_.size(); ++c) common_[c].add(g.common[c], factor);
    common_of_all_.add(g.common_of_all, factor);
  }

  /// @param alike  {s_k}: how many keys have the same gradient
  [[nodiscard]] expected_matrix finish(std::span<std::int64_t const> alike) const {
    expected_matrix m = empty_matrix(std::size_t(keys_), std::size_t(d_));
    double total = 0;
    spread of_all;
    for (std::int64_t c = 0; c < d_; ++c) {
      double sum = 0, squares = 0;
      spread width;
      for (std::int64_t j = 0; j < keys_; ++j) {
        const auto at = std::size_t(j * d_ + c);
        const double own = std::max(0.0, own_[at].smooth + own_[at].jumps);
        const rounded_error e = round_to_bf16(value_[at], {mean_[at], shared_[at] + own});
        m.mean[at] = e.mean, m.variance[at] = e.variance;
        sum += e.mean, squares += square(value_[at]);
        spread rest{e.variance - e.jumps - (2 * e.gain - 1) * (shared_[at] + own), e.jumps, e.fourth};
        rest.add(own_[at]);
        width.add(rest.shared_by(alike[std::size_t(j)]));
        m.by_row[std::size_t(j)].mean += e.mean / double(d_);
        m.by_row[std::size_t(j)].smooth += (e.variance - e.jumps) / square(double(d_));
        m.by_row[std::size_t(j)].jumps += e.jumps / square(double(d_));
        m.by_row[std::size_t(j)].fourth += e.fourth / square(square(double(d_)));
      }
      width.settle();
      of_all.add(width);
      total += sum;
      width.add(common_[std::size_t(c)]);
      m.by_column[std::size_t(c)] = mean_of(sum, width, double(keys_));
      m.by_column[std::size_t(c)].ulp = ulp_of_column(squares, sum, double(keys_));
    }
    of_all.add(common_of_all_);
    m.all = mean_of(total, of_all, double(keys_ * d_));
    return m;
  }

 private:
  std::int64_t keys_, d_;
  std::vector<double> value_, mean_, shared_;  ///< [s_k×d]; shared: variance that a column's elements have in common through dS or P
  std::vector<spread> own_;                    ///< [s_k×d]
  std::vector<spread> common_;                 ///< {d}
  spread common_of_all_;
};

/// One query head, band after band of rows.
class head_pass {
 public:
  head_pass(attention_schedule const& schedule, forecast_inputs const& in, std::size_t head, operand_forms const& k, operand_forms const& v, key_classes const& classes)
      : schedule_(schedule), in_(in), head_(head), k_(k), v_(v), classes_(classes), rows_(std::int64_t(in.q[head].rows)), keys_(k.values.rows), d_(k.values.columns), q_(in.q[head]),
        d_o_(in.d_o.empty() ? bf16_rows{in.q[head].data, 0, in.k.columns, in.q[head].stride} : in.d_o[head]),
        dk_(gradients() ? keys_ : 0, d_, gradient_shift(schedule, in) + q_.chain.shift), dv_(gradients() ? keys_ : 0, d_, d_o_.chain.shift) {}

  head_forecast run() {
    head_rows out(rows_, d_, gradients());
    band_matrices band(gradients() ? keys_ : 0, band_rows, gradient_shift(schedule_, in_));
#pragma omp parallel
    {
      const host::ieee_environment ieee;
      head_model model(schedule_, in_, head_, k_, v_, classes_);
      for (std::int64_t step = 0, bands = (rows_ + band_rows - 1) / band_rows; step < bands; ++step) {
        const std::int64_t first = (schedule_.backward.queries == query_order::descending ? bands - 1 - step : step) * band_rows, count = std::min(band_rows, rows_ - first);
#pragma omp for schedule(dynamic)
        for (std::int64_t r = 0; r < count; r += head_model::most_rows)
          model.take_rows(first + r, std::min(head_model::most_rows, count - r), alike_, out, gradients() ? &band : nullptr, r);
        if (!gradients()) continue;
#pragma omp for schedule(dynamic)
        for (std::int64_t j = 0; j < keys_; j += 16) take_keys(band, first, count, j, std::min<std::int64_t>(16, keys_ - j));
      }
    }
    return finish(out);
  }

  [[nodiscard]] key_gradient const& dk() const noexcept { return dk_; }
  [[nodiscard]] key_gradient const& dv() const noexcept { return dv_; }

 private:
  [[nodiscard]] bool gradients() const noexcept { return !in_.d_o.empty(); }

  void take_keys(band_matrices const& band, std::int64_t first, std::int64_t rows, std::int64_t key, std::int64_t count) {
    machine_unit const& unit = unit_named(schedule_.unit);
    const auto of = [&](auto const& m) { auto v = m.from(key, count); v.columns = rows; return v; };
    add_product(of(band.gradient), q_.values.from(first, rows), dk_.value.from(key, count));
    add_product(of(band.gradient_error), q_.values.from(first, rows), dk_.mean.from(key, count));
    add_product(of(band.gradient_variance), q_.squares.from(first, rows), dk_.variance.from(key, count));
    add_product(of(band.weight), d_o_.values.from(first, rows), dv_.value.from(key, count));
    add_product(of(band.weight_error), d_o_.values.from(first, rows), dv_.mean.from(key, count));
    add_product(of(band.weight_variance), d_o_.squares.from(first, rows), dv_.variance.from(key, count));
    add_chain_losses(unit, {band.gradient_chain, 0}, {q_.chain, first}, rows, key, count, dk_.chain);
    add_chain_losses(unit, {band.weight_chain, 0}, {d_o_.chain, first}, rows, key, count, dv_.chain);
  }

  head_forecast finish(head_rows& out) {
    std::size_t counted = 0;
    for (std::int64_t i = 0; i < rows_; ++i) {
      counted += visible_keys(in_.mask, std::size_t(i), std::size_t(rows_), std::size_t(keys_)) != 0;
      double of_q = 0, of_d_o = 0;
      for (std::int64_t c = 0; gradients() && c < d_; ++c) {
        of_q += q_.values.at(i, c), of_d_o += d_o_.values.at(i, c);
        dk_.common[std::size_t(c)].add(out.gradient_sums[std::size_t(i)].shared_by(alike_[std::size_t(i)]), q_.values.at(i, c));
        dv_.common[std::size_t(c)].add(out.weight_sums[std::size_t(i)], d_o_.values.at(i, c));
      }
      if (!gradients()) continue;
      dk_.common_of_all.add(out.gradient_sums[std::size_t(i)].shared_by(alike_[std::size_t(i)]), of_q);
      dv_.common_of_all.add(out.weight_sums[std::size_t(i)], of_d_o);
    }
    double squares = 0;
    for (double delta : out.delta_value) squares += square(delta);
    for (expected_mean& e : out.delta) e.ulp = f32_ulp_at_rms(squares, double(counted));
    return {matrix_of(out.o, rows_, d_, counted, alike_, std::move(out.o_rows)), matrix_of(out.dq, gradients() ? rows_ : 0, d_, counted, alike_, std::move(out.dq_rows)), std::move(out.delta),
            std::move(out.dp), std::move(out.ds)};
  }

  attention_schedule const& schedule_;
  forecast_inputs const& in_;
  std::size_t head_;
  operand_forms const &k_, &v_;
  key_classes const& classes_;
  std::int64_t rows_, keys_, d_;
  operand_forms q_, d_o_;
  std::vector<std::int64_t> alike_ = rows_alike(in_.q[head_]);
  key_gradient dk_, dv_;
};

}  // namespace

double expected_mean::standard_error() const noexcept { return std::sqrt(variance()); }

bool predicts_gradients(attention_schedule const& schedule) noexcept { return gradients_missing(schedule) == nullptr; }

forecast predict_bias(attention_schedule const& schedule, forecast_inputs const& in) {
  require_inputs(in);
  require_known(schedule, in);
  const host::ieee_environment ieee;
  const operand_forms k(in.k), v(in.v);
  const key_classes classes(in.k, v);
  const std::vector<std::int64_t> alike = rows_alike(in.k);
  const std::int64_t keys = k.values.rows, d = k.values.columns;
  forecast result;
  group_gradient dk(keys, d), dv(keys, d);
  const bool cast = schedule.backward.group == group_sum::bf16_outputs && in.q.size() > 1;
  for (std::size_t head = 0; head < in.q.size(); ++head) {
    head_pass pass(schedule, in, head, k, v, classes);
    result.heads.push_back(pass.run());
    if (in.d_o.empty()) continue;
    dk.add(pass.dk(), schedule.backward.scaled == scale_place::score_gradients ? 1 : in.softmax_scale, cast);
    dv.add(pass.dv(), 1, cast);
  }
  if (!in.d_o.empty()) {
    const std::vector<std::int64_t> apart(std::size_t(keys), 1);
    result.dk = dk.finish(apart);
    result.dv = dv.finish(alike);
  }
  return result;
}

}  // namespace stickybit
