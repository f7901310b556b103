// The bias of O by rounding point: what one point's rounding does, and that the parts make the whole.
#include "stickybit/bias/attribution.hpp"

#include <cmath>
#include <numbers>
#include <random>

#include "stickybit/bias/output_bias.hpp"
#include "stickybit/exact/attention.hpp"
#include "stickybit/format/text.hpp"
#include "stickybit/format/value.hpp"
#include "support/catch.hpp"
#include "support/random_calls.hpp"
#include "support/recorded.hpp"
#include "support/tally.hpp"

using namespace stickybit;

namespace {

attention_schedule const& named(std::string_view name) { return attention_schedule_named(name); }

point_bias const& part(output_attribution const& a, rounding_point p) {
  const auto found = std::ranges::find(a.points, p, &point_bias::point);
  REQUIRE(found != a.points.end());
  return *found;
}

/// One query (1, 1, 0, ...) of 64 columns; each key's score is the sum of its first two elements, V is the same in every column.
attention_problem one_row(std::vector<std::pair<const char*, const char*>> const& scores, std::vector<const char*> const& v, double scale) {
  attention_problem p;
  p.queries = 1;
  p.keys = std::int64_t(scores.size());
  p.head_dim = 64;
  p.softmax_scale = scale;
  p.q.assign(64, bf16_code::zero());
  p.q[0] = p.q[1] = parse_bf16("1");
  p.k.assign(std::size_t(64 * p.keys), bf16_code::zero());
  for (std::size_t i = 0; i < scores.size(); ++i) {
    p.k[64 * i] = parse_bf16(scores[i].first);
    p.k[64 * i + 1] = parse_bf16(scores[i].second);
    p.v.insert(p.v.end(), 64, parse_bf16(v[i]));
  }
  return p;
}

/// Error of the row's first column with these points.
double error_of(attention_schedule const& schedule, attention_problem const& p, rounding_points active) {
  selective_output o(schedule, p);
  return to_double(o.row(0, 0, 0, active)[0] - o.row(0, 0, 0, rounding_points::none())[0]);
}

}  // namespace

TEST_CASE("attribution: V = 1 comes out too low through the cast of P alone", "[bias]") {
  using enum rounding_point;
  // @source github.com/Dao-AILab/flash-attention/pull/2721: the numerator sums BF16 weights, the denominator FP32 ones
  std::vector<std::pair<const char*, const char*>> scores(101, {"-0.6875", "-0.0017547607421875"});
  scores[0] = {"0", "0"};
  const attention_problem p = one_row(scores, std::vector<const char*>(101, "1"), 1);
  const output_attribution a = attribute_output(named("fa3"), p, bias_of_output(named("fa3"), p).o);
  const double weight = std::exp(-0.6875 - 0.0017547607421875), before_cast = 51 / (1 + 100 * weight);
  CHECK(before_cast == Approx(0.99619).epsilon(1e-5));
  // ulp at 1: 2^-7. Alone, the cast of P takes O to 51/51.195; the cast of O takes that on to 0.99609375.
  CHECK(part(a, p_cast).alone_mean_signed_error_ulp == Approx((before_cast - 1) * 128).epsilon(1e-9));
  CHECK(part(a, p_cast).mean_signed_error_ulp == Approx((before_cast - 1) * 128).epsilon(1e-4));
  CHECK(std::fabs(part(a, p_cast).without_mean_signed_error_ulp) < 1e-20);  // with an exact cast O is 1
  CHECK(part(a, o_cast).mean_signed_error_ulp == Approx((0.99609375 - before_cast) * 128).margin(1e-4));
  for (rounding_point other : {s, exp_argument, exp2, pv, rescale, row_sum, inverse}) {
    INFO(name_of(other));
    CHECK(std::fabs(part(a, other).mean_signed_error_ulp) < 1e-4);
    CHECK(part(a, other).without_mean_signed_error_ulp == Approx((0.99609375 - 1) * 128).epsilon(1e-14));
  }
  CHECK(a.mean_signed_error_ulp == Approx((0.99609375 - 1) * 128).epsilon(1e-14));
}

TEST_CASE("attribution: rounding O-bar before the division errs the other way than the kernels", "[bias]") {
  using enum rounding_point;
  // Weights 1, 1 and 2^-10: two ties, and a third key that breaks the tie of their sum. Scores 0, 0, -10 in units of ln 2.
  const attention_problem p = one_row({{"0", "0"}, {"0", "0"}, {"-10", "0"}}, {"-2.40625", "-2.296875", "-0.88671875"}, std::numbers::ln2);
  const double o_bar = -2.40625 - 2.296875 - 0.88671875 / 1024, sum = 2 + 1.0 / 1024;
  selective_output exact(named("fa3"), p);
  CHECK(to_double(exact.row(0, 0, 0, rounding_points::none())[0]) == Approx(o_bar / sum).epsilon(1e-14));

  CHECK(error_of(named("paper-v2"), p, rounding_points::all()) == Approx(-0.00853).epsilon(1e-3));
  CHECK(error_of(named("fa3"), p, rounding_points::all()) == Approx(+0.00710).epsilon(1e-3));
  // The paper's sign comes from O-bar: -4.70399 to -4.71875.
  CHECK(error_of(named("paper-v2"), p, rounding_points::none().with(o_bar_cast)) == Approx((-4.71875 - o_bar) / sum).epsilon(1e-12));
  CHECK(error_of(named("paper-v2"), p, rounding_points::all().without(o_bar_cast)) > 0);
  CHECK(error_of(named("fa3"), p, rounding_points::none().with(o_cast)) == Approx(-2.34375 - o_bar / sum).epsilon(1e-12));
  CHECK(std::fabs(error_of(named("fa3"), p, rounding_points::all().without(o_cast))) < 1e-6);
}

TEST_CASE("attribution: the cast of a sum of two tied keys is biased by what is left over", "[bias]") {
  // Every pair of BF16 significands of one exponent, V negative. The sum has nine bits: half of the pairs are exact ties.
  // A left-over of 2^-13 ulp makes every tie go its way.
  for (const auto& [left_over, expected] : {std::pair{0.0, 0.0}, {-0x1p-12, -0.25 + 0x1p-13}, {+0x1p-12, 0.25 - 0x1p-13}}) {
    double sum_ulps = 0;
    int pairs = 0, ties = 0;
    for (int a = 128; a < 256; ++a)
      for (int b = 128; b < 256; ++b, ++pairs) {
        const double exact = -double(a + b) + left_over;  // 21 bits at most: an FP32 number. BF16 ulp 2
        ties += (a + b) % 2;
        sum_ulps += (to_double(convert<format::bf16>(code_of(float(exact)))) - exact) / 2;
      }
    INFO("left-over " << left_over);
    CHECK(pairs == 16384);
    CHECK(ties == 8192);
    CHECK(sum_ulps / pairs == expected);
  }
}

TEST_CASE("attribution: the parts add up to the error, in every element", "[bias][golden]") {
  const attention_problem p = read_problem(golden("gauss_s64_d128_c1.safetensors"));
  for (const char* name : {"fa3", "cudnn", "paper-v2", "fa2-torch"}) {
    attention_schedule schedule = named(name);
    if (schedule.name == "fa2-torch") schedule.fixed_splits = 3;  // blocks of 64 keys: one part, and two without keys
    testing::tally elements(std::string("split of ") + name + " adds up to 1e-12 of the ulp of each element");
    const forward_result kernel = attention_forward(schedule, p);
    const output_bias bias = bias_of_output(schedule, p);
    selective_output o(schedule, p);
    for (std::int64_t row : {0, 1, 17, 40, 63}) {
      const exact_attention exact(bf16_rows{p.q.data(), 64, 128, 256}, bf16_rows{p.k.data(), 64, 128, 256}, bf16_rows{p.v.data(), 64, 128, 256}, p.softmax_scale,
                                  mask_alignment::bottom_right);
      const exact_rows value = exact.evaluate(std::size_t(row), 1);
      std::vector<double> split_sum(128);
      rounding_points active = rounding_points::none();
      auto before = o.row(0, 0, row, active);
      for (rounding_point point : rounding_points_of(schedule, p)) {
        const auto after = o.row(0, 0, row, active = active.with(point));
        for (std::size_t j = 0; j < 128; ++j) split_sum[j] += to_double(after[j] - before[j]);
        before = after;
      }
      for (std::size_t j = 0; j < 128; ++j) {
        const double error = to_double(double_double{to_double(kernel.o[std::size_t(row * 256) + j]), 0} - value.o[j]);
        elements.expect(std::fabs(split_sum[j] - error) <= 1e-12 * bias.o.columns[j].ulp,
                        [&] { return fmt::format("row {} column {}: {} of {}", row, j, split_sum[j], error); });
      }
    }
    elements.check();

    const output_attribution a = attribute_output(schedule, p, bias.o);
    double sum = 0;
    for (point_bias const& b : a.points) sum += b.mean_signed_error_ulp;
    CHECK(a.counted == bias.o.counted);
    CHECK(a.left_out == 0);
    CHECK(std::fabs(sum - bias.o.mean_signed_error_ulp) < 1e-12);
    CHECK(a.mean_signed_error_ulp == Approx(bias.o.mean_signed_error_ulp).epsilon(1e-12));
    CHECK(a.rms_error_ulp == Approx(bias.o.rms_error_ulp).epsilon(1e-12));
  }
}

TEST_CASE("attribution: a recorded call errs through the casts, the unit's truncation always to one side", "[bias][golden]") {
  using enum rounding_point;
  // V of one sign, below 0: a sum cut toward zero is too high.
  const attention_problem p = read_problem(golden("ties_s384_d64_c0.safetensors"));
  const output_bias bias = bias_of_output(named("fa3"), p);
  const output_attribution a = attribute_output(named("fa3"), p, bias.o);
  CHECK(part(a, o_cast).rms_error_ulp > 0.28);
  CHECK(part(a, p_cast).rms_error_ulp > 0.04);
  CHECK(part(a, pv).mean_signed_error_ulp > 50 * part(a, pv).standard_error_ulp);
  CHECK(part(a, pv).alone_mean_signed_error_ulp > 0.0003);
  for (rounding_point small : {s, exp_argument, exp2, rescale, row_sum, inverse}) {
    INFO(name_of(small));
    CHECK(part(a, small).rms_error_ulp > 0);
    CHECK(part(a, small).rms_error_ulp < 1e-4);
  }
}

TEST_CASE("attribution: NaN and infinity in V leave out what they reach, and no more", "[bias]") {
  attention_problem p;
  p.queries = 40;
  p.keys = 450;
  p.head_dim = 64;
  p.softmax_scale = 0.125;
  std::mt19937_64 random(31);
  fill(p, regime::gauss, random);
  p.v[64 * 440 + 3] = bf16_code::nan();      // in the block that fa3 takes first
  p.v[64 * 10 + 5] = bf16_code::infinity();   // in the last
  const output_bias bias = bias_of_output(named("fa3"), p);
  const output_attribution a = attribute_output(named("fa3"), p, bias.o);
  CHECK(bias.o.counted == 40 * 62);
  CHECK(a.counted == 40 * 62);
  CHECK(a.left_out == 40 * 2);
  CHECK(a.mean_signed_error_ulp == Approx(bias.o.mean_signed_error_ulp).epsilon(1e-12));
}

TEST_CASE("attribution: where there is none", "[bias]") {
  attention_problem p = one_row({{"0", "0"}, {"1", "0"}}, {"1", "2"}, 1);
  for (const char* name : {"eager-bf16", "exact"}) CHECK_THROWS_AS(selective_output(named(name), p), unsupported_call);
  CHECK_THROWS_AS(selective_output(named("fa3"), p).row(0, 0, 1, rounding_points::all()), std::out_of_range);
  p.softmax_scale = 0;
  CHECK_THROWS_AS(selective_output(named("fa3"), p), std::invalid_argument);
  p.softmax_scale = 1;
  attention_schedule split = named("fa3");
  split.fixed_splits = 2;  // no kernel: its lse is not FlashAttention-2's
  CHECK_THROWS_AS(selective_output(split, p), unsupported_call);
}
