#include "stickybit/exact/gradients.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "fixed_point_sum.hpp"
#include "inlined.hpp"
#include "stickybit/exact/weighted_sum.hpp"
#include "stickybit/format/value.hpp"
#include "stickybit/rounding/ieee_environment.hpp"

// dP_ij − delta_i is taken as e_j − m with e_j = dP_ij − dP_ir, m = Σ_t P_it·e_t and r the key of the largest weight. Where one key
// has nearly all the weight, delta_i is dP_ir but for a rest that a plain difference would lose; here e_r is 0 and m is that rest.
//
// Errors in u² = 2^-106, M = Σ_t P_it·|e_t|:
//   P    a weight 5249, the sum 5249 + 96 + 3·n/32, the division 16: 10 610 + 3·n/32, relative
//   e    5, relative
//   m    P's, 5 of e, 5 of the product, 96 + 3 + 3·n/32 of the sum: 10 719 + 6·n/32 of M
//   dS   m's, P's and 3 + 5 for the difference and the product: 21 337 + 9·n/32 of P_ij·(|e_j| + M)
//   dQ, dK  that, weighted_sum 1236 + 3 + 3·n/32, the sum over bands 3·n/64, the scale 2: below 2^15 + n/2 of Σ P_ij·(|e_j| + M)·|K|
//   dV   P's, weighted_sum and bands: 10 610 + 1236 + 3 + 8·n/32, below 2^14 + n/4
// With D = Σ_t P_it·|dP_ij − dP_it| the term t = r gives |e_j| ≤ D/P_ir, and M ≤ D + |e_j|, so |e_j| + M ≤ (1 + 2/P_ir)·D.

namespace stickybit {
namespace {

constexpr double_double not_a_number{std::numeric_limits<double>::quiet_NaN(), 0};

/// Row after row, NaN and infinity replaced by 0.
std::vector<double> finite_values(bf16_rows m) {
  std::vector<double> values(m.rows * m.columns);
  for (std::size_t i = 0; i < m.rows; ++i)
    for (std::size_t c = 0; c < m.columns; ++c)
      if (const double x = to_double(m.row(i)[c]); std::isfinite(x)) values[i * m.columns + c] = x;
  return values;
}

/// Σ a_j·b_j in blocks, so that the number of roundings grows with n/32.
double_double sum_of_products(std::span<double_double const> a, std::span<double_double const> b) noexcept {
  constexpr std::size_t block = 32;
  double_double sum{};
  for (std::size_t first = 0; first < a.size(); first += block) {
    double_double part{};
    for (std::size_t j = first; j < std::min(first + block, a.size()); ++j) part = inlined::add(part, inlined::multiply(a[j], b[j]));
    sum = inlined::add(sum, part);
  }
  return sum;
}

/// @pre all finite
fixed_point_sum exact_product(std::span<bf16_code const> a, std::span<bf16_code const> b) noexcept {
  fixed_point_sum sum;
  for (std::size_t c = 0; c < a.size(); ++c) sum.add(to_double(a[c]) * to_double(b[c]));
  sum.normalise();
  return sum;
}

void require_equal(std::size_t a, std::size_t b, char const* what) {
  if (a != b) throw std::invalid_argument(std::string("exact_gradients: ") + what + ": " + std::to_string(a) + " and " + std::to_string(b));
}

/// Adds a finished weighted sum to `total` and starts it anew.
void add_to(std::span<double_double> total, weighted_sum& sum, std::span<double_double> room) noexcept {
  sum.result(room);
  for (std::size_t c = 0; c < total.size(); ++c) total[c] = inlined::add(total[c], room[c]);
  sum.clear();
}

}  // namespace

// A BF16 number has at most 8 significand bits, so 2^(e − 7) divides it.
void exact_gradients::exponent_range::include(double x) noexcept {
  if (x == 0 || !std::isfinite(x)) return;
  const int e = std::ilogb(x);
  lowest = empty ? e - 7 : std::min(lowest, e - 7);
  above = empty ? e + 1 : std::max(above, e + 1);
  empty = false;
}

exact_gradients::exact_gradients(bf16_rows q, bf16_rows k, bf16_rows v, bf16_rows d_o, double softmax_scale, mask_alignment mask)
    : softmax_(q, k, softmax_scale, mask),
      v_products_(v),
      v_(v),
      d_o_(d_o),
      scale_(softmax_scale),
      d_(q.columns),
      q_values_(finite_values(q)),
      k_values_(finite_values(k)),
      d_o_values_(finite_values(d_o)),
      first_infinite_key_(d_, k.rows),
      key_not_finite_(k.rows) {
  require_equal(q.rows, d_o.rows, "rows of q and d_o");
  require_equal(k.rows, v.rows, "rows of k and v");
  require_equal(v.columns, d_o.columns, "columns of v and d_o");
  for (std::size_t j = 0; j < v.rows; ++j)
    for (bf16_code x : v.row(j)) v_range_.include(to_double(x));
  for (std::size_t j = 0; j < k.rows; ++j)
    for (std::size_t c = 0; c < d_; ++c)
      if (!std::isfinite(to_double(k.row(j)[c]))) {
        key_not_finite_[j] = 1;
        first_infinite_key_[c] = std::min(first_infinite_key_[c], j);
      }
}

/// Are the products of dO_i with every V_j exact as v_products_ gives them? They are when it sums them in two doubles, which it does
/// while the bits of a sum and those of the number of terms are at most 106.
bool exact_gradients::products_are_exact(std::size_t i) const noexcept {
  exponent_range range;
  for (bf16_code x : d_o_.row(i)) range.include(to_double(x));
  if (range.empty || v_range_.empty) return true;
  const int log2_terms = int(std::bit_width(d_o_.columns));
  return range.above - range.lowest + v_range_.above - v_range_.lowest + 2 * log2_terms <= 106;
}

/// dp[j] = dP_ij, below[j] = dP_ij − dP_ir for r = reference, relative error ≤ 5u² whatever cancels. False, and nothing of use in
/// `below`, unless all are finite.
bool exact_gradients::differences(std::size_t i, std::size_t reference, std::span<double_double> dp, std::span<double_double> below) const {
  const auto row = d_o_.row(i);
  v_products_.evaluate(row, dp);
  if (!std::all_of(dp.begin(), dp.end(), [](double_double x) { return std::isfinite(x.hi); })) return false;
  if (products_are_exact(i)) {
    for (std::size_t j = 0; j < dp.size(); ++j) below[j] = inlined::add(dp[j], -dp[reference]);
  } else {
    const fixed_point_sum of_reference = exact_product(row, v_.row(reference));
    for (std::size_t j = 0; j < dp.size(); ++j) below[j] = exact_product(row, v_.row(j)).minus(of_reference).value();
  }
  return true;
}

gradient_row exact_gradients::evaluate_row(std::size_t i, std::span<double_double> p, std::span<double_double> dp, std::span<double_double> ds,
                                           std::span<double_double> dq) const {
  if (i >= rows()) throw std::out_of_range("exact_gradients: row " + std::to_string(i) + " of " + std::to_string(rows()));
  const std::size_t n = softmax_.visible(i);
  if (std::min({p.size(), dp.size(), ds.size()}) < n)
    throw std::invalid_argument("exact_gradients: room for " + std::to_string(std::min({p.size(), dp.size(), ds.size()})) + " keys, " +
                                std::to_string(n) + " are visible");
  require_equal(dq.size(), d_, "room for dQ and columns of q");
  p = p.first(n), dp = dp.first(n), ds = ds.first(n);

  const softmax_row softmax = softmax_.evaluate(i, p);
  gradient_row row{.visible = n, .lse = softmax.lse, .delta = {}, .softmax_determined = softmax.determined, .determined = softmax.determined, .reference = 0, .sum = softmax.sum, .mean = {}};
  std::fill(dq.begin(), dq.end(), double_double{});
  if (n == 0) return row;
  row.reference = softmax.determined ? std::size_t(std::max_element(p.begin(), p.end()) - p.begin()) : 0;
  row.determined = differences(i, row.reference, dp, ds) && softmax.determined;
  if (softmax.determined)
    for (double_double& weight : p) weight = inlined::divide(weight, softmax.sum);
  if (!row.determined) {
    row.delta = row.mean = not_a_number;
    std::fill(ds.begin(), ds.end(), not_a_number);
    std::fill(dq.begin(), dq.end(), not_a_number);
    return row;
  }

  row.delta = sum_of_products(p, dp);
  row.mean = sum_of_products(p, ds);
  for (std::size_t j = 0; j < n; ++j) ds[j] = inlined::multiply(p[j], inlined::add(ds[j], -row.mean));
  weighted_sum sums(d_);
  for (std::size_t j = 0; j < n; ++j)
    if (ds[j].hi != 0) sums.add(ds[j], std::span(k_values_).subspan(j * d_, d_));
  sums.result(dq);
  for (std::size_t c = 0; c < d_; ++c) dq[c] = first_infinite_key_[c] < n ? not_a_number : dq[c] * scale_;
  return row;
}

void exact_gradients::evaluate_keys(std::size_t i, gradient_row const& row, std::size_t first, std::span<double_double> p, std::span<double_double> dp,
                                    std::span<double_double> ds) const {
  if (i >= rows()) throw std::out_of_range("exact_gradients: row " + std::to_string(i) + " of " + std::to_string(rows()));
  require_equal(p.size(), dp.size(), "room for P and for dP");
  require_equal(p.size(), ds.size(), "room for P and for dS");
  if (first > row.visible || p.size() > row.visible - first)
    throw std::invalid_argument("exact_gradients: keys " + std::to_string(first) + " to " + std::to_string(first + p.size()) + " of " + std::to_string(row.visible) + " visible ones");
  v_products_.evaluate(d_o_.row(i), first, dp);
  std::fill(p.begin(), p.end(), not_a_number);
  std::fill(ds.begin(), ds.end(), not_a_number);
  if (!row.softmax_determined) return;
  softmax_.evaluate_keys(i, row.reference, first, p);
  for (double_double& weight : p) weight = inlined::divide(weight, row.sum);
  if (!row.determined) return;
  v_products_.evaluate_differences(d_o_.row(i), row.reference, first, ds);
  for (std::size_t j = 0; j < p.size(); ++j) ds[j] = inlined::multiply(p[j], inlined::add(ds[j], -row.mean));
}

/// P and dS of some rows after each other. Their number is fixed, so it is in one order that a key's sums are taken, whoever takes them.
struct exact_gradients::band {
  static constexpr std::size_t most = 64;
  std::size_t keys;
  std::vector<double_double> p, ds;  ///< [most×keys]

  explicit band(std::size_t keys_) : keys(keys_), p(most * keys_), ds(most * keys_) {}
  std::span<double_double> row_of(std::vector<double_double>& matrix, std::size_t r) const noexcept {
    return std::span(matrix).subspan(r * keys, keys);
  }
};

head_gradients exact_gradients::evaluate() const {
  const std::size_t s = rows(), s_k = keys(), d_v = d_o_.columns;
  head_gradients g;
  g.delta.resize(s), g.without_keys.resize(s);
  g.dq.resize(s * d_), g.dk.resize(s_k * d_), g.dv.resize(s_k * d_v);
  g.rows.resize(s);
  std::vector<gradient_row>& rows = g.rows;
  band b(s_k);

  // A small head is not worth waking threads for.
#pragma omp parallel if (s * s_k >= 4096)
  {
    const host::ieee_environment ieee;
    std::vector<double_double> dp(s_k), room(std::max(d_, d_v));
    weighted_sum dk(d_), dv(d_v);
    for (std::size_t first = 0; first < s; first += band::most) {
      const std::size_t count = std::min(band::most, s - first);
#pragma omp for schedule(dynamic)
      for (std::size_t r = 0; r < count; ++r)
        rows[first + r] = evaluate_row(first + r, b.row_of(b.p, r), dp, b.row_of(b.ds, r), std::span(g.dq).subspan((first + r) * d_, d_));
#pragma omp for schedule(dynamic, 8)
      for (std::size_t j = 0; j < s_k; ++j) {
        for (std::size_t r = 0; r < count; ++r) {
          const std::size_t i = first + r;
          if (j >= rows[i].visible) continue;
          const double_double p = b.p[r * s_k + j], ds = b.ds[r * s_k + j];
          if (rows[i].softmax_determined && p.hi != 0) dv.add(p, std::span(d_o_values_).subspan(i * d_v, d_v));
          if (rows[i].determined && ds.hi != 0) dk.add(ds, std::span(q_values_).subspan(i * d_, d_));
        }
        add_to(std::span(g.dv).subspan(j * d_v, d_v), dv, std::span(room).first(d_v));
        add_to(std::span(g.dk).subspan(j * d_, d_), dk, std::span(room).first(d_));
      }
    }
  }
  for (std::size_t i = 0; i < s; ++i) {
    g.delta[i] = rows[i].delta;
    g.without_keys[i] = rows[i].visible == 0;
  }
  for (double_double& x : g.dk) x = x * scale_;
  apply_specials(rows, g);
  return g;
}

/// What the rows that evaluate() left out, and NaN and infinities in dO, make of dK and dV. A row sees the first keys, so the row that
/// sees most decides.
void exact_gradients::apply_specials(std::span<gradient_row const> rows, head_gradients& g) const {
  const std::size_t d_v = d_o_.columns;
  std::size_t undetermined_k = 0, undetermined_v = 0;  // dK, dV of the first so many keys is NaN
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].determined) undetermined_k = std::max(undetermined_k, rows[i].visible);
    if (!rows[i].softmax_determined) undetermined_v = std::max(undetermined_v, rows[i].visible);
    for (std::size_t c = 0; c < d_v; ++c) {
      const double value = to_double(d_o_.row(i)[c]);
      if (std::isfinite(value)) continue;
      // A key that is not finite has the score −infinity here, or the row's softmax would not be determined: it weighs 0. IEEE addition
      // has the rules wanted for the rest: finite + infinity, infinity − infinity, NaN with anything.
      for (std::size_t j = 0; j < rows[i].visible; ++j) {
        double_double& x = g.dv[j * d_v + c];
        x = {x.hi + (key_not_finite_[j] ? not_a_number.hi : value), 0};
      }
    }
  }
  std::fill_n(g.dk.begin(), undetermined_k * d_, not_a_number);
  std::fill_n(g.dv.begin(), undetermined_v * d_v, not_a_number);
}

}  // namespace stickybit
