// Early warnings: each number against a small computation of its own, from its definition, in another order and with other means.
#include "stickybit/bias/warnings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <set>

#include "stickybit/attention/exact_head.hpp"
#include "stickybit/bias/statistics.hpp"
#include "stickybit/fix/fix.hpp"
#include "stickybit/format/value.hpp"
#include "support/catch.hpp"
#include "support/random_calls.hpp"
#include "support/recorded.hpp"

using namespace stickybit;

namespace {

attention_schedule const& fa3() { return attention_schedule_named("fa3"); }

/// Scores of one row in long double; the codes' products are exact in it and their sums nearly.
std::vector<long double> scores_of(attention_problem const& p, std::int64_t b, std::int64_t head, std::int64_t row, std::size_t visible) {
  std::vector<long double> s(visible);
  for (std::size_t j = 0; j < visible; ++j)
    for (std::int64_t c = 0; c < p.head_dim; ++c)
      s[j] += static_cast<long double>(to_double(p.q[std::size_t(p.query_strides().offset(b, head, row) + c)])) *
              static_cast<long double>(to_double(p.k[std::size_t(p.key_strides().offset(b, p.key_head_of(head), std::int64_t(j)) + c)]));
  return s;
}

struct counted {
  double rows = 0, repeated = 0, near = 0, bf16 = 0, at_one = 0, visible = 0, largest = 0;
};

counted count_by_hand(attention_problem const& p, mask_alignment mask) {
  counted all;
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t head = 0; head < p.heads; ++head)
      for (std::int64_t row = 0; row < p.queries; ++row) {
        const std::size_t visible = visible_keys(mask, std::size_t(row), std::size_t(p.queries), std::size_t(p.keys));
        const std::vector<long double> s = scores_of(p, b, head, row, visible);
        for (long double x : s) all.largest = std::max(all.largest, double(std::fabs(x) * static_cast<long double>(p.softmax_scale) * 1.44269504088896340736L));
        if (visible < 2) continue;
        const long double top = *std::max_element(s.begin(), s.end());
        const auto within = [&](long double distance) { return std::count_if(s.begin(), s.end(), [&](long double x) { return (top - x) * static_cast<long double>(p.softmax_scale) <= distance; }); };
        long double sum = 0;
        for (long double x : s) sum += std::exp((x - top) * static_cast<long double>(p.softmax_scale));
        all.rows += 1;
        all.visible += double(visible);
        all.repeated += within(0) > 1;
        all.near += within(1e-3L) > 1;
        all.bf16 += within(-std::log1p(-0x1p-9L)) > 1;
        all.at_one += 1 / sum >= 1 - 0x1p-9L;
      }
  return all;
}

/// Keys 2n and 2n + 1 are equal for one row in three: some maxima repeat, some do not.
attention_problem mixed_call(bool causal, double sharpness, std::uint64_t seed) {
  attention_problem p = call_of(40, 56, 64, causal);
  p.heads = 2;
  p.batch = 2;
  p.key_heads = 1;
  p.layout = tensor_layout::b_s_h_d;
  std::mt19937_64 random(seed);
  fill(p, regime::gauss, random);
  for (bf16_code& q : p.q) q = convert<format::bf16>(code_of(float(to_double(q) * sharpness)));
  for (std::int64_t key = 0; key + 1 < p.keys; key += 6) std::copy_n(p.k.begin() + p.key_strides().offset(0, 0, key), p.head_dim, p.k.begin() + p.key_strides().offset(0, 0, key + 1));
  p.d_o = random_codes(p.q.size(), 1, random);
  return p;
}

}  // namespace

TEST_CASE("warnings: shares of rows and weights, and the largest exponent, equal a count in long double; 12 calls, causal and not", "[bias]") {
  for (bool causal : {false, true})
    for (double sharpness : {0.02, 1.0, 6.0})
      for (std::uint64_t seed : {1u, 2u}) {
        CAPTURE(causal, sharpness, seed);
        const attention_problem p = mixed_call(causal, sharpness, seed);
        const early_warnings w = warnings_of_inputs(fa3(), p);
        const counted expected = count_by_hand(p, mask_of(fa3(), p));
        CHECK(w.repeated_maxima == expected.repeated / expected.rows);
        CHECK(w.repeated_maxima_near == expected.near / expected.rows);
        CHECK(w.repeated_maxima_bf16 == expected.bf16 / expected.rows);
        CHECK(w.rows_at_one == expected.at_one / expected.rows);
        CHECK(w.weights_at_one == expected.at_one / expected.visible);
        CHECK(w.largest_exponent == Approx(expected.largest).epsilon(1e-12));
        CHECK(w.exponent_ulp == std::ldexp(1.0, std::ilogb(expected.largest) - 23));
        CHECK(w.rows == 160);
        if (sharpness > 0.5) CHECK(w.repeated_maxima > 0);
        if (sharpness > 0.5) CHECK(w.repeated_maxima < 1);
        if (sharpness > 5) CHECK(w.rows_at_one > 0);
      }
}

TEST_CASE("warnings: the mean key over the spread of keys is that of the head where it is largest, over keys that some row sees", "[bias]") {
  attention_problem p = call_of(3, 4, 64, false);
  p.key_heads = p.heads = 2;
  std::mt19937_64 random(4);
  fill(p, regime::gauss, random);
  // Head 0: the keys are ±e + 3u in turn: |mean| = 3·8, spread 8, with u and e all ones. Head 1: no mean.
  for (std::int64_t key = 0; key < 4; ++key)
    for (std::int64_t c = 0; c < 64; ++c) {
      const double sign = key % 2 == 0 ? 1 : -1;
      p.k[std::size_t(p.key_strides().offset(0, 0, key) + c)] = convert<format::bf16>(code_of(float(3 + sign)));
      p.k[std::size_t(p.key_strides().offset(0, 1, key) + c)] = convert<format::bf16>(code_of(float(sign)));
    }
  const early_warnings w = warnings_of_inputs(fa3(), p);
  CHECK(w.key_mean_over_spread == Approx(3));
  REQUIRE(w.key_mean_by_head.size() == 2);
  CHECK(w.key_mean_by_head[1] == Approx(0).margin(1e-12));
  CHECK(w.raised(warning_kind::key_mean_over_spread));
  // Smoothed keys have no mean.
  CHECK(warnings_of_inputs(with_fixes(fa3(), "k-smooth"), p).key_mean_over_spread < 0.01);
  // A causal call of fewer queries than keys sees all keys (bottom right); cuDNN's mask shows the first three alone.
  attention_problem causal = p;
  causal.causal = true;
  CHECK(warnings_of_inputs(fa3(), causal).key_mean_over_spread == Approx(3));
  const double mean = 3 + 1.0 / 3, spread = std::sqrt(8.0 / 9);
  CHECK(warnings_of_inputs(attention_schedule_named("cudnn"), causal).key_mean_over_spread == Approx(mean / spread));
}

TEST_CASE("warnings: rows without keys, of one key, and with NaN or infinite scores are counted apart", "[bias]") {
  attention_problem p = call_of(5, 3, 64, true);  // rows 0 and 1 see no key, row 2 sees one
  std::mt19937_64 random(5);
  fill(p, regime::gauss, random);
  early_warnings w = warnings_of_inputs(fa3(), p);
  CHECK(w.rows == 5);
  CHECK(w.rows_without_keys == 2);
  CHECK(w.rows_of_one_key == 1);
  CHECK(w.rows_undetermined == 0);
  CHECK(w.repeated_maxima == 0);
  p.q[4 * 64] = bf16_code::nan();
  w = warnings_of_inputs(fa3(), p);
  CHECK(w.rows_undetermined == 1);
  // Nothing at all to say.
  p.q[3 * 64] = bf16_code::nan();
  w = warnings_of_inputs(fa3(), p);
  CHECK(std::isnan(w.repeated_maxima));
  CHECK(!w.raised(warning_kind::repeated_maxima));
  CHECK(std::isnan(w.row_mass_over_dq));
}

TEST_CASE("warnings: row mass and delta's mismatch equal their definitions, from the kernel's dS, dP and delta", "[bias]") {
  for (bool causal : {false, true}) {
    CAPTURE(causal);
    const attention_problem p = mixed_call(causal, 2, 7);
    const call_reference reference(p, mask_of(fa3(), p));
    early_warnings w = warnings_of_inputs(fa3(), p);
    add_gradient_warnings(w, fa3(), reference, bias_of_gradients(fa3(), reference, {.how = engine::fast, .report = {}, .scores = false, .masses = true}));
    // The kernel's matrices, kept whole.
    const auto rows = std::size_t(p.batch * p.heads * p.queries), keys = std::size_t(p.keys), d = std::size_t(p.head_dim);
    std::vector<double> ds(rows * keys), dp(rows * keys), weights(rows * keys);
    backward_options options;
    options.scores = [&](score_block_row const& r) {
      for (std::int64_t j = 0; j < r.visible; ++j) {
        const std::size_t at = std::size_t((r.batch * p.heads + r.head) * p.queries + r.row) * keys + std::size_t(r.first_column + j);
        ds[at] = to_double(r.ds[std::size_t(j)]);
        dp[at] = to_double(r.dp[std::size_t(j)]);
        weights[at] = to_double(r.p[std::size_t(j)]);
      }
    };
    const backward_result g = attention_backward(fa3(), p, attention_forward(fa3(), p), options);
    std::vector<double> masses, mismatches;
    for (std::int64_t b = 0; b < p.batch; ++b)
      for (std::int64_t head = 0; head < p.heads; ++head)
        for (std::int64_t row = 0; row < p.queries; ++row) {
          const std::size_t i = std::size_t((b * p.heads + head) * p.queries + row);
          std::vector<double_double> x(keys), xp(keys), xs(keys), dq(d);
          const gradient_row exact = reference.gradients(b, head).evaluate_row(std::size_t(row), x, xp, xs, dq);
          double mass = 0, norm = 0, key_norm = 0;
          for (std::size_t j = 0; j < exact.visible; ++j) mass += ds[i * keys + j];
          for (std::size_t c = 0; c < d; ++c) {
            double key = 0;
            for (std::size_t j = 0; j < exact.visible; ++j) key += weights[i * keys + j] * to_double(p.k[std::size_t(p.key_strides().offset(b, 0, std::int64_t(j))) + c]);
            key_norm += key * key;
            norm += dq[c].hi * dq[c].hi;
          }
          if (norm != 0) masses.push_back(std::fabs(mass) * p.softmax_scale * std::sqrt(key_norm / norm));
          std::size_t winner = 0;
          for (std::size_t j = 1; j < exact.visible; ++j)
            if (x[j].hi > x[winner].hi) winner = j;
          const double wanted = to_double(xp[winner] - exact.delta);
          if (exact.visible > 1 && wanted != 0) mismatches.push_back(std::fabs(dp[i * keys + winner] - to_double(g.delta[i]) - wanted) / std::fabs(wanted));
        }
    CHECK(w.row_mass_over_dq == Approx(median(masses)).epsilon(1e-9));
    CHECK(w.delta_mismatch == Approx(median(mismatches)).epsilon(1e-6));
    CHECK(w.rows_without_gradient == std::int64_t(rows - masses.size()));
  }
}

TEST_CASE("warnings: without row masses there is nothing to add", "[bias]") {
  const attention_problem p = mixed_call(false, 1, 9);
  const call_reference reference(p, mask_of(fa3(), p));
  early_warnings w;
  CHECK_THROWS_AS(add_gradient_warnings(w, fa3(), reference, bias_of_gradients(fa3(), reference, {.how = engine::fast, .report = {}, .scores = false, .masses = false})), std::invalid_argument);
}

TEST_CASE("warnings: every one is described, six have a limit, and docs/risk_report.md names all", "[bias]") {
  std::ifstream in(std::string(STICKYBIT_GOLDEN_DIR) + "/../../docs/risk_report.md");
  const std::string page{std::istreambuf_iterator<char>(in), {}};
  std::set<std::string_view> names;
  int limits = 0;
  for (warning_description const& d : warning_descriptions()) {
    INFO(d.name);
    names.insert(d.name);
    limits += !std::isnan(d.limit);
    CHECK(!d.definition.empty());
    CHECK(!d.meaning.empty());
    CHECK((std::isnan(d.limit) || !d.reason.empty()));
    CHECK(page.find(fmt::format("`{}`", d.name)) != std::string::npos);
    CHECK(&describe(d.kind) == &d);
  }
  CHECK(limits == 6);
  CHECK(names.size() == warning_descriptions().size());
}

TEST_CASE("warnings: a recorded call with equal pairs of keys has a repeated maximum in every row, a normal one in none", "[bias][golden]") {
  const early_warnings ties = warnings_of_inputs(fa3(), read_problem(golden("ties_s384_d64_c0.safetensors")));
  CHECK(ties.repeated_maxima == 1);
  CHECK(ties.raised(warning_kind::repeated_maxima));
  const early_warnings gauss = warnings_of_inputs(fa3(), read_problem(golden("gauss_s64_d128_c1.safetensors")));
  CHECK(gauss.repeated_maxima == 0);
  for (warning_description const& d : warning_descriptions()) CHECK(!gauss.raised(d.kind));
}
