#pragma once
#include <boost/multiprecision/cpp_bin_float.hpp>
#include <functional>
#include <vector>

#include "stickybit/attention/backward.hpp"
#include "stickybit/bias/backward_points.hpp"
#include "stickybit/format/value.hpp"
#include "stickybit/machine/machine.hpp"
#include "stickybit/sfu/sfu.hpp"

// fa3's backward pass of one head with chosen rounding points, written once more, slowly, from the definitions, on numbers of 128 bits:
// no differences are carried, nothing is shared between sets, and only MUFU comes from the library. Not for subnormals.

namespace stickybit_test {

namespace mp = boost::multiprecision;
using real = mp::number<mp::cpp_bin_float<128, mp::digit_base_2, void, std::int32_t>, mp::et_off>;

/// To nearest even, or toward zero, with so many significant bits.
inline real rounded(real const& x, int bits, bool toward_zero = false) {
  if (x == 0) return x;
  const int quantum = int(mp::ilogb(x)) - (bits - 1);
  const real y = mp::ldexp(mp::abs(x), -quantum);
  real whole = mp::floor(y);
  const real rest = y - whole, half = real(1) / 2;
  if (!toward_zero && (rest > half || (rest == half && whole - 2 * mp::floor(whole / 2) == 1))) whole += 1;
  return mp::ldexp(x < 0 ? real(-whole) : whole, quantum);
}
inline real f32(real const& x) { return rounded(x, 24); }
inline real bf16(real const& x) { return rounded(x, 8); }

/// The wgmma's chain, of any operands: blocks of 16 aligned at their largest exponent, cut at 2^-25 of it, the sum cut to FP32.
inline real chained(std::vector<real> const& a, std::vector<real> const& b, real c = 0) {
  for (std::size_t first = 0; first < a.size(); first += 16) {
    int largest = -133;
    const std::size_t end = std::min(first + 16, a.size());
    for (std::size_t k = first; k < end; ++k)
      if (a[k] != 0 && b[k] != 0) largest = std::max(largest, int(mp::ilogb(a[k])) + int(mp::ilogb(b[k])));
    if (c != 0) largest = std::max(largest, int(mp::ilogb(c)));
    const auto cut = [&](real const& x) { return mp::trunc(mp::ldexp(x, 25 - largest)); };
    real sum = cut(c);
    for (std::size_t k = first; k < end; ++k) sum += cut(a[k] * b[k]);
    c = rounded(mp::ldexp(sum, largest - 25), 24, true);
  }
  return c;
}

class backward_twin {
 public:
  using points = stickybit::backward_points;
  using point = stickybit::backward_point;
  using matrix = std::vector<std::vector<real>>;

  struct gradients {
    std::vector<real> delta;
    matrix dp, ds, dq, dk, dv;
  };

  /// One head, layout b,h,s,d, not causal, d = 64.
  backward_twin(stickybit::attention_problem const& p, stickybit::forward_result const& forward)
      : scale_(p.softmax_scale), queries_(std::size_t(p.queries)), keys_(std::size_t(p.keys)), q_(of(p.q, queries_)), k_(of(p.k, keys_)), v_(of(p.v, keys_)), d_o_(of(p.d_o, queries_)),
        stored_o_(of(forward.o, queries_)) {
    for (stickybit::f32_code c : forward.lse) stored_lse_.push_back(stickybit::to_double(c));
    for (std::size_t i = 0; i < queries_; ++i) take_scores(i);
    for (std::size_t i = 0; i < queries_; ++i) take_exact(i);
  }

  [[nodiscard]] gradients evaluate(points set) const {
    gradients g;
    matrix p(queries_, std::vector<real>(keys_));
    g.dp = g.ds = p;
    for (std::size_t i = 0; i < queries_; ++i) {
      g.delta.push_back(delta(i, set));
      for (std::size_t j = 0; j < keys_; ++j) {
        p[i][j] = weight(i, j, set);
        g.dp[i][j] = (set.has(point::dp) ? chained_dp_ : exact_dp_)[i][j];
        real x = g.dp[i][j] - g.delta[i];
        if (set.has(point::ds_arithmetic)) x = f32(p[i][j] * f32(x));
        else x = p[i][j] * x;
        g.ds[i][j] = set.has(point::ds_cast) ? bf16(x) : x;
        if (set.has(point::p_cast)) p[i][j] = bf16(p[i][j]);
      }
      g.dq.push_back(dq(g.ds[i], set));
    }
    for (std::size_t j = 0; j < keys_; ++j) {
      g.dk.push_back(of_key(g.ds, q_, j, set.has(point::dk_chain)));
      for (real& x : g.dk.back()) x = finished(x, set);
      g.dv.push_back(of_key(p, d_o_, j, set.has(point::dv_chain)));
      if (set.has(point::output_cast))
        for (real& x : g.dv.back()) x = bf16(x);
    }
    return g;
  }

 private:
  static constexpr std::size_t d_ = 64, block_ = 128;

  static matrix of(std::vector<stickybit::bf16_code> const& codes, std::size_t rows) {
    matrix m(rows, std::vector<real>(d_));
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t c = 0; c < d_; ++c) m[i][c] = stickybit::to_double(codes[i * d_ + c]);
    return m;
  }
  static real dot(std::vector<real> const& a, std::vector<real> const& b) {
    real sum = 0;
    for (std::size_t c = 0; c < a.size(); ++c) sum += a[c] * b[c];
    return sum;
  }

  void take_scores(std::size_t i) {
    for (matrix* m : {&exact_s_, &chained_s_, &exact_dp_, &chained_dp_}) m->emplace_back();
    for (std::size_t j = 0; j < keys_; ++j) {
      exact_s_[i].push_back(dot(q_[i], k_[j]));
      chained_s_[i].push_back(chained(q_[i], k_[j]));
      exact_dp_[i].push_back(dot(d_o_[i], v_[j]));
      chained_dp_[i].push_back(chained(d_o_[i], v_[j]));
    }
  }

  void take_exact(std::size_t i) {
    real sum = 0;
    std::vector<real> w(keys_), o(d_);
    for (std::size_t j = 0; j < keys_; ++j) sum += w[j] = mp::exp(scale_ * exact_s_[i][j]);
    for (std::size_t j = 0; j < keys_; ++j)
      for (std::size_t c = 0; c < d_; ++c) o[c] += w[j] / sum * v_[j][c];
    exact_o_.push_back(o);
    exact_lse_.push_back(mp::log(sum));
  }

  /// 8 lanes of 8 columns, fma, lanes joined by halves.
  [[nodiscard]] real delta(std::size_t i, points set) const {
    std::vector<real> const& o = set.has(point::stored_o) ? stored_o_[i] : exact_o_[i];
    if (!set.has(point::delta_sum)) return dot(d_o_[i], o);
    std::vector<real> lanes;
    for (std::size_t lane = 0; lane < 8; ++lane) {
      real sum = f32(d_o_[i][8 * lane + 1] * o[8 * lane + 1]);
      sum = f32(d_o_[i][8 * lane] * o[8 * lane] + sum);
      for (std::size_t c = 8 * lane + 2; c < 8 * lane + 8; ++c) sum = f32(d_o_[i][c] * o[c] + sum);
      lanes.push_back(sum);
    }
    for (std::size_t half : {4, 2, 1})
      for (std::size_t lane = 0; lane < half; ++lane) lanes[lane] = f32(lanes[lane] + lanes[lane + half]);
    return lanes[0];
  }

  [[nodiscard]] real weight(std::size_t i, std::size_t j, points set) const {
    const real s = (set.has(point::s) ? chained_s_ : exact_s_)[i][j], lse = set.has(point::stored_lse) ? stored_lse_[i] : exact_lse_[i];
    const real ln2 = mp::log(real(2)), log2_e = 1 / ln2;
    const double scale_log2 = double(float(double(float(double(scale_))) * double(log2_e)));
    real x = (scale_ * s - lse) * log2_e;
    if (set.has(point::exp_argument)) x = f32(s * real(scale_log2) - f32(lse * real(double(float(double(log2_e))))));
    if (!set.has(point::exp2)) return mp::exp(x * ln2);
    const auto argument = float(double(f32(x)));
    const double unit = stickybit::to_double(stickybit::ex2(*stickybit::sm90().special_functions, stickybit::code_of(argument)));
    return real(unit) * mp::exp((x - real(double(argument))) * ln2);
  }

  [[nodiscard]] real finished(real x, points set) const {
    x = set.has(point::scale) ? f32(x * real(double(float(double(scale_))))) : real(x * scale_);
    return set.has(point::output_cast) ? bf16(x) : x;
  }

  [[nodiscard]] std::vector<real> dq(std::vector<real> const& ds, points set) const {
    std::vector<real> row(d_);
    for (std::size_t c = 0; c < d_; ++c) {
      for (std::size_t first = 0; first < keys_; first += block_) {
        const std::size_t end = std::min(first + block_, keys_);
        std::vector<real> column;
        for (std::size_t j = first; j < end; ++j) column.push_back(k_[j][c]);
        const std::vector<real> part(ds.begin() + std::ptrdiff_t(first), ds.begin() + std::ptrdiff_t(end));
        row[c] += set.has(point::dq_chain) ? chained(part, column) : dot(part, column);
        if (set.has(point::dq_sum)) row[c] = f32(row[c]);
      }
      row[c] = finished(row[c], set);
    }
    return row;
  }

  [[nodiscard]] std::vector<real> of_key(matrix const& m, matrix const& rows, std::size_t j, bool chain) const {
    std::vector<real> result(d_), a, b(queries_);
    for (std::size_t i = 0; i < queries_; ++i) a.push_back(m[i][j]);
    for (std::size_t c = 0; c < d_; ++c) {
      for (std::size_t i = 0; i < queries_; ++i) b[i] = rows[i][c];
      result[c] = chain ? chained(a, b) : dot(a, b);
    }
    return result;
  }

  real scale_;
  std::size_t queries_, keys_;
  matrix q_, k_, v_, d_o_, stored_o_, exact_o_, exact_s_, chained_s_, exact_dp_, chained_dp_;
  std::vector<real> stored_lse_, exact_lse_;
};

}  // namespace stickybit_test
