// The isolation experiments: their verdicts on calls that show the paper's effect are the paper's.
#include "stickybit/study/isolation.hpp"

#include <algorithm>
#include <cmath>

#include "stickybit/attention/exact_head.hpp"
#include "stickybit/bias/gradient_bias.hpp"
#include "stickybit/fix/fix.hpp"
#include "stickybit/format/value.hpp"
#include "stickybit/study/regimes.hpp"
#include "support/catch.hpp"
#include "support/recorded.hpp"

namespace stickybit {
namespace {

isolation_result const& of(std::vector<isolation_result> const& results, isolation_kind kind) {
  return *std::ranges::find(results, kind, [](isolation_result const& r) { return r.preset->kind; });
}

/// Heads of a regime with other data: heads 0 and 2 tied, 1 and 3 normal numbers with dO of both signs.
attention_problem two_tied_heads_of_four() {
  named_regime pair = regime_named("pair-neg-small"), gauss = regime_named("gauss-d64");
  pair.heads = pair.key_heads = gauss.heads = gauss.key_heads = 4;
  attention_problem p = generate(pair);
  const attention_problem other = generate(gauss);
  for (std::int64_t head : {1, 3})
    for (std::int64_t row = 0; row < p.queries; ++row) {
      const auto at = p.query_strides().offset(0, head, row);
      for (auto member : {&attention_problem::q, &attention_problem::k, &attention_problem::v, &attention_problem::d_o})
        std::copy_n((other.*member).begin() + at, p.head_dim, (p.*member).begin() + at);
    }
  return p;
}

/// Every verdict on a call that shows the effect. An O that is cast to BF16 again has the bias again: the paper's (f) needs an O that
/// stays in FP32.
void check_verdicts(std::vector<isolation_result> const& results) {
  REQUIRE(results.size() == isolation_presets().size());
  CHECK(results.front().verdict == isolation_verdict::biased);
  for (isolation_result const& r : results) {
    CAPTURE(r.preset->letter);
    if (r.preset->kind == isolation_kind::unchanged) continue;
    const bool cures = r.preset->cures && r.preset->kind != isolation_kind::product_then_rounded;
    CHECK(r.verdict == (cures ? isolation_verdict::cured : isolation_verdict::still_biased));
  }
}

}  // namespace

TEST_CASE("isolation: on tied pairs every verdict is the paper's, paper-v2, fa2 and fa3, V of both signs", "[study]") {
  for (std::string_view regime : {"pair-neg-small", "pair-pos-small", "apart-neg-small", "tied-zero"}) {
    const attention_problem p = generate(regime_named(regime));
    for (std::string_view schedule : {"paper-v2", "fa2", "fa3"}) {
      CAPTURE(regime, schedule);
      check_verdicts(isolate(attention_schedule_named(schedule), p));
    }
  }
}

TEST_CASE("isolation: on a call captured on the H200, whose gradients the emulator gives bit for bit, every verdict is the paper's", "[study][golden]") {
  const attention_problem p = read_problem(golden("pair_neg_small_q384_k192_d64.safetensors"));
  const std::vector<isolation_result> results = isolate(attention_schedule_named("fa2-torch"), p);
  check_verdicts(results);
  CHECK(results.front().all.dq_relative_error > 10);  // of its length, in half of the rows
}

TEST_CASE("isolation: with V larger in the rest, standard attention too is cured, given rows enough", "[study]") {
  named_regime regime = regime_named("pair-pos-large");
  regime.queries = 768;
  const attention_problem p = generate(regime);
  for (std::string_view schedule : {"paper-v2", "fa3"}) {
    CAPTURE(schedule);
    for (isolation_result const& r : isolate(attention_schedule_named(schedule), p)) {
      CAPTURE(r.preset->letter);
      if (r.preset->kind == isolation_kind::unchanged || r.preset->kind == isolation_kind::product_then_rounded) continue;
      CHECK(r.verdict == (r.preset->cures ? isolation_verdict::cured : isolation_verdict::still_biased));
    }
  }
}

TEST_CASE("isolation: the unchanged figures are those of the bias, and (c) and (d) are the fixes of the same sense", "[study]") {
  const attention_problem p = generate(regime_named("pair-neg-large"));
  attention_schedule const& fa3 = attention_schedule_named("fa3");
  const std::vector<isolation_result> results = isolate(fa3, p);
  const gradient_bias none = bias_of_gradients(fa3, p, engine::fast, {}, false), pdp = bias_of_gradients(with_fixes(fa3, "delta-pdp"), p, engine::fast, {}, false);
  CHECK(results.front().all.delta_mean_ulp == none.delta.mean_signed_error_ulp);
  CHECK(results.front().all.delta_standard_error_ulp == none.delta.standard_error_ulp);
  CHECK(results.front().all.dq_relative_error == Approx(none.dq.median_relative_error).epsilon(1e-9));
  CHECK(of(results, isolation_kind::delta_of_p_dp).all.delta_mean_ulp == pdp.delta.mean_signed_error_ulp);
  // (d') is the fix fp32 with the kernel's own backward pass: its O is that fix's, code for code, so is its error.
  CHECK(of(results, isolation_kind::forward_in_fp32).all.o_mean_ulp != results.front().all.o_mean_ulp);
  CHECK(of(results, isolation_kind::delta_of_fp32_o).all.o_mean_ulp == results.front().all.o_mean_ulp);
}

TEST_CASE("isolation: the coefficients along PK are minus the errors of delta, where nothing else errs", "[study]") {
  const attention_problem p = generate(regime_named("pair-neg-small"));
  attention_schedule const& fa3 = attention_schedule_named("fa3");
  const isolation_errors e = isolate(fa3, p).front().all;
  const gradient_bias bias = bias_of_gradients(fa3, p, engine::fast, {}, false);
  const double sum = bias.delta.mean_signed_error_ulp * bias.delta.columns.at(0).ulp * double(p.queries);
  CHECK(e.sum_of_coefficients == Approx(-sum).epsilon(0.05));
  CHECK(e.along_pk > 0.99);
  CHECK(e.walks < -13);  // √192 = 13.9: one sign and nearly one size
}

TEST_CASE("isolation: (e) changes the chosen heads alone; by default they are those whose delta is biased", "[study]") {
  const attention_problem p = two_tied_heads_of_four();
  attention_schedule const& fa3 = attention_schedule_named("fa3");
  const std::vector<isolation_result> results = isolate(fa3, p);
  isolation_result const& e = of(results, isolation_kind::heads_in_fp32);
  CHECK(e.chosen == std::vector<std::int64_t>{0, 2});
  CHECK(e.verdict == isolation_verdict::cured);
  for (std::size_t head : {1u, 3u}) {
    CHECK(e.heads[head].delta_mean_ulp == results.front().heads[head].delta_mean_ulp);
    CHECK(e.heads[head].dq_relative_error == results.front().heads[head].dq_relative_error);
  }
  // One of the two: the other stays as it was.
  const std::vector<isolation_result> one = isolate(fa3, p, {2});
  isolation_result const& chosen = of(one, isolation_kind::heads_in_fp32);
  CHECK(chosen.verdict == isolation_verdict::cured);
  CHECK(chosen.heads[0].delta_mean_ulp == results.front().heads[0].delta_mean_ulp);
  CHECK(std::fabs(chosen.heads[2].delta_mean_ulp) < 0.01 * std::fabs(results.front().heads[2].delta_mean_ulp));
  CHECK(chosen.of_others.rows == 3 * p.queries);
}

TEST_CASE("isolation: a call without the effect has nothing to cure", "[study][golden]") {
  for (attention_problem const& p : {generate(regime_named("gauss-d64")), read_problem(golden("ties_s384_d64_c0.safetensors"))})
    for (isolation_result const& r : isolate(attention_schedule_named("fa3"), p)) CHECK(r.verdict == isolation_verdict::nothing_to_cure);
}

TEST_CASE("isolation: what cannot be had is said, by preset or at once", "[study]") {
  attention_problem grouped = generate(regime_named("gauss-grouped"));
  isolation_result const standard = of(isolate(attention_schedule_named("fa3"), grouped), isolation_kind::standard_attention);
  CHECK(standard.verdict == isolation_verdict::not_available);
  CHECK(standard.reason.find("grouped") != std::string::npos);
  CHECK_THROWS_AS(isolate(attention_schedule_named("fa3"), grouped, {4}), std::invalid_argument);
  CHECK_THROWS_AS(isolate(attention_schedule_named("eager-bf16"), grouped), unsupported_call);
  CHECK_THROWS_AS(isolate(attention_schedule_named("triton-m64-n64"), grouped), unsupported_call);
  grouped.d_o.clear();
  CHECK_THROWS_AS(isolate(attention_schedule_named("fa3"), grouped), std::invalid_argument);
}

}  // namespace stickybit
