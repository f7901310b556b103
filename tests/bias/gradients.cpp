// The bias of the gradients: known answers, recorded calls, and the streamed matrices dP and dS.
#include "stickybit/bias/gradient_bias.hpp"

#include <cmath>
#include <limits>
#include <random>

#include "stickybit/attention/exact_head.hpp"
#include "stickybit/bias/statistics.hpp"
#include "stickybit/exact/gradients.hpp"
#include "stickybit/fix/fix.hpp"
#include "stickybit/format/text.hpp"
#include "stickybit/format/value.hpp"
#include "support/catch.hpp"
#include "support/random_calls.hpp"
#include "support/recorded.hpp"

using namespace stickybit;

namespace {

constexpr tensor_error gradient_bias::*fp32_tensors[] = {&gradient_bias::delta, &gradient_bias::dp};
constexpr tensor_error gradient_bias::*bf16_tensors[] = {&gradient_bias::ds, &gradient_bias::dq, &gradient_bias::dk, &gradient_bias::dv};

attention_problem random_call(std::int64_t batch, std::int64_t heads, std::int64_t key_heads, std::int64_t queries, std::int64_t keys, bool causal, std::uint64_t seed) {
  attention_problem p;
  p.batch = batch, p.heads = heads, p.key_heads = key_heads, p.queries = queries, p.keys = keys;
  p.head_dim = 64;
  p.layout = tensor_layout::b_h_s_d;
  p.causal = causal;
  p.softmax_scale = 0.125;
  std::mt19937_64 random(seed);
  fill(p, regime::gauss, random);
  p.d_o = random_codes(p.q.size(), 1, random);
  return p;
}

/// As late in a training run: keys with a large mean, each query close to the key that it should find, a small gradient.
/// @param pull  how close: rows are nearly one-hot from about 1 on
attention_problem late_call(std::int64_t length, double size_of_mean, double pull, std::uint64_t seed) {
  attention_problem p = random_call(1, 1, 1, length, length, false, seed);
  std::mt19937_64 random(seed + 1);
  std::normal_distribution<double> normal;
  const auto bf16 = [](double x) { return convert<format::bf16>(code_of(float(x))); };
  for (std::int64_t c = 0; c < p.head_dim; ++c) {
    const double mean = size_of_mean * normal(random);
    for (std::int64_t j = 0; j < length; ++j) {
      bf16_code& x = p.k[std::size_t(j * p.head_dim + c)];
      x = bf16(1.5 * to_double(x) + mean);
    }
    for (std::int64_t i = 0; i < length; ++i) {
      bf16_code& x = p.q[std::size_t(i * p.head_dim + c)];
      x = bf16(0.5 * to_double(x) + pull * (to_double(p.k[std::size_t(5 * i % length * p.head_dim + c)]) - mean));
    }
  }
  for (bf16_code& x : p.d_o) x = bf16(0.01 * to_double(x));
  return p;
}

/// Two tied keys and one of weight 2^-10; V in column 0 alone, dO = −1.
attention_problem tied_call() {
  attention_problem p;
  p.queries = 4, p.keys = 3, p.head_dim = 64;
  p.softmax_scale = 1;
  p.q.assign(4 * 64, bf16_code::zero());
  p.k.assign(3 * 64, bf16_code::zero());
  p.v.assign(3 * 64, bf16_code::zero());
  p.d_o.assign(4 * 64, parse_bf16("-1"));
  for (std::size_t row = 0; row < 4; ++row) p.q[row * 64] = p.q[row * 64 + 1] = parse_bf16("1");
  p.k[2 * 64] = parse_bf16("-6.9375");
  p.k[2 * 64 + 1] = parse_bf16("0.006011962890625");
  p.v[0] = parse_bf16("-2.40625");
  p.v[64] = parse_bf16("-2.296875");
  p.v[2 * 64] = parse_bf16("-0.88671875");
  return p;
}

/// A matrix [heads × queries × keys] kept whole, by its transpose: summarize() then takes rows for columns. NaN: not visible.
struct stored_matrix {
  error_samples samples;
  stored_matrix(attention_problem const& p) : samples(p.batch * p.heads, p.keys, p.queries) {}
  void put(std::int64_t head, std::int64_t row, std::int64_t key, double value, double_double exact) {
    const std::size_t at = samples.at(head, key, row);
    samples.exact[at] = exact.hi;
    samples.error[at] = value - exact.hi - exact.lo;
  }
};

void check_stream(tensor_error const& streamed, stored_matrix const& stored, format f) {
  const tensor_error whole = summarize(stored.samples, f);
  CHECK(streamed.in_ulp_of == f);
  CHECK(streamed.counted == whole.counted);
  CHECK(streamed.exact_zeros == whole.exact_zeros);
  CHECK(streamed.positive == whole.positive);
  CHECK(streamed.negative == whole.negative);
  CHECK(streamed.rms_error_ulp == Approx(whole.rms_error_ulp).epsilon(1e-9));
  running_moments means;
  std::vector<double> relative;
  std::size_t at = 0;
  for (column_error const& c : whole.columns) {
    if (c.ulp == 0) continue;  // no visible key, or exact zeros alone
    double error = 0, norm = 0;
    for (std::int64_t key = 0; key < stored.samples.rows; ++key) {
      const std::size_t i = stored.samples.at(c.head, key, c.column);
      if (std::isnan(stored.samples.error[i])) continue;
      error += stored.samples.error[i] * stored.samples.error[i];
      norm += stored.samples.exact[i] * stored.samples.exact[i];
    }
    relative.push_back(std::sqrt(error / norm));
    means.add(c.mean_ulp);
    REQUIRE(at < streamed.rows.size());
    row_error const& row = streamed.rows[at++];
    REQUIRE((row.head == c.head && row.row == c.column));
    CHECK(row.mean_ulp == Approx(c.mean_ulp).epsilon(1e-9).margin(1e-9));
    CHECK(row.relative == Approx(relative.back()).epsilon(1e-9));
  }
  CHECK(at == streamed.rows.size());
  CHECK(streamed.rows_left_out == std::int64_t(whole.columns.size() - at));
  CHECK(streamed.mean_signed_error_ulp == Approx(means.mean()).epsilon(1e-9).margin(1e-12));
  CHECK(streamed.standard_error_ulp == Approx(means.standard_error()).epsilon(1e-9));
  CHECK(streamed.median_relative_error == Approx(median(relative)).epsilon(1e-9));
}

/// dP, dS, dK and dV of the call with everything kept, against what bias_of_gradients() made of it.
void check_against_stored(attention_schedule const& schedule, attention_problem const& p) {
  const gradient_bias b = bias_of_gradients(schedule, p);
  stored_matrix dp(p), ds(p);
  error_samples dk(p.batch * p.key_heads, p.keys, p.head_dim), dv = dk;
  backward_options options;
  std::vector<std::vector<double>> values[2];  // dP and dS: [head·queries + row][key]
  for (auto& m : values) m.assign(std::size_t(p.batch * p.heads * p.queries), std::vector<double>(std::size_t(p.keys), std::numeric_limits<double>::quiet_NaN()));
  options.scores = [&](score_block_row const& r) {
    const auto row = std::size_t((r.batch * p.heads + r.head) * p.queries + r.row);
    for (std::size_t j = 0; j < r.dp.size(); ++j) {
      values[0][row][std::size_t(r.first_column) + j] = to_double(r.dp[j]);
      values[1][row][std::size_t(r.first_column) + j] = to_double(r.ds[j]);
    }
  };
  const backward_result g = attention_backward(schedule, p, attention_forward(schedule, p), options);
  const auto d = std::size_t(p.head_dim);
  std::vector<double_double> one_p(std::size_t(p.keys)), one_dp = one_p, one_ds = one_p, one_dq(d), sums[2];
  std::int64_t without_keys = 0;
  for (std::int64_t head = 0; head < p.batch * p.heads; ++head) {
    const std::int64_t key_head = head / (p.heads / p.key_heads);
    const auto view = [&](std::vector<bf16_code> const& m, std::int64_t h, std::int64_t rows) { return bf16_rows{m.data() + h * rows * p.head_dim, std::size_t(rows), d, d}; };
    const exact_gradients exact(view(p.q, head, p.queries), view(p.k, key_head, p.keys), view(p.v, key_head, p.keys), view(p.d_o, head, p.queries), p.softmax_scale, mask_of(schedule, p));
    for (std::int64_t row = 0; row < p.queries; ++row) {
      const auto visible = std::int64_t(exact.evaluate_row(std::size_t(row), one_p, one_dp, one_ds, one_dq).visible);
      without_keys += visible == 0;
      const auto at = std::size_t(head * p.queries + row);
      for (std::int64_t j = 0; j < visible; ++j) {
        dp.put(head, row, j, values[0][at][std::size_t(j)], one_dp[std::size_t(j)]);
        ds.put(head, row, j, values[1][at][std::size_t(j)], one_ds[std::size_t(j)]);
      }
    }
    const head_gradients whole = exact.evaluate();
    for (std::size_t i = 0; i < whole.dk.size(); ++i) {
      const std::size_t to = std::size_t(key_head * p.keys) * d + i;
      dk.exact[to] += whole.dk[i].hi, dv.exact[to] += whole.dv[i].hi;
      dk.error[to] = to_double(g.dk[to]) - dk.exact[to], dv.error[to] = to_double(g.dv[to]) - dv.exact[to];
    }
  }
  check_stream(b.dp, dp, format::f32);
  check_stream(b.ds, ds, format::bf16);
  CHECK(b.rows_without_keys == without_keys);
  CHECK(b.delta.counted == p.batch * p.heads * p.queries - without_keys);
  CHECK(b.dk.mean_signed_error_ulp == Approx(summarize(dk, format::bf16).mean_signed_error_ulp).margin(1e-9));
  CHECK(b.dv.rms_error_ulp == Approx(summarize(dv, format::bf16).rms_error_ulp).epsilon(1e-9));
}

}  // namespace

TEST_CASE("gradient bias: the exact value, rounded once, errs by at most half an ulp and has no bias", "[bias][golden]") {
  const attention_problem p = read_problem(golden("ties_s384_d64_c0.safetensors"));
  const gradient_bias b = bias_of_gradients(attention_schedule_named("exact"), p);
  const auto check = [&](tensor_error const& e, double half_ulp, std::int64_t counted) {
    CHECK(e.counted == counted);
    CHECK(e.not_finite == 0);
    CHECK(e.rms_error_ulp > 0.1);
    CHECK(e.rms_error_ulp < 0.4);  // rounding alone: 1/√12 = 0.289 where all lie in one binade
    CHECK(std::fabs(e.mean_signed_error_ulp) < 5 * e.standard_error_ulp);
    CHECK(e.row_sign_test > 1e-4);
    for (row_error const& r : e.rows) CHECK(r.relative <= half_ulp);
    CHECK(e.median_relative_error > half_ulp / 8);
  };
  check(b.delta, 0x1p-24, 2 * 384);
  check(b.dp, 0x1p-24, 2 * 384 * 384);
  check(b.ds, 0x1p-8, 2 * 384 * 384);
  for (auto member : {&gradient_bias::dq, &gradient_bias::dk, &gradient_bias::dv}) check(b.*member, 0x1p-8, 2 * 384 * 64);
  CHECK(b.rows_without_keys == 0);
}

TEST_CASE("gradient bias: where O is rounded decides the sign of delta's error", "[bias]") {
  // The O of this row, −2.350848…, is −2.359375 when O-bar is rounded to BF16 before the division, −2.34375 when it is not.
  // @source arXiv 2510.04212, claim 1: the error of O reaches the gradient through delta
  const attention_problem p = tied_call();
  const double truth = (2.40625 + 2.296875 + 0.88671875 * std::exp(-6.9375 + to_double(parse_bf16("0.006011962890625")))) / (2 + std::exp(-6.9375 + to_double(parse_bf16("0.006011962890625"))));
  const gradient_bias paper = bias_of_gradients(attention_schedule_named("paper-v2"), p), kernel = bias_of_gradients(attention_schedule_named("fa3"), p);
  REQUIRE(paper.delta.columns.size() == 1);
  CHECK(paper.delta.columns[0].ulp == 0x1p-22);
  CHECK(paper.delta.positive == 4);
  CHECK(paper.delta.mean_signed_error_ulp * 0x1p-22 == Approx(2.359375 - truth));
  CHECK(paper.delta.mean_signed_error_ulp * 0x1p-22 == Approx(0.0085).epsilon(0.01));
  CHECK(kernel.delta.negative == 4);
  CHECK(kernel.delta.mean_signed_error_ulp * 0x1p-22 == Approx(2.34375 - truth));
  CHECK(paper.delta.median_relative_error == Approx((2.359375 - truth) / truth));
}

TEST_CASE("gradient bias: late in training a kernel's dQ is all error; FP32 removes it unless rows are nearly one-hot, the projection also there", "[bias]") {
  const attention_schedule& fa3 = attention_schedule_named("fa3");
  const auto dq_error = [&](attention_problem const& p, std::string_view fix) { return bias_of_gradients(with_fixes(fa3, fix), p, engine::fast, {}, false).dq.median_relative_error; };
  const attention_problem late = late_call(256, 20, 0.6, 41), one_hot = late_call(256, 6, 1.2, 41);
  CHECK(dq_error(late, "none") > 1);
  CHECK(dq_error(late, "fp32") < 0.003);
  CHECK(dq_error(late, "fp32") > 0.001);  // the cast of dQ alone
  CHECK(dq_error(one_hot, "none") > 4);
  CHECK(dq_error(one_hot, "fp32") > 0.05);
  CHECK(dq_error(one_hot, "gproj") < 0.003);
  const gradient_bias kernel = bias_of_gradients(fa3, late), fixed = bias_of_gradients(with_fixes(fa3, "fp32"), late);
  CHECK(kernel.ds.median_relative_error > 100 * fixed.ds.median_relative_error);
}

TEST_CASE("gradient bias: dP and dS as they go by are dP and dS kept whole, dK and dV summed over the group", "[bias]") {
  const attention_schedule& fa3 = attention_schedule_named("fa3");
  check_against_stored(fa3, random_call(2, 4, 2, 70, 200, true, 51));
  check_against_stored(fa3, random_call(1, 2, 1, 150, 130, true, 52));  // the first 20 rows see no key, the next one key
  check_against_stored(attention_schedule_named("paper-v2"), random_call(1, 1, 1, 33, 140, false, 53));
  check_against_stored(attention_schedule_named("exact"), random_call(1, 2, 2, 20, 20, true, 54));
}

TEST_CASE("gradient bias: dS is measured with the scale where the schedule puts it there", "[bias]") {
  const gradient_bias b = bias_of_gradients(attention_schedule_named("eager-bf16"), random_call(1, 1, 1, 40, 48, false, 55));
  CHECK(b.ds.median_relative_error < 0.02);
  CHECK(b.ds.counted == 40 * 48);
  for (auto member : fp32_tensors) CHECK((b.*member).in_ulp_of == format::f32);
  for (auto member : bf16_tensors) CHECK((b.*member).in_ulp_of == format::bf16);
}

TEST_CASE("gradient bias: what is infinite is left out and counted", "[bias]") {
  attention_problem p = random_call(1, 1, 1, 20, 20, true, 56);
  p.v[5 * 64] = bf16_code::infinity();
  const gradient_bias b = bias_of_gradients(attention_schedule_named("exact"), p);
  CHECK(b.dp.not_finite == 15);                       // rows 5 … 19, key 5
  CHECK(b.dp.counted == 20 * 21 / 2 - 15);
  CHECK(b.ds.not_finite == 20 * 21 / 2 - 5 * 6 / 2);  // everything of those rows
  CHECK(b.ds.rows_left_out == 15 + 1);                // row 0 sees one key: its dS is 0
  CHECK(b.delta.not_finite == 15);
  CHECK(b.dq.not_finite == 15 * 64);
  // In the kernel the infinity meets P = 0 in the rows that do not see it.
  const gradient_bias kernel = bias_of_gradients(attention_schedule_named("fa3"), p);
  CHECK(kernel.dp.not_finite == 15);
  CHECK(kernel.delta.not_finite == 20);
  CHECK(kernel.dq.counted == 0);
}

TEST_CASE("gradient bias: without the matrices, without dO, without a backward pass", "[bias]") {
  attention_problem p = random_call(1, 1, 1, 20, 20, true, 57);
  const gradient_bias all = bias_of_gradients(attention_schedule_named("fa3"), p), some = bias_of_gradients(attention_schedule_named("fa3"), p, engine::definition, {}, false);
  CHECK(all.dp.counted == 210);
  CHECK(some.dp.counted + some.ds.counted == 0);
  CHECK(some.dq.mean_signed_error_ulp == all.dq.mean_signed_error_ulp);
  CHECK_THROWS_AS(bias_of_gradients(attention_schedule_named("triton-m64-n64"), p), unsupported_call);
  p.d_o.clear();
  CHECK_THROWS_AS(bias_of_gradients(attention_schedule_named("fa3"), p), std::invalid_argument);
}
