#include "stickybit/exact/attention.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "inputs.hpp"
#include "measure.hpp"
#include "stickybit/format/value.hpp"
#include "support/catch.hpp"

using namespace stickybit;
using namespace stickybit_test;

namespace {

/// The rule written out key by key: j ≤ i + s_k − s, j ≤ i, all.
bool sees(head const& h, std::size_t i, std::size_t j) {
  const auto row = std::int64_t(i), key = std::int64_t(j), shift = std::int64_t(h.k.rows) - std::int64_t(h.q.rows);
  return h.mask == mask_alignment::none || key <= row + (h.mask == mask_alignment::bottom_right ? shift : 0);
}

/// One row by the formula, in 640 bits.
struct oracle_row {
  bool any = false;
  big lse = 0, lse_terms = 0;      ///< terms: |scale·max| + 1
  std::vector<big> o, sum, largest;  ///< per column: O, Σ|P·V|, max|P·V|
};

oracle_row oracle(head const& h, std::size_t i) {
  std::vector<std::size_t> keys;
  std::vector<big> scores;
  for (std::size_t j = 0; j < h.k.rows; ++j) {
    if (!sees(h, i, j)) continue;
    big score = 0;
    for (std::size_t c = 0; c < h.q.columns; ++c) score += big(to_double(h.q.at(i, c))) * big(to_double(h.k.at(j, c)));
    keys.push_back(j);
    scores.push_back(score * big(h.scale));
  }
  oracle_row row;
  row.o.resize(h.v.columns), row.sum.resize(h.v.columns), row.largest.resize(h.v.columns);
  if (keys.empty()) return row;
  row.any = true;
  const big top = *std::max_element(scores.begin(), scores.end());
  std::vector<big> weights;
  big total = 0;
  for (big const& score : scores) {
    // e^-5000 is below every bound here, 2^-1074 included.
    weights.push_back(score - top < -5000 ? big(0) : mp::exp(score - top));
    total += weights.back();
  }
  row.lse = top + mp::log(total);
  row.lse_terms = mp::abs(top) + 1;
  for (std::size_t c = 0; c < h.v.columns; ++c)
    for (std::size_t t = 0; t < keys.size(); ++t) {
      const big term = weights[t] * big(to_double(h.v.at(keys[t], c))) / total;
      row.o[c] += term;
      row.sum[c] += mp::abs(term);
      row.largest[c] = std::max(row.largest[c], big(mp::abs(term)));
    }
  return row;
}

bool same_bits(std::vector<double_double> const& a, std::vector<double_double> const& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(double_double)) == 0);
}

}  // namespace

TEST_CASE("visible_keys: the mask written out, every s and s_k up to 12, three alignments", "[exact][exhaustive]") {
  int wrong = 0;
  for (std::size_t s = 1; s <= 12; ++s)
    for (std::size_t keys = 0; keys <= 12; ++keys)
      for (mask_alignment mask : {mask_alignment::none, mask_alignment::bottom_right, mask_alignment::top_left}) {
        const head h{matrix(s, 1), matrix(keys, 1), matrix(keys, 1), 1, mask};
        for (std::size_t i = 0; i < s; ++i)
          for (std::size_t j = 0; j < keys; ++j) wrong += sees(h, i, j) != (j < visible_keys(mask, i, s, keys));
      }
  CHECK(wrong == 0);
}

TEST_CASE("exact_attention: O and lse within their bounds, 9 kinds x 60 heads, s 1..7, s_k 1..75, d 1..20, d_v 1..6, three masks, seed 11",
          "[exact][unit]") {
  head_maker maker(11);
  std::size_t rows_without_keys = 0;
  for (kind what : all_kinds) {
    worst of_bound, of_largest, of_lse;
    for (int n = 0; n < 60; ++n) {
      const head h = maker.make(what);
      const exact_rows got = exact_attention(h.q.view(), h.k.view(), h.v.view(), h.scale, h.mask).evaluate();
      std::size_t without = 0;
      for (std::size_t i = 0; i < h.q.rows; ++i) {
        const oracle_row truth = oracle(h, i);
        without += !truth.any;
        REQUIRE((got.without_keys[i] != 0) == !truth.any);
        if (!truth.any) REQUIRE(got.lse[i] == double_double{-std::numeric_limits<double>::infinity()});
        else of_lse.see(value_of(got.lse[i]) - truth.lse, truth.lse_terms);
        const big part = pow2_big(-92) + big(h.k.rows) * pow2_big(-108);
        // 2^-900 leaves room for V up to 2^128 times weights that end at 2^-1074.
        const big absolute = pow2_big(-900);
        for (std::size_t c = 0; c < h.v.columns; ++c) {
          const big error = value_of(got.o[i * h.v.columns + c]) - truth.o[c];
          of_bound.see(error, part * truth.sum[c] + absolute, std::string(name_of(what)));
          of_largest.see(error, truth.any ? truth.largest[c] + absolute * pow2_big(75) : big(0));
        }
      }
      REQUIRE(got.count_without_keys == without);
      rows_without_keys += without;
    }
    WARN(std::string(name_of(what)) << ": " << of_largest.text("O against its largest term") << "; " << of_lse.text("lse"));
    CHECK(of_bound.ratio() <= 1);
    CHECK(of_largest.ratio() <= pow2_big(-75));
    CHECK(of_lse.ratio() <= pow2_big(-92));
  }
  CAPTURE(rows_without_keys);
  CHECK(rows_without_keys > 50);
}

TEST_CASE("exact_attention: 3 rows of 3000 keys, scores within 2 and within 400, seed 14", "[exact][unit]") {
  head_maker maker(14);
  for (double spread : {0.2, 30.0}) {
    head h{matrix(3, 6), matrix(3000, 6), matrix(3000, 2), 1, mask_alignment::bottom_right};
    h.q.fill([&] { return bf16(maker.normal() * spread); });
    h.k.fill([&] { return bf16(maker.normal()); });
    h.v.fill([&] { return bf16(maker.normal()); });
    const exact_rows got = exact_attention(h.q.view(), h.k.view(), h.v.view(), h.scale, h.mask).evaluate();
    worst of_largest, of_lse;
    for (std::size_t i = 0; i < h.q.rows; ++i) {
      const oracle_row truth = oracle(h, i);
      of_lse.see(value_of(got.lse[i]) - truth.lse, truth.lse_terms);
      for (std::size_t c = 0; c < h.v.columns; ++c) of_largest.see(value_of(got.o[i * h.v.columns + c]) - truth.o[c], truth.largest[c]);
    }
    WARN("spread " << spread << ": " << of_largest.text("O against its largest term") << "; " << of_lse.text("lse"));
    CHECK(of_largest.ratio() <= pow2_big(-79));
    CHECK(of_lse.ratio() <= pow2_big(-92));
  }
}

TEST_CASE("exact_attention: a term that weighs 2^-1000 is still within the absolute bound", "[exact][unit]") {
  // Two keys, scores 0 and −x; V is 0 at the first, so O is the tiny weight times V alone.
  head h{matrix(1, 1), matrix(2, 1), matrix(2, 2), 1, mask_alignment::none};
  h.q.at(0, 0) = bf16(1);
  h.k.at(0, 0) = bf16(0);
  h.v.fill([] { return bf16_code::zero(); });
  h.v.at(1, 0) = bf16(1.5);
  h.v.at(1, 1) = bf16_code::from_bits(0x7f7f);  // the largest finite number, below 2^128
  worst tiny, huge;
  for (int x = 600; x < 760; x += 4) {
    h.k.at(1, 0) = bf16(-x);
    REQUIRE(to_double(h.k.at(1, 0)) == -x);
    const exact_rows got = exact_attention(h.q.view(), h.k.view(), h.v.view(), h.scale, h.mask).evaluate();
    const oracle_row truth = oracle(h, 0);
    tiny.see(value_of(got.o[0]) - truth.o[0], pow2_big(-92) * truth.sum[0] + 2 * pow2_big(-1070));
    huge.see(value_of(got.o[1]) - truth.o[1], pow2_big(-92) * truth.sum[1] + 2 * pow2_big(-1070 + 128));
  }
  WARN(tiny.text("V = 1.5, part of the bound") << "; " << huge.text("V = 2^128"));
  CHECK(tiny.ratio() <= 1);
  CHECK(huge.ratio() <= 1);
}

TEST_CASE("exact_attention: a range of rows has the bits of the whole, 30 heads, seed 12", "[exact][unit]") {
  head_maker maker(12);
  for (int n = 0; n < 30; ++n) {
    const head h = maker.make(kind::gaussian);
    const exact_attention attention(h.q.view(), h.k.view(), h.v.view(), h.scale, h.mask);
    const exact_rows whole = attention.evaluate();
    exact_rows parts;
    for (std::size_t i = 0; i < h.q.rows; ++i) {
      const exact_rows one = attention.evaluate(i, 1);
      parts.o.insert(parts.o.end(), one.o.begin(), one.o.end());
      parts.lse.insert(parts.lse.end(), one.lse.begin(), one.lse.end());
    }
    CHECK(same_bits(whole.o, parts.o));
    CHECK(same_bits(whole.lse, parts.lse));
  }
}

TEST_CASE("exact_attention: wrong shapes, scales and ranges are refused", "[exact][unit]") {
  matrix q(2, 3), k(4, 3), v(4, 2), other(3, 2);
  for (matrix* m : {&q, &k, &v}) m->fill([] { return bf16(1); });
  const auto make = [](matrix const& a, matrix const& b, matrix const& c, double scale) {
    return exact_attention(a.view(), b.view(), c.view(), scale, mask_alignment::none);
  };
  CHECK_THROWS_AS(make(q, v, v, 1), std::invalid_argument);
  CHECK_THROWS_AS(make(q, k, other, 1), std::invalid_argument);
  for (double scale : {0.0, -1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
    CHECK_THROWS_AS(make(q, k, v, scale), std::invalid_argument);
  CHECK_THROWS_AS(make(q, k, v, 1).evaluate(1, 2), std::out_of_range);
  CHECK(make(q, k, v, 1).evaluate(2, 0).o.empty());
}
