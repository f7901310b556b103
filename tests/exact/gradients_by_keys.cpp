// Keys of a row by themselves, from the sums that the whole row gave.
#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "inputs.hpp"
#include "measure.hpp"
#include "stickybit/exact/gradients.hpp"
#include "stickybit/format/value.hpp"
#include "support/catch.hpp"

using namespace stickybit;
using namespace stickybit_test;

namespace {

/// evaluate_keys() in pieces of `width` against evaluate_row(): as a part of the error that P's exp and the roundings allow.
void compare_pieces(head const& h, matrix const& d_o, std::size_t width, worst& seen) {
  const exact_gradients g(h.q.view(), h.k.view(), h.v.view(), d_o.view(), h.scale, h.mask);
  const head_gradients whole = g.evaluate();
  const std::size_t s_k = h.k.rows;
  std::vector<double_double> p(s_k), dp(s_k), ds(s_k), dq(h.q.columns);
  for (std::size_t i = 0; i < h.q.rows; ++i) {
    const gradient_row row = g.evaluate_row(i, p, dp, ds, dq);
    REQUIRE(whole.rows[i].reference == row.reference);
    const big part = pow2_big(-91), least = pow2_big(-1060) * (1 + mp::abs(value_of(row.mean)));
    for (std::size_t first = 0; first < row.visible; first += width) {
      const std::size_t n = std::min(width, row.visible - first);
      std::vector<double_double> one_p(n), one_dp(n), one_ds(n);
      g.evaluate_keys(i, whole.rows[i], first, one_p, one_dp, one_ds);
      for (std::size_t j = 0; j < n; ++j) {
        const big weight = value_of(p[first + j]), score = value_of(ds[first + j]), product = value_of(dp[first + j]);
        seen.see(value_of(one_p[j]) - weight, part * weight + least);
        seen.see(value_of(one_dp[j]) - product, pow2_big(-102) * mp::abs(product));
        seen.see(value_of(one_ds[j]) - score, part * (mp::abs(score) + weight * mp::abs(value_of(row.mean))) + least * (1 + mp::abs(product)));
      }
    }
  }
}

}  // namespace

TEST_CASE("exact_gradients: keys by themselves are the row's, in pieces of 1, 7 and 40, 9 kinds x 8 heads up to 7 x 75, seed 31", "[exact][unit]") {
  head_maker maker(31);
  for (kind what : all_kinds) {
    worst seen;
    for (int n = 0; n < 8; ++n) {
      const head h = maker.make(what);
      matrix d_o(h.q.rows, h.v.columns);
      d_o.fill([&] { return what == kind::wide_exponents ? maker.with_exponent(60, 190) : bf16(maker.normal()); });
      for (std::size_t width : {1, 7, 40}) compare_pieces(h, d_o, width, seen);
    }
    WARN(seen.text(std::string(name_of(what))));
    CHECK(seen.ratio() <= 1);
  }
}

TEST_CASE("exact_gradients: both dS of a row of two keys have 2^-90 of their own size, key by key, whatever cancels in the products", "[exact][unit]") {
  // Both scores and both dP are 2^120 + 3·2^60 and a little more: 140 bits, and the keys differ below the 106 of a double_double.
  matrix q(1, 3), k(2, 3), v(2, 3), d_o(1, 3);
  for (matrix* m : {&q, &d_o}) m->at(0, 0) = m->at(0, 1) = bf16(0x1p60), m->at(0, 2) = bf16(0x1p-20);
  for (std::size_t j : {0, 1})
    for (matrix* m : {&k, &v}) m->at(j, 0) = bf16(0x1p60), m->at(j, 1) = bf16(3);
  k.at(0, 2) = bf16(0);
  for (std::size_t j : {0, 1}) v.at(j, 2) = bf16(4 + double(j) / 32);
  worst seen;
  for (int distance = 0; distance <= 600; distance += 4) {
    k.at(1, 2) = bf16(-distance * 0x1p20);
    const exact_gradients g(q.view(), k.view(), v.view(), d_o.view(), 1, mask_alignment::none);
    const head_gradients whole = g.evaluate();
    const big weight = mp::exp(big(to_double(k.at(1, 2))) * pow2_big(-20)), truth = weight / ((1 + weight) * (1 + weight)) * pow2_big(-25);
    for (std::size_t j : {0, 1}) {
      double_double p, dp, ds;
      g.evaluate_keys(0, whole.rows[0], j, {&p, 1}, {&dp, 1}, {&ds, 1});
      seen.see(value_of(p) - (j == 0 ? 1 : weight) / (1 + weight), (j == 0 ? 1 : weight) / (1 + weight), "P");
      seen.see(value_of(ds) + (j == 0 ? truth : big(-truth)), truth, j == 0 ? "the winner" : "the other");
    }
  }
  WARN(seen.text("P and dS"));
  CHECK(seen.ratio() <= pow2_big(-90));
}

TEST_CASE("exact_gradients: keys by themselves of a row that is not determined are NaN, their dP stands", "[exact][unit]") {
  matrix q(2, 1), k(3, 1), v(3, 1), d_o(2, 1);
  for (matrix* m : {&q, &k, &v, &d_o}) m->fill([] { return bf16(1); });
  v.at(2, 0) = bf16_code::infinity();
  q.at(1, 0) = bf16_code::nan();
  const exact_gradients g(q.view(), k.view(), v.view(), d_o.view(), 1, mask_alignment::none);
  const head_gradients whole = g.evaluate();
  std::vector<double_double> p(2), dp(2), ds(2);
  g.evaluate_keys(0, whole.rows[0], 1, p, dp, ds);
  CHECK(p[0].hi == Approx(1.0 / 3));
  CHECK(dp[0] == double_double{1});
  CHECK(std::isinf(dp[1].hi));
  CHECK((std::isnan(ds[0].hi) && std::isnan(ds[1].hi)));
  g.evaluate_keys(1, whole.rows[1], 1, p, dp, ds);
  CHECK((std::isnan(p[0].hi) && std::isnan(ds[0].hi)));
  CHECK(dp[0] == double_double{1});
}

TEST_CASE("exact_gradients: keys by themselves outside what the row sees are refused", "[exact][unit]") {
  matrix q(2, 1), k(2, 1), v(2, 1), d_o(2, 1);
  const exact_gradients g(q.view(), k.view(), v.view(), d_o.view(), 1, mask_alignment::top_left);
  const head_gradients whole = g.evaluate();
  std::vector<double_double> one(1), two(2);
  CHECK_THROWS_AS(g.evaluate_keys(2, whole.rows[1], 0, one, one, one), std::out_of_range);
  CHECK_THROWS_AS(g.evaluate_keys(0, whole.rows[0], 0, two, two, two), std::invalid_argument);
  CHECK_THROWS_AS(g.evaluate_keys(0, whole.rows[0], 2, one, one, one), std::invalid_argument);
  CHECK_THROWS_AS(g.evaluate_keys(1, whole.rows[1], 0, one, two, one), std::invalid_argument);
  CHECK_NOTHROW(g.evaluate_keys(1, whole.rows[1], 0, two, two, two));
}
