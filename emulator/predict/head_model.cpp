#include "head_model.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <utility>

#include "rounded_value.hpp"
#include "stickybit/format/value.hpp"
#include "stickybit/machine/machine.hpp"

namespace stickybit::detail {
namespace {

/// The exponent of the largest number; 0 without one.
int largest_exponent(bf16_rows m) {
  double largest = 0;
  for (std::size_t i = 0; i < m.rows; ++i)
    for (bf16_code c : m.row(i)) largest = std::max(largest, std::fabs(to_double(c)));
  return largest == 0 ? 0 : std::ilogb(largest);
}

constexpr double ln2 = 0.6931471805599453;

}  // namespace

spread through_cast(spread const& before, rounded_error const& e) noexcept {
  // The cast adds an error of its own to what came in, steps and all; what it holds back shows as a negative share.
  const bool rare = before.jumps_are_rare();
  spread after{e.variance - e.jumps - (rare ? 0 : before.jumps), e.jumps + before.jumps, e.fourth + before.fourth};
  after.settle();
  return after;
}

operand_forms::operand_forms(bf16_rows m)
    : values(std::int64_t(m.rows), std::int64_t(m.columns)),
      transposed(std::int64_t(m.columns), std::int64_t(m.rows)),
      squares(values.rows, values.columns),
      fourths(values.rows, values.columns),
      chain(values.rows, values.columns),
      chain_transposed(values.columns, values.rows) {
  for (chain_operand* c : {&chain, &chain_transposed}) c->shift_by(largest_exponent(m));
  for (std::int64_t i = 0; i < values.rows; ++i)
    for (std::int64_t j = 0; j < values.columns; ++j) {
      const double x = to_double(m.row(std::size_t(i))[std::size_t(j)]);
      values.at(i, j) = transposed.at(j, i) = x;
      squares.at(i, j) = float(x * x);
      fourths.at(i, j) = float(x * x * x * x);
      chain.set(i, j, x);
      chain_transposed.set(j, i, x);
    }
}

std::vector<std::int64_t> first_alike(bf16_rows rows) {
  std::map<std::vector<std::uint16_t>, std::size_t> first_of;
  std::vector<std::int64_t> first(rows.rows);
  for (std::size_t i = 0; i < rows.rows; ++i) {
    std::vector<std::uint16_t> codes(rows.columns);
    std::ranges::transform(rows.row(i), codes.begin(), [](bf16_code c) { return c.to_bits(); });
    first[i] = std::int64_t(first_of.emplace(std::move(codes), i).first->second);
  }
  return first;
}

std::vector<std::int64_t> rows_alike(bf16_rows rows) {
  const std::vector<std::int64_t> first = first_alike(rows);
  std::vector<std::int64_t> size(rows.rows), count(rows.rows);
  for (std::int64_t i : first) ++size[std::size_t(i)];
  std::ranges::transform(first, count.begin(), [&](std::int64_t i) { return size[std::size_t(i)]; });
  return count;
}

attention_tile const* forward_tile(attention_schedule const& schedule, forecast_inputs const& in) noexcept {
  const bool split = in.key_parts > 1 && schedule.fixed_splits == 0;
  return tile_of(split ? schedule.split_tiles : schedule.forward_tiles, std::int64_t(in.k.columns), in.mask != mask_alignment::none);
}

key_classes::key_classes(bf16_rows k, operand_forms const& of_v) : first(first_alike(k)), size(k.rows), sums(of_v.values.rows, of_v.values.columns), squares(sums.rows, sums.columns), v(sums.rows, sums.columns) {
  for (std::size_t j = 0; j < k.rows; ++j) {
    ++size[std::size_t(first[j])];
    for (std::int64_t c = 0; c < v.columns; ++c) v.at(first[j], c) += of_v.values.at(std::int64_t(j), c);
  }
  for (std::int64_t j = 0; j < v.rows; ++j)
    for (std::int64_t c = 0; c < v.columns; ++c) {
      sums.at(j, c) = float(double(size[std::size_t(j)]) * v.at(j, c));
      squares.at(j, c) = float(square(v.at(j, c)));
    }
}

int gradient_shift(attention_schedule const& schedule, forecast_inputs const& in) {
  int shift = largest_exponent(in.v);
  int of_d_o = -1000;
  for (bf16_rows rows : in.d_o) of_d_o = std::max(of_d_o, largest_exponent(rows));
  return shift + of_d_o + (schedule.backward.scaled == scale_place::score_gradients ? std::ilogb(in.softmax_scale) : 0);
}

band_matrices::band_matrices(std::int64_t keys, std::int64_t rows, int shift)
    : weight(keys, rows), weight_error(keys, rows), gradient(keys, rows), gradient_error(keys, rows), weight_variance(keys, rows), gradient_variance(keys, rows), weight_chain(keys, rows), gradient_chain(keys, rows) {
  gradient_chain.shift_by(shift);
}

void band_matrices::clear_row(std::int64_t r) {
  for (std::int64_t j = 0; j < weight.rows; ++j) {
    weight.at(j, r) = weight_error.at(j, r) = gradient.at(j, r) = gradient_error.at(j, r) = 0;
    weight_variance.at(j, r) = gradient_variance.at(j, r) = 0;
    weight_chain.set(j, r, 0);
    gradient_chain.set(j, r, 0);
  }
}

head_model::head_model(attention_schedule const& schedule, forecast_inputs const& in, std::size_t head, operand_forms const& k, operand_forms const& v, key_classes const& classes)
    : schedule_(schedule),
      unit_(unit_named(schedule.unit)),
      in_(in),
      q_rows_(in.q[head]),
      d_o_rows_(in.d_o.empty() ? bf16_rows{} : in.d_o[head]),
      k_(k),
      v_(v),
      classes_(classes),
      keys_(k.values.rows),
      d_(k.values.columns),
      gradient_shift_(gradient_shift(schedule, in)),
      tile_(forward_tile(schedule, in)),
      backward_tile_(tile_of(schedule.backward_tiles, d_, in.mask != mask_alignment::none)),
      constants_(constants_of(schedule, in.softmax_scale)),
      q_(most_rows, d_), d_o_(most_rows, d_), passed_(2 * most_rows, d_), passed_v_(2 * most_rows, keys_),
      s_(most_rows, keys_), w_(most_rows, keys_), w_mean_(most_rows, keys_), w_square_(most_rows, keys_),
      dp_(most_rows, keys_), ds_(most_rows, keys_), errors_(most_rows, keys_), coupling_(most_rows, keys_),
      smooth_(most_rows, keys_), jumps_(most_rows, keys_), fourths_(most_rows, keys_),
      q_chain_(most_rows, d_), d_o_chain_(most_rows, d_), key_chain_(most_rows, keys_),
      s_state_(most_rows, keys_), dp_state_(most_rows, keys_), o_state_(most_rows, d_), part_state_(most_rows, d_),
      o_(most_rows, d_), o_mean_(most_rows, d_), own_o_(std::size_t(most_rows * d_)), together_(own_o_.size()), sums_(most_rows, d_), mean_sums_(most_rows, d_), coupled_(most_rows, d_), smooth_sums_(most_rows, d_), jump_sums_(most_rows, d_), fourth_sums_(most_rows, d_),
      spread_(most_rows, keys_), spread_v_(most_rows, d_), spread_vv_(most_rows, d_),
      v_sums_(std::size_t(keys_)),
      k_sums_(std::size_t(keys_)) {
  const std::int64_t block = tile_->key_columns, blocks = block == 0 ? 1 : (keys_ + block - 1) / block;
  weight_rules_ = {&schedule.rules, schedule.kind, in.softmax_scale, block, in.key_parts > 1 ? (blocks + in.key_parts - 1) / in.key_parts * block : 0};
  q_chain_.shift_by(largest_exponent(q_rows_));
  d_o_chain_.shift_by(in.d_o.empty() ? 0 : largest_exponent(d_o_rows_));
  for (std::int64_t j = 0; j < keys_; ++j)
    for (std::int64_t c = 0; c < d_; ++c) v_sums_[std::size_t(j)] += v_.values.at(j, c), k_sums_[std::size_t(j)] += k_.values.at(j, c);
}

void head_model::load(bf16_rows rows, matrix<double>& values, chain_operand& chain) const {
  for (std::int64_t r = 0; r < count_; ++r)
    for (std::int64_t c = 0; c < d_; ++c) {
      values.at(r, c) = to_double(rows.row(std::size_t(first_ + r))[std::size_t(c)]);
      chain.set(r, c, values.at(r, c));
    }
}

void head_model::take_rows(std::int64_t first, std::int64_t count, std::span<std::int64_t const> alike, head_rows& out, band_matrices* band, std::int64_t at) {
  first_ = first;
  count_ = count;
  load(q_rows_, q_, q_chain_);
  take_scores(alike);
  take_output(out);
  if (band == nullptr) return;
  load(d_o_rows_, d_o_, d_o_chain_);
  std::ranges::fill(dp_.data, 0.0);
  add_product(d_o_.first(count, d_), v_.transposed.from(0, d_), dp_.first(count, keys_));
  for (std::int64_t r = 0; r < count; ++r)
    for (std::int64_t c = 0; c < d_; ++c) passed_.at(most_rows + r, c) = passed_.at(r, c) * d_o_.at(r, c);
  std::fill(passed_v_.data.begin() + most_rows * keys_, passed_v_.data.end(), 0.0);
  add_product(passed_.from(most_rows, count), v_.transposed.from(0, d_), passed_v_.from(most_rows, count));
  dp_state_.restart(d_o_chain_.shift + v_.chain.shift);
  add_chain_losses(unit_, {d_o_chain_, 0}, {v_.chain_transposed, 0}, d_, 0, count, dp_state_);
  for (std::int64_t r = 0; r < count; ++r) {
    band->clear_row(at + r);
    if (visible_[r] == 0) {
      for (std::vector<double>* m : {&ds_.data, &errors_.data, &coupling_.data}) std::fill_n(m->begin() + r * keys_, keys_, 0.0);
      for (matrix<float>* m : {&smooth_, &jumps_, &fourths_}) std::fill_n(m->data.begin() + r * keys_, keys_, 0.0f);
      continue;
    }
    take_delta(r, out);
    take_weights(r, out, *band, at + r);
    take_score_gradients(r, out, *band, at + r);
  }
  take_query_gradients(out);
}

void head_model::take_scores(std::span<std::int64_t const> alike) {
  std::ranges::fill(s_.data, 0.0);
  add_product(q_.first(count_, d_), k_.transposed.from(0, d_), s_.first(count_, keys_));
  s_state_.restart(q_chain_.shift + k_.chain.shift);
  add_chain_losses(unit_, {q_chain_, 0}, {k_.chain_transposed, 0}, d_, 0, count_, s_state_);
  for (std::int64_t r = 0; r < count_; ++r) {
    const std::int64_t i = first_ + r;
    visible_[r] = std::int64_t(visible_keys(in_.mask, std::size_t(i), q_rows_.rows, std::size_t(keys_)));
    const std::int64_t n = visible_[r];
    for (matrix<double>* m : {&w_, &w_mean_, &w_square_}) std::fill_n(m->data.begin() + r * keys_, keys_, 0.0);
    if (n == 0) continue;
    row_[r] = cast_weights(weight_rules_, s_.row(r, n), classes_.size, alike[std::size_t(i)] > 1, w_.row(r, n), w_mean_.row(r, n), w_square_.row(r, n));
    // The sum of a kernel with two sums, and that of scattered errors, is left out of what is random.
    centred_[r] = row_[r].casts == cast_errors::scattered || schedule_.kind == schedule_kind::eager || schedule_.rules.summed != sum_of::fp32_weights ? 1 : 0;
    sum_variance_[r] = double(n) / 36 * square(f32_ulp(row_[r].sum / 4) / row_[r].sum);
    ones_[r].clear();
    const double argument = in_.softmax_scale * row_[r].largest / ln2;
    residual_variance_[r] = leaves_residual(schedule_.rules.exponent) ? square(f32_ulp(argument) * ln2) / 12 : 0;
    for (std::int64_t j = 0; j < n; ++j)
      if (s_.at(r, j) == row_[r].largest) ones_[r].push_back(j);
    const double roundings = roundings_of_scaled_score(schedule_.rules.exponent);
    // Errors of S, less what all scores of the row share: weight j errs by w_j s (e_j − Σ p e).
    const double unit_of_s = std::ldexp(in_.softmax_scale, s_state_.shift);
    double drift = 0;
    for (std::int64_t j = 0; j < n; ++j) drift += w_.at(r, j) * double(s_state_.mean[std::size_t(r * keys_ + j)]);
    s_drift_[r] = drift *= unit_of_s / row_[r].sum;
    for (std::int64_t j = 0; j < n; ++j) {
      const auto place = std::size_t(r * keys_ + j);
      w_mean_.at(r, j) += w_.at(r, j) * (unit_of_s * double(s_state_.mean[place]) - drift);
      const double scaled = s_.at(r, j) == row_[r].largest ? 0 : roundings * square(f32_ulp(s_.at(r, j) * in_.softmax_scale / ln2) * ln2) / 12;
      w_square_.at(r, j) += square(w_.at(r, j)) * (square(unit_of_s) * double(s_state_.variance[place]) + scaled);
    }
  }
}

/// The chain over keys of every row: key_chain_ times b, block after block of keys. `parts`: each block is a chain of its own, and the
/// parts are added in FP32.
void head_model::chain_over_keys(chain_operand const& b, std::int64_t block, bool descending, bool parts, chain_state& state) {
  const std::int64_t width = block == 0 ? keys_ : block, blocks = (keys_ + width - 1) / width;
  for (std::int64_t step = 0; step < blocks; ++step) {
    const std::int64_t at = (descending ? blocks - 1 - step : step) * width;
    chain_state& of_block = parts ? part_state_ : state;
    if (parts) of_block.restart(state.shift);
    add_chain_losses(unit_, {key_chain_, at}, {b, at}, std::min(width, keys_ - at), 0, count_, of_block);
    for (std::size_t i = 0; parts && i < state.sum.size(); ++i) {
      state.sum[i] += of_block.sum[i];
      state.mean[i] += of_block.mean[i];
      state.variance[i] += of_block.variance[i] + float(step == 0 ? 0 : square(f32_ulp(double(state.sum[i]))) / 12);
    }
  }
}

void head_model::take_output(head_rows& out) {
  for (matrix<double>* m : {&o_, &o_mean_}) std::ranges::fill(m->data, 0.0);
  for (matrix<float>* m : {&spread_v_, &spread_vv_}) std::ranges::fill(m->data, 0.0f);
  key_chain_.shift_by(0);
  for (std::int64_t r = 0; r < count_; ++r)
    for (std::int64_t j = 0; j < keys_; ++j) {
      key_chain_.set(r, j, bf16_of_double(w_.at(r, j)));
      spread_.at(r, j) = float(classes_.size[std::size_t(j)] == 0 ? 0 : w_square_.at(r, j));
    }
  add_product(w_.first(count_, keys_), v_.values.from(0, keys_), o_.first(count_, d_));
  add_product(w_mean_.first(count_, keys_), v_.values.from(0, keys_), o_mean_.first(count_, d_));
  add_product(std::as_const(spread_).first(count_, keys_), classes_.sums.from(0, keys_), spread_v_.first(count_, d_));
  add_product(std::as_const(spread_).first(count_, keys_), classes_.squares.from(0, keys_), spread_vv_.first(count_, d_));
  o_state_.restart(v_.chain.shift);
  chain_over_keys(v_.chain, tile_->key_columns, schedule_.rules.order == block_order::descending, false, o_state_);
  std::ranges::fill(passed_.data, 0.0);
  for (std::int64_t r = 0; r < count_; ++r) finish_output(r, out);
  std::ranges::fill(passed_v_.data, 0.0);
  add_product(passed_.first(count_, d_), v_.transposed.from(0, d_), passed_v_.first(count_, keys_));
  for (std::int64_t r = 0; r < count_; ++r)
    if (visible_[r] != 0) finish_output_row(r, out);
}

/// O of row r: what its division and its cast make of the numerator's errors.
void head_model::finish_output(std::int64_t r, head_rows& out) {
  const std::int64_t i = first_ + r;
  if (visible_[r] == 0) return;
  const double sum = row_[r].sum;
  double all = 0, mass = 0, steps = 0, squares_of_ulps = 0;
  for (std::int64_t j = 0; j < visible_[r]; ++j) all += w_square_.at(r, j) * square(double(classes_.size[std::size_t(j)])), mass += w_mean_.at(r, j);
  const bool numerators_too = schedule_.rules.summed != sum_of::fp32_weights;
  // FP32 on the way: the division, the row sum. None where the weights are 1 and their number a power of two.
  const bool ones_alone = std::has_single_bit(ones_[r].size()) && sum - double(ones_[r].size()) < 0x1p-30;
  for (std::int64_t c = 0; c < d_; ++c) {
    const auto place = std::size_t(r * d_ + c), at = std::size_t(i * d_ + c);
    const double o = o_.at(r, c) /= sum, lost = std::ldexp(double(o_state_.mean[place]), o_state_.shift), lost_variance = std::ldexp(double(o_state_.variance[place]), 2 * o_state_.shift);
    o_mean_.at(r, c) = (o_mean_.at(r, c) + lost - (numerators_too ? mass * o : 0)) / sum;
    double of_ones = 0;
    for (std::int64_t j : ones_[r]) of_ones += v_.values.at(j, c);
    const double of_residual = square(of_ones / sum) * residual_variance_[r];
    const double of_weights = std::max(0.0, double(spread_vv_.at(r, c)) - centred_[r] * (2 * o * double(spread_v_.at(r, c)) - o * o * all)) / square(sum) + of_residual;
    const rounded_error e = cast_output(o, sum, {o_mean_.at(r, c), of_weights + lost_variance / square(sum) + (ones_alone ? 0 : square(f32_ulp(o)) / 4 + square(o) * sum_variance_[r])});
    out.o.value[at] = o;
    out.o.mean[at] = e.mean;
    out.o.width[at] = {e.variance - e.jumps, e.jumps, e.fourth};
    own_o_[place] = {e.variance - e.jumps - square(e.gain) * of_weights, e.jumps, e.fourth};
    together_[place] = 0;
    passed_.at(r, c) = e.gain;
    if (e.jumps == 0 || 2 * of_residual < of_weights) continue;
    // The row's residual decides here, and decides all columns at once.
    own_o_[place] = {};
    passed_.at(r, c) = 0;
    together_[place] = std::copysign(std::sqrt(e.variance), -of_ones);
    steps += e.variance, squares_of_ulps += square(bf16_ulp(o));
  }
  together_chance_[r] = steps == 0 ? 1 : std::min(1.0, steps / squares_of_ulps);
}

/// The spread of Σ_c factor_c · error of O_c.
/// @param passed_v  {s_k}: Σ_c factor_c · gain_c · V_jc
spread head_model::weighted_output(std::int64_t r, std::span<double const> factors, std::span<double const> passed_v) const {
  const double sum = row_[r].sum;
  double ones = 0, of_o = 0, shared = 0, together = 0;
  spread width;
  for (std::int64_t c = 0; c < d_; ++c) {
    const double factor = factors[std::size_t(c)];
    width.add(own_o_[std::size_t(r * d_ + c)], factor);
    of_o += factor * passed_.at(r, c) * o_.at(r, c);
    together += factor * together_[std::size_t(r * d_ + c)];
  }
  width.settle();
  of_o *= centred_[r];
  class_sums_.assign(std::size_t(visible_[r]), 0.0);
  for (std::int64_t j = 0; j < visible_[r]; ++j) class_sums_[std::size_t(classes_.first[std::size_t(j)])] += passed_v[std::size_t(j)] - of_o;
  for (std::int64_t j = 0; j < visible_[r]; ++j) shared += w_square_.at(r, j) * square(class_sums_[std::size_t(j)]);
  for (std::int64_t j : ones_[r]) ones += passed_v[std::size_t(j)];
  width.smooth += (shared + square(ones) * residual_variance_[r]) / square(sum);
  width.jumps += square(together);
  width.fourth += square(square(together)) / together_chance_[r];
  return width;
}

void head_model::finish_output_row(std::int64_t r, head_rows& out) {
  double mean = 0;
  for (std::int64_t c = 0; c < d_; ++c) mean += out.o.mean[std::size_t((first_ + r) * d_ + c)];
  const std::vector<double> ones(static_cast<std::size_t>(d_), 1.0);
  out.o_rows[std::size_t(first_ + r)] = mean_of(mean, weighted_output(r, ones, passed_v_.row(r, keys_)), double(d_));
}

/// To BF16: once, or before the division and after it.
rounded_error head_model::cast_output(double o, double sum, expected_error before) const {
  if (schedule_.kind == schedule_kind::eager || schedule_.rules.output == output_form::divide_then_round) return round_to_bf16(o, before);
  const rounded_error first = round_to_bf16(o * sum, {before.mean * sum, before.variance * square(sum)});
  rounded_error second = round_to_bf16(o, {first.mean / sum, first.variance / square(sum)});
  second.gain *= first.gain;
  return second;
}

}  // namespace stickybit::detail
