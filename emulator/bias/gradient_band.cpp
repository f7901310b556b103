#include "gradient_band.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "stickybit/format/value.hpp"

namespace stickybit::detail {
namespace {

/// A tile; where it has all rows, parts of it.
std::int64_t rows_of_band(backward_plan const& plan) noexcept {
  constexpr std::int64_t most = 128;
  const bool whole = plan.tile.query_rows >= plan.queries;
  return whole ? std::min<std::int64_t>(plan.tile.query_rows, most) : plan.tile.query_rows;
}

bool takes_natural_lse(weight_form f) noexcept { return f != weight_form::fused && f != weight_form::scaled_difference; }

bf16_code code_of_bf16(double x) noexcept { return bf16_code::from_bits(std::uint16_t(std::bit_cast<std::uint32_t>(static_cast<float>(x)) >> 16)); }

}  // namespace

head_products::head_products(score_plan const& sets, std::size_t key_elements) : dk(sets.dk.size()), dv(sets.dv.size()), weighted_queries(key_elements) {
  const auto make_room = [&](std::vector<score_product> const& products, std::vector<key_sums>& sums) {
    for (std::size_t i = 0; i < sums.size(); ++i) {
      if (products[i].kind == product_kind::chain) sums[i].codes.assign(key_elements, f32_code::zero());
      else if (products[i].kind != product_kind::nothing) sums[i].wide.assign(key_elements, 0.0);
    }
  };
  make_room(sets.dk, dk);
  make_room(sets.dv, dv);
}

band_worker::band_worker(gradient_call const& call, score_plan const& sets)
    : kernel(kernel_scores::make(call.plan, call.how)), variants(call.plan, sets, call.problem.softmax_scale), product(*call.plan.unit, call.how) {}

gradient_band::gradient_band(gradient_call const& call, score_plan const& sets, key_head_operands const& keys, query_head_operands const& queries,
                             std::int64_t b, std::int64_t head, head_products& products)
    : call_(call), plan_(call.plan), rules_(*call.plan.rules), sets_(sets), keys_(keys), queries_(queries), b_(b), head_(head), d_(call.problem.head_dim),
      most_rows_(rows_of_band(call.plan)), stride_(std::min<std::int64_t>(call.plan.tile.key_columns, call.problem.keys)),
      products_(products), exact_(call.reference.values(b, head)), scalars_(call.plan.rules->scalars == subnormals::flushed),
      additions_(call.plan.rules->dq_additions == subnormals::flushed), delta_(std::size_t(call.problem.queries)), lse_(delta_.size()), ds_(sets.ds.size()),
      p_(sets.p.size()), dq_(sets.dq.size()) {
  const auto elements = std::size_t(most_rows_ * stride_), outputs = std::size_t(most_rows_ * d_);
  const auto make_room = [&](std::vector<score_operand> const& wanted, std::vector<operand_block>& blocks) {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      if (wanted[i].difference) blocks[i].difference.resize(elements);
      if (wanted[i].value) blocks[i].value.resize(elements);
      if (wanted[i].codes) blocks[i].codes.resize(elements), blocks[i].by_key.resize(elements);
    }
  };
  make_room(sets.ds, ds_);
  make_room(sets.p, p_);
  exact_weights_.resize(elements);
  for (std::size_t i = 0; i < dq_.size(); ++i) {
    if (sets.dq[i].rounded_sum) dq_[i].rounded.resize(std::size_t(plan_.dq_buffers) * outputs);
    if (sets.dq[i].exact_sum) dq_[i].exact.resize(outputs);
  }
  weighted_keys_.resize(outputs);
  for (std::int64_t row = 0; row < call.problem.queries; ++row) {
    const std::size_t at = call.row_index(b, head, row);
    const f32_code lse = call.forward.lse[at];
    lse_[std::size_t(row)] = !takes_natural_lse(rules_.weight) ? call.kernel.lse_log2[at] : lse == f32_code::infinity(true) ? f32_code::zero() : lse;
  }
}

void gradient_band::take_delta(std::int64_t row, gradient_error_sink& sink) {
  attention_problem const& p = call_.problem;
  const auto at = std::size_t(p.query_strides().offset(b_, head_, row)), d = std::size_t(d_), r = std::size_t(row);
  const auto o_f32 = call_.forward.o_f32.empty() ? std::span<f32_code const>{} : std::span(call_.forward.o_f32).subspan(at, d);
  delta_values& of = delta_[r];
  of = delta_of_row(plan_, std::span(p.d_o).subspan(at, d), std::span(call_.forward.o).subspan(at, d), o_f32,
                    std::span(call_.reference.output(b_, head_)).subspan(r * d, d), exact_.delta[r], call_.kernel.delta[call_.row_index(b_, head_, row)]);
  std::array<double, 4> errors = of.error;
  if (exact_.without_keys[r] != 0) errors.fill(std::numeric_limits<double>::quiet_NaN());
  sink.take_delta(b_, head_, row, errors);
}

void gradient_band::begin(std::int64_t first_row) {
  first_row_ = first_row;
  rows_ = std::min(most_rows_, call_.problem.queries - first_row);
  for (dq_sums& sums : dq_) {
    std::ranges::fill(sums.rounded, 0.0);
    std::ranges::fill(sums.exact, 0.0);
  }
  std::ranges::fill(weighted_keys_, 0.0);
}

void gradient_band::begin_block(std::int64_t block) {
  block_ = block;
  columns_ = plan_.columns_of(block);
}

void gradient_band::take_rows(band_worker& worker, std::int64_t task, gradient_error_sink& sink) {
  attention_problem const& p = call_.problem;
  const std::int64_t i = task * rows_together, count = std::min(rows_together, rows_ - i), row = first_row_ + i;
  const auto operand = [&](std::vector<bf16_code> const& m) {
    return matrix_rows<bf16_code const>(m.data() + p.query_strides().offset(b_, head_, row), count, d_, p.query_strides().row);
  };
  const std::span<f32_code const> lse = std::span(lse_).subspan(std::size_t(row), std::size_t(count));
  const std::span<f32_code const> delta = std::span(call_.kernel.delta).subspan(call_.row_index(b_, head_, row), std::size_t(count));
  worker.kernel->take(keys_.panels, {row, operand(p.q), operand(p.d_o), lse, delta}, block_);
  for (std::int64_t r = 0; r < count; ++r) take_row(worker, i + r, std::size_t(r), sink);
}

void gradient_band::take_row(band_worker& worker, std::int64_t i, std::size_t in_worker, gradient_error_sink& sink) {
  const std::int64_t row = first_row_ + i, first = block_ * plan_.tile.key_columns;
  const auto n = std::size_t(worker.kernel->visible(in_worker)), r = std::size_t(row);
  for (std::vector<double_double>* x : {&worker.exact_s, &worker.exact_p, &worker.exact_dp, &worker.exact_ds}) x->resize(n);
  if (n != 0) {
    const auto q = std::span(call_.problem.q).subspan(std::size_t(call_.problem.query_strides().offset(b_, head_, row)), std::size_t(d_));
    keys_.exact_scores.evaluate(q, std::size_t(first), worker.exact_s);
    call_.reference.gradients(b_, head_).evaluate_keys(r, exact_.rows[r], std::size_t(first), worker.exact_p, worker.exact_dp, worker.exact_ds);
  }
  const f32_code stored_lse = call_.forward.lse[call_.row_index(b_, head_, row)];
  const double lse = stored_lse == f32_code::infinity(true) ? 0.0 : to_double(stored_lse);  // as the backward pass reads it
  kernel_scores const& k = *worker.kernel;
  worker.variants.take({k.s(in_worker).first(n), k.p(in_worker).first(n), k.dp(in_worker).first(n), k.p_cast(in_worker).first(n), k.ds(in_worker).first(n),
                        worker.exact_s, worker.exact_p, worker.exact_dp, worker.exact_ds, lse, exact_.rows[r].lse, delta_[r]});
  score_variants const& v = worker.variants;
  for (std::size_t o = 0; o < ds_.size(); ++o) keep(sets_.ds[o], ds_[o], i, v.ds(o), v.exact_ds());
  for (std::size_t o = 0; o < p_.size(); ++o) keep(sets_.p[o], p_[o], i, v.p(o), v.exact_p());
  const auto weights = std::span(exact_weights_).subspan(std::size_t(i * stride_), std::size_t(columns_));
  std::ranges::fill(std::ranges::copy(v.exact_p(), weights.begin()).out, weights.end(), 0.0);
  if (n == 0) return;
  std::vector<double> dp(n);
  std::transform(worker.exact_dp.begin(), worker.exact_dp.end(), dp.begin(), [](double_double x) { return x.hi; });
  worker.errors.resize(sets_.ds_uses.size() * n);
  for (std::size_t use = 0; use < sets_.ds_uses.size(); ++use)
    for (std::size_t j = 0; j < n; ++j) worker.errors[use * n + j] = v.ds(sets_.ds_uses[use])[j] - v.exact_ds()[j];
  sink.take_scores({b_, head_, row, first, v.exact_p(), dp, v.exact_ds(), v.dp_error(), worker.errors.data()});
}

/// Stores a row of an operand; masked keys are 0.
void gradient_band::keep(score_operand const& wanted, operand_block& block, std::int64_t i, std::span<double const> x, std::span<double const> exact) {
  const auto at = std::size_t(i * stride_), columns = std::size_t(columns_);
  const auto store = [&](std::vector<double>& to, auto value) {
    for (std::size_t j = 0; j < columns; ++j) to[at + j] = j < x.size() ? value(j) : 0.0;
  };
  if (wanted.difference) store(block.difference, [&](std::size_t j) { return x[j] - exact[j]; });
  if (wanted.value) store(block.value, [&](std::size_t j) { return x[j]; });
  if (!wanted.codes) return;
  for (std::size_t j = 0; j < columns; ++j)
    block.codes[at + j] = block.by_key[j * std::size_t(most_rows_) + std::size_t(i)] = j < x.size() ? code_of_bf16(x[j]) : bf16_code::zero();
}

// Tasks: groups of rows of each product of dQ and of PK, then groups of keys of each product of dK, of dV, and of PᵀQ.

std::int64_t gradient_band::product_tasks() const noexcept {
  const std::int64_t key_tasks = (columns_ + keys_together - 1) / keys_together;
  return std::int64_t(sets_.dq.size() + 1) * row_tasks() + std::int64_t(sets_.dk.size() + sets_.dv.size() + 1) * key_tasks;
}

void gradient_band::multiply(band_worker& worker, std::int64_t task) {
  const std::int64_t key_tasks = (columns_ + keys_together - 1) / keys_together, of_rows = std::int64_t(dq_.size() + 1) * row_tasks();
  if (task < of_rows) {
    const std::int64_t first = task % row_tasks() * rows_together;
    const range rows{first, std::min(rows_together, rows_ - first)};
    const auto product = std::size_t(task / row_tasks());
    if (product < dq_.size()) return multiply_queries(worker, sets_.dq[product], dq_[product], rows);
    return add_products(by_rows(exact_weights_, rows), keys_.keys, block_ * plan_.tile.key_columns, {weighted_keys_.data() + first * d_, rows.count, d_, d_});
  }
  task -= of_rows;
  const std::int64_t first = task % key_tasks * keys_together;
  const range keys{first, std::min(keys_together, columns_ - first)};
  auto product = std::size_t(task / key_tasks);
  if (product < sets_.dk.size())
    return multiply_keys(worker, sets_.dk[product], ds_[sets_.dk[product].operand], queries_.q, queries_.wide_q, products_.dk[product], keys);
  product -= sets_.dk.size();
  if (product < sets_.dv.size())
    return multiply_keys(worker, sets_.dv[product], p_[sets_.dv[product].operand], queries_.d_o, queries_.wide_d_o, products_.dv[product], keys);
  add_products(by_keys(exact_weights_, keys), queries_.wide_q, first_row_,
               {products_.weighted_queries.data() + (block_ * plan_.tile.key_columns + first) * d_, keys.count, d_, d_});
}

void gradient_band::multiply_queries(band_worker& worker, score_product const& product, dq_sums& sums, range rows) const {
  if (product.kind == product_kind::nothing) return;
  operand_block const& of = ds_[product.operand];
  const std::int64_t first_key = block_ * plan_.tile.key_columns;
  const auto at = std::size_t(rows.first * d_), size = std::size_t(rows.count * d_);
  if (product.kind == product_kind::difference)
    return add_products(by_rows(of.difference, rows), keys_.keys, first_key, {sums.exact.data() + at, rows.count, d_, d_});
  const bool chained = rules_.dq == dq_sum::one_chain;
  worker.part.assign(size, 0.0);
  if (chained) std::copy_n(sums.exact.begin() + std::ptrdiff_t(at), size, worker.part.begin());
  const matrix_rows<double> part(worker.part.data(), rows.count, d_, d_);
  if (product.kind == product_kind::exact_parts) add_products(by_rows(of.value, rows), keys_.keys, first_key, part);
  else if (product.kind == product_kind::wide_chain) wide_chains(*plan_.unit, by_rows(of.value, rows), keys_.keys, first_key, part);
  else {
    worker.codes.resize(size);
    std::transform(worker.part.begin(), worker.part.end(), worker.codes.begin(), [](double x) { return code_of(static_cast<float>(x)); });
    worker.product.accumulate(matrix_rows<bf16_code const>(of.codes.data() + rows.first * stride_, rows.count, columns_, stride_), keys_.panels.key_rows,
                              first_key, 0, matrix_rows<f32_code>(worker.codes.data(), rows.count, d_, d_));
    std::transform(worker.codes.begin(), worker.codes.end(), worker.part.begin(), [](f32_code x) { return to_double(x); });
  }
  if (chained) std::copy(worker.part.begin(), worker.part.end(), sums.exact.begin() + std::ptrdiff_t(at));
  else add_part(product, sums, rows, worker.part);
}

void gradient_band::add_part(score_product const& product, dq_sums& sums, range rows, std::span<double const> part) const {
  const auto at = std::size_t(rows.first * d_);
  if (product.exact_sum)
    for (std::size_t j = 0; j < part.size(); ++j) sums.exact[at + j] += part[j];
  if (!product.rounded_sum) return;
  double* const to = sums.rounded.data() + std::size_t(block_ % plan_.dq_buffers) * std::size_t(most_rows_ * d_) + at;
  for (std::size_t j = 0; j < part.size(); ++j) to[j] = additions_.add(to[j], part[j]);
}

void gradient_band::multiply_keys(band_worker& worker, score_product const& product, operand_block const& of, column_panel const& panel,
                                  wide_panel const& wide, key_sums& sums, range keys) const {
  const std::int64_t at = (block_ * plan_.tile.key_columns + keys.first) * d_;
  switch (product.kind) {
    case product_kind::nothing: return;
    case product_kind::difference: return add_products(by_keys(of.difference, keys), wide, first_row_, {sums.wide.data() + at, keys.count, d_, d_});
    case product_kind::exact_parts: return add_products(by_keys(of.value, keys), wide, first_row_, {sums.wide.data() + at, keys.count, d_, d_});
    case product_kind::wide_chain: return wide_chains(*plan_.unit, by_keys(of.value, keys), wide, first_row_, {sums.wide.data() + at, keys.count, d_, d_});
    case product_kind::chain:
      return worker.product.accumulate(matrix_rows<bf16_code const>(of.by_key.data() + keys.first * most_rows_, keys.count, rows_, most_rows_), panel, first_row_, 0,
                                       matrix_rows<f32_code>(sums.codes.data() + at, keys.count, d_, d_));
  }
}

/// One element of dQ, less its exact value where nothing after the products rounds and they are differences.
double gradient_band::dq_of(product_use const& use, std::size_t element, double exact) const {
  dq_sums const& sums = dq_[use.product];
  const product_kind kind = sets_.dq[use.product].kind;
  const double scale = call_.output_scale();
  double sum = 0;
  if (use.rounded_sum) {
    sum = sums.rounded[element];
    if (rules_.dq == dq_sum::flash_attention_2)
      for (std::size_t buffer = 1; buffer < std::size_t(plan_.dq_buffers); ++buffer)
        sum = scalars_.add(sum, sums.rounded[buffer * std::size_t(most_rows_ * d_) + element]);
  } else if (kind != product_kind::nothing) {
    sum = sums.exact[element];
  }
  const bool from_exact = kind == product_kind::nothing || kind == product_kind::difference;
  if (from_exact && !use.scale && !use.cast) return sum * scale;
  if (from_exact) sum += exact / scale;
  double value = use.scale ? scalars_.mul(sum, to_double(plan_.scales.scale)) : sum * scale;
  if (use.cast) value = bf16_of_double(value);
  return value;
}

std::int64_t gradient_band::finish_row(band_worker& worker, std::int64_t i, gradient_error_sink& sink) const {
  const std::int64_t row = first_row_ + i;
  const auto d = std::size_t(d_), r = std::size_t(row), kernel_at = std::size_t(call_.problem.query_strides().offset(b_, head_, row));
  const bool without_keys = exact_.without_keys[r] != 0;
  std::int64_t wrong = 0;
  worker.errors.resize(sets_.dq_uses.size() * d);
  for (std::size_t u = 0; u < sets_.dq_uses.size(); ++u) {
    product_use const& use = sets_.dq_uses[u];
    const product_kind kind = sets_.dq[use.product].kind;
    const bool is_error = (kind == product_kind::nothing || kind == product_kind::difference) && !use.scale && !use.cast;
    for (std::size_t j = 0; j < d; ++j) {
      const double_double exact = exact_.dq[r * d + j];
      const double x = dq_of(use, std::size_t(i) * d + j, exact.hi);
      const bf16_code kernel = call_.kernel.dq[kernel_at + j];
      wrong += use.complete && kernel.is_finite() && x != to_double(kernel);
      double& error = worker.errors[u * d + j];
      error = is_error ? x : (x - exact.hi) - exact.lo;
      if (without_keys || !std::isfinite(exact.hi) || !kernel.is_finite()) error = std::numeric_limits<double>::quiet_NaN();
    }
  }
  sink.take_dq(b_, head_, row, worker.errors, std::span(weighted_keys_).subspan(std::size_t(i) * d, d));
  return wrong;
}

}  // namespace stickybit::detail
