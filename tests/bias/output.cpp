// The bias of O: known answers, and a recorded call.
#include "stickybit/bias/output_bias.hpp"

#include <cmath>
#include <random>

#include "stickybit/exact/attention.hpp"
#include "stickybit/format/text.hpp"
#include "stickybit/format/value.hpp"
#include "support/catch.hpp"
#include "support/random_calls.hpp"
#include "support/recorded.hpp"

using namespace stickybit;

namespace {
attention_schedule const& fa3() { return attention_schedule_named("fa3"); }
}  // namespace

TEST_CASE("bias: an output that is exact has no error", "[bias]") {
  // One key: O = V.
  attention_problem p;
  p.queries = 6;
  p.keys = 1;
  p.head_dim = 64;
  p.softmax_scale = 0.125;
  std::mt19937_64 random(3);
  fill(p, regime::gauss, random);
  const output_bias b = bias_of_output(fa3(), p);
  CHECK(b.o.counted == 6 * 64);
  CHECK(b.o.mean_signed_error_ulp == 0);
  CHECK(b.o.rms_error_ulp == 0);
  CHECK(b.o.positive + b.o.negative == 0);
}

TEST_CASE("bias: V = 1 comes out too low when the numerator sums BF16 weights and the denominator FP32 ones", "[bias]") {
  // @source github.com/Dao-AILab/flash-attention/pull/2721
  // One weight of 1, a hundred that lie just below the midpoint above 0.5, so that the cast takes all of them down: O ≈ 0.9961.
  attention_problem p;
  p.queries = 1;
  p.keys = 101;
  p.head_dim = 64;
  p.softmax_scale = 1;
  p.q.assign(64, bf16_code::zero());
  p.k.assign(std::size_t(101 * 64), bf16_code::zero());
  p.v.assign(std::size_t(101 * 64), bf16_code::from_bits(0x3f80));
  p.q[0] = bf16_code::from_bits(0x3f80);
  p.q[1] = p.q[0];
  // A score of two terms, −0.6875 − 0.0017547607421875: its weight, 0.50195, is just below the midpoint 0.501953125.
  for (std::size_t key = 1; key < 101; ++key) {
    p.k[key * 64] = parse_bf16("-0.6875");
    p.k[key * 64 + 1] = parse_bf16("-0.0017547607421875");
  }
  const double weight = std::exp(-0.6875 - 0.0017547607421875);
  REQUIRE(weight > 0.50194);
  REQUIRE(weight < 0.501953125);
  const double expected = (1 + 100 * 0.5) / (1 + 100 * weight);  // before O's own cast
  const forward_row_trace trace = trace_forward_row(fa3(), p, 0, 0, 0);
  const double before_cast = to_double(trace.outputs.back().accumulated[0]) * to_double(trace.finished.at(0).inverse_sum);
  CHECK(before_cast == Approx(expected).epsilon(1e-6));
  CHECK(before_cast == Approx(0.99619).epsilon(1e-5));
  CHECK(to_double(trace.o[0]) == 0.99609375);
  CHECK(trace.o[0] == convert<format::bf16>(code_of(float(expected))));
  const output_bias b = bias_of_output(fa3(), p);
  CHECK(b.o.negative == 64);
  CHECK(b.o.mean_signed_error_ulp == Approx((to_double(trace.o[0]) - 1) / 0x1p-7));
}

TEST_CASE("bias: rows without keys are counted apart", "[bias]") {
  attention_problem p;
  p.queries = 5;
  p.keys = 3;
  p.head_dim = 64;
  p.causal = true;
  p.softmax_scale = 0.125;
  std::mt19937_64 random(5);
  fill(p, regime::gauss, random);
  const output_bias b = bias_of_output(fa3(), p);
  CHECK(b.rows_without_keys == 2);
  CHECK(b.o.counted == 3 * 64);
  CHECK(b.o.not_finite == 2 * 64);
}

TEST_CASE("bias: a recorded call errs by a fraction of an ulp, mostly through the cast of O", "[bias][golden]") {
  const attention_problem p = read_problem(golden("ties_s384_d64_c0.safetensors"));
  const output_bias b = bias_of_output(fa3(), p);
  CHECK(b.o.counted == 384 * 2 * 64);
  CHECK(b.o.not_finite == 0);
  CHECK(b.o.rms_error_ulp > 0.25);  // rounding alone: 1/√12 = 0.289
  CHECK(b.o.rms_error_ulp < 0.35);
  CHECK(std::fabs(b.o.mean_signed_error_ulp) < 5 * b.o.standard_error_ulp);
  CHECK(b.o.columns.size() == 128);
  CHECK(b.o.median_relative_error == Approx(0.00172).epsilon(0.02));
}
