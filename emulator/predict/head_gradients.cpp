#include <algorithm>
#include <cmath>
#include <span>

#include "head_model.hpp"
#include "rounded_value.hpp"
#include "summation_noise.hpp"

// The backward half of the model: delta, P as dV meets it, dP, dS, dQ.

namespace stickybit::detail {
namespace {

constexpr double log2_e = 1.4426950408889634;

/// A row of dO meets all keys with the same low bits, so what its chains lose differs from the expected loss by a share of its own.
/// Standard deviation, in units of the expected loss.  @source measured: 4096 rows of one-signed dP against the emulator
constexpr double chain_doubt = 0.07;

}  // namespace

/// The error of delta: of O, and of its own sum.
void head_model::take_delta(std::int64_t r, head_rows& out) {
  const std::int64_t i = first_ + r;
  const double sum = row_[r].sum;
  double delta = 0, mean = 0;
  for (std::int64_t c = 0; c < d_; ++c) delta += d_o_.at(r, c) * o_.at(r, c);
  delta_[r] = out.delta_value[std::size_t(i)] = delta;
  const bool cast = schedule_.backward.delta_from == delta_source::bf16_output;
  spread width;
  for (std::int64_t c = 0; c < d_; ++c) mean += d_o_.at(r, c) * (cast ? out.o.mean[std::size_t(i * d_ + c)] : o_mean_.at(r, c));
  if (cast) width = weighted_output(r, d_o_.row(r, d_), passed_v_.row(most_rows + r, keys_));
  for (std::int64_t j = 0; !cast && j < visible_[r]; ++j) width.smooth += w_square_.at(r, j) * square((dp_.at(r, j) - centred_[r] * delta) / sum);
  double of_ones = 0;
  for (std::int64_t j : ones_[r]) of_ones += dp_.at(r, j);
  if (!cast) width.smooth += square(of_ones / sum) * residual_variance_[r];
  for (std::int64_t c = 0; !cast && c < d_; ++c) width.smooth += square(d_o_.at(r, c) * f32_ulp(o_.at(r, c))) / 4;
  const delta_lanes lanes = lanes_of(schedule_.backward.delta, d_);
  std::vector<rounded_sum> partial(static_cast<std::size_t>(lanes.lanes));
  for (std::int64_t c = 0; c < d_; ++c) partial[std::size_t(c % lanes.period / lanes.run)].add(d_o_.at(r, c) * bf16_of_double(o_.at(r, c)));
  for (std::size_t half = partial.size() / 2; half != 0; half /= 2)
    for (std::size_t lane = 0; lane < half; ++lane) partial[lane].add(partial[lane + half]);
  width.smooth += partial[0].variance();
  delta_mean_[r] = mean;
  delta_spread_[r] = width;
  out.delta[std::size_t(i)] = mean_of(mean, width, 1);
}

/// P as dV meets it.
void head_model::take_weights(std::int64_t r, head_rows& out, band_matrices& band, std::int64_t at) {
  const std::int64_t n = visible_[r];
  thread_local std::vector<double> p, casts, mean, squares;
  p.resize(std::size_t(n)), casts.resize(std::size_t(n)), mean.resize(std::size_t(n)), squares.resize(std::size_t(n));
  for (std::int64_t j = 0; j < n; ++j) {
    p[std::size_t(j)] = w_.at(r, j) / row_[r].sum;
    casts[std::size_t(j)] = bf16_of_double(p[std::size_t(j)]) - p[std::size_t(j)];
  }
  const cast_errors kind = split_cast_errors(p, casts, classes_.size, row_[r].casts == cast_errors::known, false, mean, squares);
  const bool known = kind == cast_errors::known;
  // All weights of the row are stretched alike by the roundings of the stored lse, and by the kernel's constants.
  const double lse = row_[r].lse;
  stretch_variance_[r] = (square(f32_ulp(lse)) + (constants_.lse_rounded_twice ? square(f32_ulp(lse * log2_e) / log2_e) : 0)) / 12 + sum_variance_[r];
  const double of_sum = std::log(row_[r].sum);
  stretch_mean_[r] = row_[r].largest * (constants_.score_to_natural - constants_.max_to_lse * constants_.lse_to_natural) - of_sum * (constants_.lse_to_natural - 1) ;
  const double unit_of_s = std::ldexp(in_.softmax_scale, s_state_.shift), stretch = stretch_variance_[r];
  spread& total = out.weight_sums[std::size_t(first_ + r)];
  double stretched = 0;
  for (std::int64_t j = 0; j < n; ++j) {
    const auto place = std::size_t(j), in_s = std::size_t(r * keys_ + j);
    const double x = p[place], relative = unit_of_s * double(s_state_.mean[in_s]) - s_drift_[r] + stretch_mean_[r], argument = std::log(std::max(x, 1e-300)) * log2_e;
    const double own = square(unit_of_s) * double(s_state_.variance[in_s]) + ((1 + constants_.argument_roundings) * square(f32_ulp(argument) / log2_e) + constants_.score_roundings * square(f32_ulp(s_.at(r, j) * in_.softmax_scale * log2_e) / log2_e)) / 12 + square(0x1p-24);
    // Where the cast is taken as it falls, what comes before it shows only where it crosses a midpoint.
    rounded_error e{mean[place] + x * relative, squares[place] + x * x * (own + stretch)};
    if (known) e = round_to_bf16(x, {x * relative, x * x * (own + stretch)});
    band.weight.at(j, at) = x;
    band.weight_error.at(j, at) = e.mean;
    band.weight_variance.at(j, at) = float(e.variance);
    band.weight_chain.set(j, at, bf16_of_double(x));
    // For dS, which meets P before its cast.
    errors_.at(r, j) = relative;
    smooth_.at(r, j) = float(own);
    if (schedule_.backward.gradient == score_gradient::from_bf16_weights && x > 0) {
      errors_.at(r, j) += mean[place] / x;
      smooth_.at(r, j) += float(squares[place] / square(x));
    }
    stretched += e.gain * x;
    if (known) total.add({e.variance - e.jumps - square(e.gain * x) * stretch, e.jumps, e.fourth});
    else total.smooth += x * x * own + (kind == cast_errors::free ? squares[place] : 0);
  }
  total.settle();
  total.smooth += square(stretched) * stretch;
}

void head_model::take_score_gradients(std::int64_t r, head_rows& out, band_matrices& band, std::int64_t at) {
  const auto i = std::size_t(first_ + r);
  const std::int64_t n = visible_[r];
  const double factor = schedule_.backward.scaled == scale_place::score_gradients ? in_.softmax_scale : 1, unit_of_dp = std::ldexp(1.0, dp_state_.shift);
  for (matrix<double>* m : {&ds_, &coupling_}) std::fill_n(m->data.begin() + r * keys_, keys_, 0.0);
  std::fill(errors_.data.begin() + r * keys_ + n, errors_.data.begin() + (r + 1) * keys_, 0.0);
  for (matrix<float>* m : {&smooth_, &jumps_, &fourths_}) std::fill(m->data.begin() + r * keys_ + n, m->data.begin() + (r + 1) * keys_, 0.0f);
  // Differences from the dP of the heaviest key: in a nearly one-hot row delta and its dP agree in almost all digits.
  const auto weights = w_.row(r, n);
  const double of_heaviest = dp_.at(r, std::ranges::max_element(weights) - weights.begin());
  double mean_difference = 0;
  for (std::int64_t j = 0; j < n; ++j) mean_difference += w_.at(r, j) * (dp_.at(r, j) - of_heaviest);
  mean_difference /= row_[r].sum;
  double dp_squares = 0, ds_squares = 0, dp_sum = 0, sum = 0, coupling = 0, stretch = 0;
  spread of_dp_sum, of_sum;
  const double of_delta = delta_spread_[r].variance();
  for (std::int64_t j = 0; j < n; ++j) {
    const auto place = std::size_t(r * keys_ + j);
    const double p = w_.at(r, j) / row_[r].sum, difference = dp_.at(r, j) - of_heaviest - mean_difference, ds = factor * p * difference, by_delta = -factor * p;
    const expected_error of_dp{unit_of_dp * double(dp_state_.mean[place]), square(unit_of_dp) * double(dp_state_.variance[place])};
    dp_squares += square(dp_.at(r, j)), ds_squares += square(ds);
    dp_sum += of_dp.mean, of_dp_sum.smooth += of_dp.variance;
    const double own = square(factor * p) * (of_dp.variance + square(f32_ulp(difference)) / 12) + square(ds) * double(smooth_.at(r, j)) + square(f32_ulp(ds)) / 12;
    const double of_row = square(by_delta) * of_delta + square(ds) * stretch_variance_[r];
    const rounded_error e = round_to_bf16(ds, {ds * errors_.at(r, j) + factor * p * (of_dp.mean - delta_mean_[r]), own + of_row});
    spread rest{e.variance - e.jumps - square(e.gain) * of_row, e.jumps, e.fourth};
    rest.settle();
    ds_.at(r, j) = ds, errors_.at(r, j) = e.mean, coupling_.at(r, j) = e.gain * by_delta;
    smooth_.at(r, j) = float(rest.smooth), jumps_.at(r, j) = float(rest.jumps), fourths_.at(r, j) = float(rest.fourth);
    coupling += e.gain * by_delta, stretch += e.gain * ds, sum += e.mean;
    of_sum.add(rest);
    band.gradient.at(j, at) = ds;
    band.gradient_error.at(j, at) = e.mean;
    band.gradient_variance.at(j, at) = float(e.variance);
    band.gradient_chain.set(j, at, bf16_of_double(ds + e.mean));
  }
  of_sum.settle();
  of_sum.smooth += square(stretch) * stretch_variance_[r];
  of_sum.add(delta_spread_[r], coupling);
  out.gradient_sums[i] = of_sum;
  of_dp_sum.smooth += square(chain_doubt * dp_sum);
  out.dp[i] = mean_of(dp_sum, of_dp_sum, double(n));
  out.ds[i] = mean_of(sum, of_sum, double(n));
  out.dp[i].ulp = f32_ulp_at_rms(dp_squares, double(n));
  out.ds[i].ulp = bf16_ulp_at_rms(ds_squares, double(n));
}

void head_model::take_query_gradients(head_rows& out) {
  for (matrix<double>* m : {&sums_, &mean_sums_, &coupled_}) std::ranges::fill(m->data, 0.0);
  for (matrix<float>* m : {&smooth_sums_, &jump_sums_, &fourth_sums_}) std::ranges::fill(m->data, 0.0f);
  key_chain_.shift_by(gradient_shift_);
  for (std::int64_t r = 0; r < count_; ++r)
    for (std::int64_t j = 0; j < keys_; ++j) key_chain_.set(r, j, bf16_of_double(ds_.at(r, j) + errors_.at(r, j)));
  const auto k = k_.values.from(0, keys_);
  add_product(ds_.first(count_, keys_), k, sums_.first(count_, d_));
  add_product(errors_.first(count_, keys_), k, mean_sums_.first(count_, d_));
  add_product(coupling_.first(count_, keys_), k, coupled_.first(count_, d_));
  add_product(smooth_.first(count_, keys_), k_.squares.from(0, keys_), smooth_sums_.first(count_, d_));
  add_product(jumps_.first(count_, keys_), k_.squares.from(0, keys_), jump_sums_.first(count_, d_));
  add_product(fourths_.first(count_, keys_), k_.fourths.from(0, keys_), fourth_sums_.first(count_, d_));
  o_state_.restart(key_chain_.shift + k_.chain.shift);
  const dq_sum order = schedule_.backward.dq;
  const bool descending = order == dq_sum::descending || (order == dq_sum::causal_descending && in_.mask != mask_alignment::none);
  chain_over_keys(k_.chain, order == dq_sum::one_chain ? 0 : backward_tile_->key_columns, descending, order != dq_sum::one_chain, o_state_);
  for (std::int64_t r = 0; r < count_; ++r)
    if (visible_[r] != 0) finish_query_gradient(r, out);
}

void head_model::finish_query_gradient(std::int64_t r, head_rows& out) {
  const std::int64_t i = first_ + r;
  const double factor = schedule_.backward.scaled == scale_place::score_gradients ? 1 : in_.softmax_scale;
  double row_mean = 0, coupled = 0, sum = 0;
  spread of_row, of_scores;
  for (std::int64_t c = 0; c < d_; ++c) {
    const auto place = std::size_t(r * d_ + c), at = std::size_t(i * d_ + c);
    const double dq = factor * sums_.at(r, c);
    spread before{double(smooth_sums_.at(r, c)), double(jump_sums_.at(r, c)), double(fourth_sums_.at(r, c))};
    before.settle();
    before.smooth += square(sums_.at(r, c)) * stretch_variance_[r];
    before.add(delta_spread_[r], coupled_.at(r, c));
    spread scaled;
    scaled.add(before, factor);
    const double lost = std::ldexp(double(o_state_.mean[place]), o_state_.shift), lost_variance = std::ldexp(double(o_state_.variance[place]), 2 * o_state_.shift);
    const rounded_error e = round_to_bf16(dq, {factor * (mean_sums_.at(r, c) + lost), scaled.variance() + square(factor) * lost_variance + square(f32_ulp(dq)) / 12});
    out.dq.value[at] = dq;
    out.dq.mean[at] = e.mean;
    out.dq.width[at] = through_cast(scaled, e);
    row_mean += e.mean;
    of_row.add({e.variance - e.jumps - (2 * e.gain - 1) * scaled.variance(), e.jumps, e.fourth});
    coupled += coupled_.at(r, c), sum += sums_.at(r, c);
  }
  for (std::int64_t j = 0; j < visible_[r]; ++j)
    of_scores.add({double(smooth_.at(r, j)), double(jumps_.at(r, j)), double(fourths_.at(r, j))}, k_sums_[std::size_t(j)]);
  of_scores.settle();
  of_scores.smooth += square(sum) * stretch_variance_[r];
  of_scores.add(delta_spread_[r], coupled);
  of_row.settle();
  of_row.add(of_scores, factor);
  out.dq_rows[std::size_t(i)] = mean_of(row_mean, of_row, double(d_));
}

}  // namespace stickybit::detail
