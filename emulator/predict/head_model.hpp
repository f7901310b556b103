#pragma once
#include <cstdint>
#include <vector>

#include "dense_products.hpp"
#include "kernel_constants.hpp"
#include "rounded_value.hpp"
#include "row_weights.hpp"
#include "stickybit/predict/forecast.hpp"

namespace stickybit::detail {

/// A row-major matrix of our own.
template <class Number>
struct matrix {
  std::int64_t rows = 0, columns = 0;
  std::vector<Number> data;

  matrix() = default;
  matrix(std::int64_t rows_, std::int64_t columns_) : rows(rows_), columns(columns_), data(std::size_t(rows * columns)) {}
  [[nodiscard]] Number& at(std::int64_t i, std::int64_t j) noexcept { return data[std::size_t(i * columns + j)]; }
  [[nodiscard]] Number at(std::int64_t i, std::int64_t j) const noexcept { return data[std::size_t(i * columns + j)]; }
  [[nodiscard]] std::span<Number> row(std::int64_t i, std::int64_t count) noexcept { return {data.data() + i * columns, std::size_t(count)}; }
  /// The first `r` rows and `c` columns.
  [[nodiscard]] matrix_view<Number const> first(std::int64_t r, std::int64_t c) const noexcept { return {data.data(), r, c, columns}; }
  [[nodiscard]] matrix_view<Number> first(std::int64_t r, std::int64_t c) noexcept { return {data.data(), r, c, columns}; }
  /// Rows from `i` on.
  [[nodiscard]] matrix_view<Number const> from(std::int64_t i, std::int64_t r) const noexcept { return {data.data() + i * columns, r, columns, columns}; }
  [[nodiscard]] matrix_view<Number> from(std::int64_t i, std::int64_t r) noexcept { return {data.data() + i * columns, r, columns, columns}; }
};

/// The power of two by which the numbers of dS are divided where products are formed in FP32.
[[nodiscard]] int gradient_shift(attention_schedule const& schedule, forecast_inputs const& in);

/// A BF16 matrix in the forms that products take.
struct operand_forms {
  matrix<double> values, transposed;
  matrix<float> squares, fourths;
  chain_operand chain, chain_transposed;

  explicit operand_forms(bf16_rows rows);
};

/// Keys with the same K have the same weights in every row, and so the same cast errors: sums of V over such keys, at the first of them.
struct key_classes {
  std::vector<std::int64_t> first;  ///< {s_k}: the first key of each one's class
  std::vector<std::int64_t> size;   ///< {s_k}: at the first key of a class; 0 at the others
  matrix<float> sums, squares;     ///< [s_k×d]: size·ΣV, (ΣV)²
  matrix<double> v;                ///< [s_k×d]: ΣV

  key_classes(bf16_rows k, operand_forms const& v);
};

/// The first row that has the codes of row i. {rows}
[[nodiscard]] std::vector<std::int64_t> first_alike(bf16_rows rows);
/// How many rows have the codes of row i. {rows}
[[nodiscard]] std::vector<std::int64_t> rows_alike(bf16_rows rows);

/// The forward tile of the call; null: none for this head dimension.
[[nodiscard]] attention_tile const* forward_tile(attention_schedule const& schedule, forecast_inputs const& in) noexcept;

/// What a band of rows leaves for the sums over rows, by key: [keys × rows of the band].
struct band_matrices {
  matrix<double> weight, weight_error;      ///< P, and the expected error of P as dV meets it
  matrix<double> gradient, gradient_error;  ///< dS, and its expected error
  matrix<float> weight_variance, gradient_variance;
  chain_operand weight_chain, gradient_chain;

  band_matrices(std::int64_t keys, std::int64_t rows, int gradient_shift);
  /// Column r as if the row saw no key.
  void clear_row(std::int64_t r);
};

/// An error's variance, smooth and in steps, and the steps' fourth cumulant.
struct spread {
  double smooth = 0, jumps = 0, fourth = 0;

  void add(spread const& other, double factor = 1) noexcept {
    const double square = factor * factor;
    smooth += square * other.smooth, jumps += square * other.jumps, fourth += square * square * other.fourth;
  }
  /// What the smooth part lacks, because it was only a share of what jumps, is taken off the jumps.
  void settle() noexcept {
    if (smooth >= 0) return;
    const double left = jumps > 0 && jumps + smooth > 0 ? (jumps + smooth) / jumps : 0;
    jumps *= left;
    fourth *= left * left;
    smooth = 0;
  }
  /// One of n equal errors: what each adds to the variance of their sum.
  [[nodiscard]] spread shared_by(std::int64_t n) const noexcept { return {smooth * double(n), jumps * double(n), fourth * double(n) * double(n) * double(n)}; }
  [[nodiscard]] bool jumps_are_rare() const noexcept { return jumps * jumps < fourth / 32; }
  /// Without jumps where they are rare.
  [[nodiscard]] double variance() const noexcept { return smooth + (jumps_are_rare() ? 0 : jumps); }
};

/// What is left of an error's spread after a cast that made e of it.
[[nodiscard]] spread through_cast(spread const& before, rounded_error const& e) noexcept;

/// The mean of `count` errors from their sum.
[[nodiscard]] inline expected_mean mean_of(double sum, spread s, double count) noexcept {
  s.settle();
  return {sum / count, s.smooth / (count * count), s.jumps / (count * count), s.fourth / (count * count * count * count), 0};
}

/// What a pass over the rows of a head finds, element by element.
struct element_errors {
  std::vector<double> value;  ///< exact, in double  [rows × d]
  std::vector<double> mean;   ///< [rows × d]
  std::vector<spread> width;  ///< [rows × d]

  element_errors(std::int64_t rows, std::int64_t d) : value(std::size_t(rows * d)), mean(value.size()), width(value.size()) {}
};

struct head_rows {
  element_errors o, dq;
  std::vector<expected_mean> o_rows, dq_rows, delta, dp, ds;  ///< {rows}
  std::vector<double> delta_value;                            ///< {rows}
  std::vector<spread> weight_sums, gradient_sums;             ///< {rows}: of Σ_j error of P, of dS

  head_rows(std::int64_t rows, std::int64_t d, bool gradients)
      : o(rows, d), dq(gradients ? rows : 0, d), o_rows(std::size_t(rows)), dq_rows(gradients ? o_rows.size() : 0), delta(dq_rows.size()), dp(dq_rows.size()), ds(dq_rows.size()), delta_value(dq_rows.size()),
        weight_sums(dq_rows.size()), gradient_sums(dq_rows.size()) {}
};

/// Model of one query head, a few rows at a time; of one thread. What it is made from outlives it.
class head_model {
 public:
  static constexpr std::int64_t most_rows = 8;

  head_model(attention_schedule const& schedule, forecast_inputs const& in, std::size_t head, operand_forms const& k, operand_forms const& v, key_classes const& classes);

  /// Rows first … first + count − 1: fills their rows of O, delta, dP, dS, dQ, and with dO columns of the band from r on.
  void take_rows(std::int64_t first, std::int64_t count, std::span<std::int64_t const> alike, head_rows& out, band_matrices* band, std::int64_t r);

 private:
  void load(bf16_rows rows, matrix<double>& values, chain_operand& chain) const;
  void take_scores(std::span<std::int64_t const> alike);
  void take_output(head_rows& out);
  void finish_output(std::int64_t r, head_rows& out);
  void finish_output_row(std::int64_t r, head_rows& out);
  [[nodiscard]] spread weighted_output(std::int64_t r, std::span<double const> factors, std::span<double const> passed_v) const;
  [[nodiscard]] rounded_error cast_output(double o, double sum, expected_error before) const;
  void take_delta(std::int64_t r, head_rows& out);
  void take_weights(std::int64_t r, head_rows& out, band_matrices& band, std::int64_t at);
  void take_score_gradients(std::int64_t r, head_rows& out, band_matrices& band, std::int64_t at);
  void take_query_gradients(head_rows& out);
  void finish_query_gradient(std::int64_t r, head_rows& out);
  void chain_over_keys(chain_operand const& b, std::int64_t block, bool descending, bool parts, chain_state& state);

  attention_schedule const& schedule_;
  machine_unit const& unit_;
  forecast_inputs const& in_;
  bf16_rows q_rows_, d_o_rows_;
  operand_forms const &k_, &v_;
  key_classes const& classes_;
  std::int64_t keys_, d_;
  int gradient_shift_;
  attention_tile const *tile_, *backward_tile_;
  weight_rules weight_rules_;
  kernel_constants constants_;

  std::int64_t first_ = 0, count_ = 0;
  std::int64_t visible_[most_rows] = {};
  row_weights row_[most_rows];
  double s_drift_[most_rows] = {}, together_chance_[most_rows] = {}, delta_[most_rows] = {}, stretch_variance_[most_rows] = {}, stretch_mean_[most_rows] = {};
  double centred_[most_rows] = {};            ///< 1: the row mass of the casts is known, what is random adds up to 0; 0: it does not
  double sum_variance_[most_rows] = {};       ///< relative, of the row sum
  double residual_variance_[most_rows] = {};  ///< of the factor that the sum has and weights of 1, cast to BF16, lack
  std::vector<std::int64_t> ones_[most_rows];  ///< keys of weight 1
  double delta_mean_[most_rows] = {};
  spread delta_spread_[most_rows];

  matrix<double> q_, d_o_;                       // [rows×d]
  matrix<double> passed_, passed_v_;             // [2 rows×d], [2 rows×s_k]: gain of O's cast, times 1 and times dO; and that times V
  matrix<double> s_, w_, w_mean_, w_square_;     // [rows×s_k]: scores, weights over the largest, their expected error and its spread
  matrix<double> dp_, ds_, errors_, coupling_;   // [rows×s_k]
  matrix<float> smooth_, jumps_, fourths_;       // [rows×s_k]: of dS, beside what all of the row share
  chain_operand q_chain_, d_o_chain_, key_chain_;  // [rows×d], [rows×d], [rows×s_k]
  chain_state s_state_, dp_state_, o_state_, part_state_;  // [rows×s_k], [rows×s_k], [rows×d], [rows×d]
  matrix<double> o_, o_mean_;                    // [rows×d]
  std::vector<spread> own_o_;                    // [rows×d]: of O's error beside the weights'
  std::vector<double> together_;                 // [rows×d]: standard deviation of what the row's one residual decides, with its sign
  matrix<double> sums_, mean_sums_, coupled_;    // [rows×d]: dS·K, its expected error's, and what an error of delta becomes
  matrix<float> smooth_sums_, jump_sums_, fourth_sums_;  // [rows×d]
  matrix<float> spread_, spread_v_, spread_vv_;  // [rows×s_k], [rows×d]
  mutable std::vector<double> class_sums_;       // {s_k}: scratch
  std::vector<double> v_sums_, k_sums_;          // {s_k}: over columns
};

}  // namespace stickybit::detail
