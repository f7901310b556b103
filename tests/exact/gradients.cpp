#include "stickybit/exact/gradients.hpp"

#include <omp.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>

#include "inputs.hpp"
#include "measure.hpp"
#include "stickybit/format/value.hpp"
#include "support/catch.hpp"

using namespace stickybit;
using namespace stickybit_test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// A head of attention and the gradient of its output.
struct problem {
  head h;
  matrix d_o;
  [[nodiscard]] exact_gradients gradients() const { return {h.q.view(), h.k.view(), h.v.view(), d_o.view(), h.scale, h.mask}; }
};

big element(matrix const& m, std::size_t i, std::size_t c) { return big(to_double(m.at(i, c))); }

big dot(matrix const& a, std::size_t i, matrix const& b, std::size_t j) {
  big sum = 0;
  for (std::size_t c = 0; c < a.columns; ++c) sum += element(a, i, c) * element(b, j, c);
  return sum;
}

/// One row in 640 bits, dS without a delta: P_ij·Σ_t P_it·(dP_ij − dP_it), so that no term is lost beside a larger one.
struct oracle_row {
  std::vector<big> p, dp, ds, a;  ///< a: the header's A_ij. {visible}
  big delta = 0, delta_terms = 0, gain = 1, spread = 1;  ///< spread: max(1, |dP_ij − dP_it|, |dP_ij|)
};

oracle_row oracle(problem const& x, std::size_t i) {
  const std::size_t n = visible_keys(x.h.mask, i, x.h.q.rows, x.h.k.rows);
  oracle_row row{std::vector<big>(n), std::vector<big>(n), std::vector<big>(n), std::vector<big>(n)};
  if (n == 0) return row;
  for (std::size_t j = 0; j < n; ++j) row.p[j] = big(x.h.scale) * dot(x.h.q, i, x.h.k, j), row.dp[j] = dot(x.d_o, i, x.h.v, j);
  const big top = *std::max_element(row.p.begin(), row.p.end());
  big total = 0;
  for (big& p : row.p) {
    p = p - top < -5000 ? big(0) : mp::exp(p - top);  // e^-5000 is below every bound here
    total += p;
  }
  for (big& p : row.p) p /= total;
  row.gain = 1 + 2 * total;
  for (std::size_t j = 0; j < n; ++j) {
    row.delta += row.p[j] * row.dp[j];
    row.delta_terms += row.p[j] * mp::abs(row.dp[j]);
    row.spread = std::max(row.spread, big(mp::abs(row.dp[j])));
    for (std::size_t t = 0; t < n; ++t) {
      const big term = row.p[j] * row.p[t] * (row.dp[j] - row.dp[t]);
      row.ds[j] += term;
      row.a[j] += mp::abs(term);
      row.spread = std::max(row.spread, big(mp::abs(row.dp[j] - row.dp[t])));
    }
  }
  return row;
}

/// Each result's error, by name, as a part of the bound that the header states.
struct parts : std::map<std::string, worst> {
  void check(std::string_view cases) const {
    for (auto const& [name, seen] : *this) {
      WARN(cases << ": part of the bound of " << seen.text(name));
      CHECK(seen.ratio() <= 1);
    }
  }
};

/// max(1, |m|)
big magnitude(matrix const& m) {
  big largest = 1;
  for (std::size_t e = 0; e < m.rows * m.columns; ++e) largest = std::max(largest, big(mp::abs(element(m, e / m.columns, e % m.columns))));
  return largest;
}

/// Sums over rows (dK, dV) or keys (dQ), each with the sum that its bound is a part of.
struct expected {
  std::vector<big> value, terms;
  explicit expected(std::size_t size) : value(size), terms(size) {}
  void add(std::size_t at, big const& weight, big const& size, big const& x) {
    value[at] += weight * x;
    terms[at] += size * mp::abs(x);
  }
  void compare(worst& seen, std::vector<double_double> const& got, big const& part, big const& absolute) const {
    REQUIRE(got.size() == value.size());
    for (std::size_t e = 0; e < got.size(); ++e) seen.see(value_of(got[e]) - value[e], part * terms[e] + absolute);
  }
};

/// All results of a head against the oracle; and the laws Σ_j dS_ij = 0, Σ_j dK_j = 0.
void measure(problem const& x, parts& seen) {
  const std::size_t s = x.h.q.rows, s_k = x.h.k.rows, d = x.h.q.columns, d_v = x.h.v.columns;
  const std::size_t n = std::max(s, s_k);
  const big part = pow2_big(-92) + big(n) * pow2_big(-108), epsilon = 2 * part;
  const big absolute = big(n) * pow2_big(-1070), absolute_ds = big(n) * big(n) * pow2_big(-1068), scale = x.h.scale;
  const exact_gradients gradients = x.gradients();
  const head_gradients got = gradients.evaluate();
  expected dq(s * d), dk(s_k * d), dv(s_k * d_v);
  big spread = 1;
  std::vector<double_double> p(s_k), dp(s_k), ds(s_k), one_dq(d);
  for (std::size_t i = 0; i < s; ++i) {
    const oracle_row truth = oracle(x, i);
    const gradient_row row = gradients.evaluate_row(i, p, dp, ds, one_dq);
    REQUIRE(row.visible == truth.p.size());
    REQUIRE((got.without_keys[i] != 0) == truth.p.empty());
    REQUIRE((row.determined && row.softmax_determined));
    REQUIRE(row.delta == got.delta[i]);
    spread = std::max(spread, truth.spread);
    seen["delta"].see(value_of(got.delta[i]) - truth.delta, part * truth.delta_terms + (truth.p.empty() ? big(0) : absolute * truth.spread));
    big ds_sum = 0, ds_terms = 0;
    for (std::size_t j = 0; j < truth.p.size(); ++j) {
      REQUIRE(mp::abs(value_of(dp[j]) - truth.dp[j]) <= pow2_big(-103) * mp::abs(truth.dp[j]));
      seen["P"].see(value_of(p[j]) - truth.p[j], part * truth.p[j] + absolute);
      const big size = truth.gain * truth.a[j];
      seen["dS"].see(value_of(ds[j]) - truth.ds[j], epsilon * size + absolute_ds * truth.spread);
      ds_sum += value_of(ds[j]), ds_terms += epsilon * size + absolute_ds * truth.spread;
      for (std::size_t c = 0; c < d; ++c) {
        dq.add(i * d + c, truth.ds[j] * scale, size * scale, element(x.h.k, j, c));
        dk.add(j * d + c, truth.ds[j] * scale, size * scale, element(x.h.q, i, c));
      }
      for (std::size_t c = 0; c < d_v; ++c) dv.add(j * d_v + c, truth.p[j], truth.p[j], element(x.d_o, i, c));
    }
    seen["sum of dS over keys"].see(ds_sum, ds_terms);
  }
  const big of_scale = std::max(big(1), scale);
  dq.compare(seen["dQ"], got.dq, epsilon, absolute_ds * spread * magnitude(x.h.k) * of_scale);
  const big absolute_dk = absolute_ds * spread * magnitude(x.h.q) * of_scale;
  dk.compare(seen["dK"], got.dk, epsilon, absolute_dk);
  for (std::size_t c = 0; c < d; ++c) {
    big sum = 0, bound = 0;
    for (std::size_t e = c; e < s_k * d; e += d) sum += value_of(got.dk[e]), bound += epsilon * dk.terms[e] + absolute_dk;
    seen["sum of dK over keys"].see(sum, bound);
  }
  dv.compare(seen["dV"], got.dv, part, absolute * magnitude(x.d_o));
}

problem gaussian(head_maker& maker, std::size_t s, std::size_t s_k, std::size_t d, std::size_t d_v, mask_alignment mask) {
  problem x{{matrix(s, d), matrix(s_k, d), matrix(s_k, d_v), 1 / std::sqrt(double(d)), mask}, matrix(s, d_v)};
  for (matrix* m : {&x.h.q, &x.h.k, &x.h.v, &x.d_o}) m->fill([&] { return bf16(maker.normal()); });
  return x;
}

/// Every query is 1.2 times the key that it should find, and all keys share a large mean: one weight is nearly 1, all scores are large.
void one_hot_with_mean_key(problem& x, head_maker& maker, double size) {
  for (std::size_t c = 0; c < x.h.k.columns; ++c) {
    const double mean = 4 * maker.normal();
    for (std::size_t j = 0; j < x.h.k.rows; ++j) x.h.k.at(j, c) = bf16(mean + size * maker.normal());
  }
  for (std::size_t i = 0; i < x.h.q.rows; ++i) {
    const std::size_t wanted = maker.pick(0, std::min(i, x.h.k.rows - 1));
    for (std::size_t c = 0; c < x.h.q.columns; ++c) x.h.q.at(i, c) = bf16(1.2 * to_double(x.h.k.at(wanted, c)));
  }
}

/// Columns of V and dO in pairs whose products are large and cancel but for the last bits.
void cancelling_products(problem& x, head_maker& maker, int scale) {
  for (matrix* m : {&x.h.v, &x.d_o})
    for (std::size_t i = 0; i < m->rows; ++i)
      for (std::size_t c = 0; c + 1 < m->columns; c += 2) {
        m->at(i, c) = bf16(std::ldexp(maker.normal(), scale));
        m->at(i, c + 1) = m == &x.d_o ? m->at(i, c) : m->at(i, c).negated();
      }
}

bool same_bits(std::span<double_double const> a, std::span<double_double const> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}
bool same_bits(head_gradients const& a, head_gradients const& b) {
  return same_bits(a.delta, b.delta) && same_bits(a.dq, b.dq) && same_bits(a.dk, b.dk) && same_bits(a.dv, b.dv) && a.without_keys == b.without_keys;
}

using numbers = std::span<double_double const>;
bool all_zero(numbers x) { return std::ranges::all_of(x, [](double_double v) { return v == double_double{0}; }); }
bool all_nan(numbers x) { return std::ranges::all_of(x, [](double_double v) { return std::isnan(v.hi); }); }
bool all_finite(numbers x) { return std::ranges::all_of(x, [](double_double v) { return std::isfinite(v.hi); }); }
numbers row_of(std::vector<double_double> const& m, std::size_t i, std::size_t columns) { return std::span(m).subspan(i * columns, columns); }

/// NaN for the rows first … last, as before for the others. d = 4.
void only_rows_are_nan(head_gradients const& got, head_gradients const& before, std::size_t first, std::size_t last) {
  for (std::size_t i = 0; i < got.delta.size(); ++i) {
    const bool nan = first <= i && i <= last;
    CHECK(std::isnan(got.delta[i].hi) == nan);
    CHECK((nan ? all_nan(row_of(got.dq, i, 4)) : same_bits(row_of(got.dq, i, 4), row_of(before.dq, i, 4))));
  }
}
/// NaN for the first elements up to row `last`, as before from there on.
void only_keys_are_nan(std::vector<double_double> const& got, std::vector<double_double> const& before, std::size_t columns, std::size_t last) {
  const std::size_t nans = (last + 1) * columns;
  CHECK((all_nan(numbers(got).first(nans)) && same_bits(numbers(got).subspan(nans), numbers(before).subspan(nans))));
}

constexpr mask_alignment masks[] = {mask_alignment::none, mask_alignment::bottom_right, mask_alignment::top_left};

}  // namespace

TEST_CASE("exact_gradients: results, and sums of dS and dK over keys, within their bounds, 9 kinds x 24 heads up to 7 x 75, d 1..20, seed 21",
          "[exact][unit]") {
  head_maker maker(21);
  for (kind what : all_kinds) {
    parts seen;
    for (int n = 0; n < 24; ++n) {
      const head h = maker.make(what);
      problem x{h, {h.q.rows, h.v.columns}};
      const bool any = what == kind::all_exponents, wide = what == kind::wide_exponents;
      x.d_o.fill([&] { return any ? maker.with_exponent(0, 254) : wide ? maker.with_exponent(60, 190) : bf16(maker.normal()); });
      if (n % 4 == 0) x.h.v.fill([&] { return maker.with_exponent(0, 0); });
      if (n % 6 == 0) x.d_o.fill([&] { return maker.with_exponent(0, 0); });
      measure(x, seen);
    }
    seen.check(name_of(what));
  }
}

TEST_CASE("exact_gradients: one-hot rows on a mean key, cancelling products, all scales within the bounds, three masks, seed 22", "[exact][unit]") {
  head_maker maker(22);
  parts one_hot, cancelling, scales, few_bits;
  for (int n = 0; n < 12; ++n) {
    const mask_alignment mask = masks[n % 3];
    problem x = gaussian(maker, maker.pick(1, 9), maker.pick(1, 30), maker.pick(4, 32), maker.pick(2, 6), mask);
    problem y = x, subnormal = x;
    one_hot_with_mean_key(x, maker, n % 2 ? 1 : 6);
    measure(x, one_hot);
    for (int scale : {2, 40, 110}) {
      cancelling_products(x, maker, scale), measure(x, cancelling);
      cancelling_products(y, maker, scale), measure(y, cancelling);
    }
    for (double scale : {0x1p-1000, 0x1p-60, 0x1p-8, 8.0, 0x1p50, 0x1p300}) y.h.scale = scale, measure(y, scales);
    for (matrix* m : {&subnormal.h.q, &subnormal.h.k, &subnormal.h.v, &subnormal.d_o}) m->fill([&] { return maker.with_exponent(0, 0); });
    subnormal.h.scale = n % 2 ? 1 : 0x1p258;
    measure(subnormal, few_bits);
  }
  one_hot.check("one-hot"), cancelling.check("cancelling"), scales.check("scales"), few_bits.check("subnormal");
}

TEST_CASE("exact_gradients: more rows than a band, 150 x 20 and 70 x 45, gaussian and one-hot, within the bounds, seed 23", "[exact][unit]") {
  head_maker maker(23);
  parts seen;
  for (mask_alignment mask : masks)
    for (auto [s, s_k] : {std::pair{150, 20}, std::pair{70, 45}}) {
      problem x = gaussian(maker, std::size_t(s), std::size_t(s_k), 5, 3, mask);
      measure(x, seen);
      one_hot_with_mean_key(x, maker, 3);
      measure(x, seen);
    }
  seen.check("more than a band");
}

TEST_CASE("exact_gradients: both dS of a row of two keys have 2^-90 of their own size, weights down to e^-600", "[exact][unit]") {
  // Both dP are 2^120 + 3·2^60 + 2^-18 and a little more: 140 bits, and the keys differ in the last.
  problem x{{matrix(1, 1), matrix(2, 1), matrix(2, 3), 1, mask_alignment::none}, matrix(1, 3)};
  x.h.q.at(0, 0) = bf16(1);
  x.h.k.at(0, 0) = bf16(0);
  x.d_o.at(0, 0) = x.d_o.at(0, 1) = bf16(0x1p60), x.d_o.at(0, 2) = bf16(0x1p-20);
  for (std::size_t j : {0, 1}) x.h.v.at(j, 0) = bf16(0x1p60), x.h.v.at(j, 1) = bf16(3), x.h.v.at(j, 2) = bf16(4 + double(j) / 32);
  worst seen;
  std::vector<double_double> p(2), dp(2), ds(2), dq(1);
  for (int distance = 0; distance <= 600; distance += 4) {
    x.h.k.at(1, 0) = bf16(-distance);
    x.gradients().evaluate_row(0, p, dp, ds, dq);
    const big weight = mp::exp(big(to_double(x.h.k.at(1, 0))));
    const big truth = weight / ((1 + weight) * (1 + weight)) * pow2_big(-25);
    seen.see(value_of(ds[0]) + truth, truth, "the winner");
    seen.see(value_of(ds[1]) - truth, truth, "the other");
  }
  WARN(seen.text("dS"));
  CHECK(seen.ratio() <= pow2_big(-90));
}

TEST_CASE("exact_gradients: one and two threads, and single rows, give the same bits, 200 x 150, d = 24, three masks, seed 25", "[exact][unit]") {
  head_maker maker(25);
  const int threads_before = omp_get_max_threads();
  for (mask_alignment mask : masks) {
    problem x = gaussian(maker, 200, 150, 24, 10, mask);
    one_hot_with_mean_key(x, maker, 0.2);
    const exact_gradients gradients = x.gradients();
    omp_set_num_threads(1);
    const head_gradients one = gradients.evaluate();
    omp_set_num_threads(2);
    const head_gradients two = gradients.evaluate();
    omp_set_num_threads(threads_before);
    CHECK(same_bits(one, two));
    std::vector<double_double> p(150), dp(150), ds(150), dq(24);
    int different = 0;
    for (std::size_t i = 200; i-- > 0;)
      different += !(gradients.evaluate_row(i, p, dp, ds, dq).delta == one.delta[i]) || !same_bits(dq, row_of(one.dq, i, 24));
    CHECK(different == 0);
  }
}

TEST_CASE("exact_gradients: a row of one key has dS, dQ and dK 0 and P 1; equal rows of V have dS 0", "[exact][unit]") {
  head_maker maker(26);
  problem x = gaussian(maker, 5, 1, 8, 4, mask_alignment::none);
  const head_gradients got = x.gradients().evaluate();
  CHECK((all_zero(got.dq) && all_zero(got.dk)));
  const big sum = element(x.d_o, 0, 1) + element(x.d_o, 1, 1) + element(x.d_o, 2, 1) + element(x.d_o, 3, 1) + element(x.d_o, 4, 1);
  CHECK(value_of(got.dv[1]) == sum);
  for (std::size_t i = 0; i < 5; ++i) CHECK(value_of(got.delta[i]) == dot(x.d_o, i, x.h.v, 0));

  problem y = gaussian(maker, 5, 9, 8, 4, mask_alignment::none);
  for (std::size_t j = 1; j < 9; ++j)
    for (std::size_t c = 0; c < 4; ++c) y.h.v.at(j, c) = bf16(to_double(y.h.v.at(0, c)));
  CHECK(all_zero(y.gradients().evaluate().dq));
}

TEST_CASE("exact_gradients: rows without keys have delta and dQ 0 and add nothing, even with NaN in Q and dO", "[exact][unit]") {
  head_maker maker(27);
  problem x = gaussian(maker, 9, 4, 6, 3, mask_alignment::bottom_right);  // rows 0 … 4 see nothing
  const head_gradients clean = x.gradients().evaluate();
  for (std::size_t i = 0; i < 5; ++i) x.h.q.at(i, 1) = bf16_code::nan(), x.d_o.at(i, 2) = bf16_code::infinity();
  const head_gradients got = x.gradients().evaluate();
  CHECK(same_bits(clean, got));
  for (std::size_t i = 0; i < 9; ++i) CHECK((got.without_keys[i] != 0) == (i < 5));
  CHECK(all_zero(std::span(got.dq).first(5 * 6)));
  CHECK(got.delta[4] == double_double{0});
}

TEST_CASE("exact_gradients: NaN and infinity reach what their rows and keys reach, nothing else", "[exact][unit]") {
  head_maker maker(28);
  const std::size_t d = 4, d_v = 3;
  // Row i sees the keys 0 … i. Row 2 is spoiled: the keys 0, 1, 2 and the row itself may differ. Key 4 is spoiled: the rows 4 and 5.
  problem x = gaussian(maker, 6, 6, d, d_v, mask_alignment::top_left);
  const head_gradients clean = x.gradients().evaluate();
  SECTION("a NaN or infinite score") {
    x.h.q.at(2, 1) = GENERATE(0, 1) ? bf16_code::nan() : bf16_code::infinity();
    const head_gradients got = x.gradients().evaluate();
    only_rows_are_nan(got, clean, 2, 2);
    only_keys_are_nan(got.dk, clean.dk, d, 2);
    only_keys_are_nan(got.dv, clean.dv, d_v, 2);
  }
  SECTION("dO: dV keeps the infinity in its column") {
    const double value = GENERATE(false, true) ? -infinity : infinity;
    x.d_o.at(2, 1) = bf16(value);
    const head_gradients got = x.gradients().evaluate();
    only_rows_are_nan(got, clean, 2, 2);
    only_keys_are_nan(got.dk, clean.dk, d, 2);
    for (std::size_t e = 0; e < 6 * d_v; ++e) CHECK(got.dv[e] == (e % d_v == 1 && e / d_v <= 2 ? double_double{value} : clean.dv[e]));
    x.d_o.at(3, 1) = bf16(-value);
    CHECK(std::isnan(x.gradients().evaluate().dv[1].hi));
    CHECK(x.gradients().evaluate().dv[3 * d_v + 1] == double_double{-value});
  }
  SECTION("V: only dP of the rows that see the key; P and dV stand") {
    x.h.v.at(4, 0) = GENERATE(0, 1) ? bf16_code::nan() : bf16_code::infinity();
    const head_gradients got = x.gradients().evaluate();
    only_rows_are_nan(got, clean, 4, 5);
    only_keys_are_nan(got.dk, clean.dk, d, 5);
    CHECK(same_bits(got.dv, clean.dv));
    std::vector<double_double> p(6), dp(6), ds(6), dq(d);
    const gradient_row row = x.gradients().evaluate_row(4, p, dp, ds, dq);
    CHECK((row.softmax_determined && !row.determined));
    CHECK(all_finite(std::span(p).first(5)));
    CHECK(all_nan(std::span(ds).first(5)));
  }
  SECTION("a score -infinity weighs nothing, and 0 times the infinite K is NaN in its column of dQ") {
    for (std::size_t i = 0; i < 6; ++i) x.h.q.at(i, 2) = bf16(1);
    problem without = x;
    x.h.k.at(4, 2) = bf16(-infinity);
    x.d_o.at(5, 0) = bf16(infinity);
    const head_gradients got = x.gradients().evaluate();
    CHECK(std::isfinite(got.delta[4].hi));
    CHECK(std::isnan(got.dq[4 * d + 2].hi));
    CHECK(all_finite(row_of(got.dq, 4, d).first(2)));
    CHECK(all_nan(row_of(got.dq, 5, d)));
    CHECK(std::isnan(got.dv[4 * d_v].hi));                     // 0·infinity
    CHECK(got.dv[4 * d_v + 1] == double_double{0});            // rows 4 and 5 weigh the key 0
    CHECK(got.dv[3 * d_v] == double_double{infinity});
    without.h.k.at(4, 2) = bf16(-0x1p100);                     // weighs nothing that a double holds
    CHECK(got.delta[4] == without.gradients().evaluate().delta[4]);
  }
}

TEST_CASE("exact_gradients: wrong shapes and ranges are refused", "[exact][unit]") {
  head_maker maker(29);
  const problem x = gaussian(maker, 2, 4, 3, 5, mask_alignment::none);
  const matrix other(3, 5), narrow(2, 4);
  const auto make = [&](matrix const& k, matrix const& v, matrix const& d_o, double scale) {
    return exact_gradients(x.h.q.view(), k.view(), v.view(), d_o.view(), scale, mask_alignment::none);
  };
  CHECK_THROWS_AS(make(x.h.v, x.h.v, x.d_o, 1), std::invalid_argument);
  CHECK_THROWS_AS(make(x.h.k, other, x.d_o, 1), std::invalid_argument);
  CHECK_THROWS_AS(make(x.h.k, x.h.v, other, 1), std::invalid_argument);
  CHECK_THROWS_AS(make(x.h.k, x.h.v, narrow, 1), std::invalid_argument);
  CHECK_THROWS_AS(make(x.h.k, x.h.v, x.d_o, 0), std::invalid_argument);
  std::vector<double_double> four(4), three(3);
  CHECK_THROWS_AS(x.gradients().evaluate_row(2, four, four, four, three), std::out_of_range);
  CHECK_THROWS_AS(x.gradients().evaluate_row(0, four, three, four, three), std::invalid_argument);
  CHECK_THROWS_AS(x.gradients().evaluate_row(0, four, four, four, four), std::invalid_argument);
}
