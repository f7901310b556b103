// What is not predicted says so, and no call is half predicted.
#include <cmath>
#include <cstdint>

#include "stickybit/attention/exact_head.hpp"
#include "stickybit/bias/call_forecast.hpp"
#include "stickybit/bias/output_bias.hpp"
#include "stickybit/fix/fix.hpp"
#include "stickybit/study/regimes.hpp"
#include "support/catch.hpp"

namespace {

using namespace stickybit;

attention_problem small(std::int64_t queries = 32, std::int64_t keys = 48, bool causal = false) {
  named_regime r{.name = "small", .kind = regime_kind::gauss, .queries = queries, .keys = keys};
  r.causal = causal;
  return generate(r);
}

std::string message(attention_schedule const& schedule, forecast_inputs const& in) {
  try {
    static_cast<void>(predict_bias(schedule, in));
  } catch (std::exception const& e) {
    return e.what();
  }
  return "";
}

forecast_inputs inputs_of(attention_problem const& p) {
  const head_rows rows = rows_of_head(p, 0, 0);
  forecast_inputs in;
  in.k = rows.k, in.v = rows.v, in.q = {rows.q}, in.d_o = {rows.d_o}, in.softmax_scale = p.softmax_scale;
  return in;
}

}  // namespace

TEST_CASE("predict_bias: fixes and schedules that the model lacks are refused by name", "[predict]") {
  const attention_problem p = small();
  attention_schedule const& fa3 = attention_schedule_named("fa3");
  for (std::string_view fix : {"gproj", "delta-mma", "delta-pdp", "fp32-backward"}) {
    const attention_schedule fixed = with_fixes(fa3, fix);
    INFO(fix);
    CHECK_FALSE(predicts_gradients(fixed));
    CHECK_THROWS_AS(predict_bias(fixed, inputs_of(p)), no_forecast);
    CHECK(forecast_call(fixed, p).at(0).heads.at(0).delta.empty());  // O is predicted all the same
  }
  for (std::string_view fix : {"k-smooth", "beta", "fp32"}) CHECK_THROWS_AS(forecast_call(with_fixes(fa3, fix), p), no_forecast);
  CHECK_THROWS_AS(forecast_call(attention_schedule_named("exact"), p), no_forecast);
  for (std::string_view fix : {"none", "subtract-first", "two-row-sums", "delta-fp32", "delta-hilo"}) CHECK(predicts_gradients(with_fixes(fa3, fix)));
}

TEST_CASE("predict_bias: bad inputs are refused with what, where and what was expected", "[predict]") {
  attention_problem p = small();
  attention_schedule const& fa3 = attention_schedule_named("fa3");
  forecast_inputs in = inputs_of(p);
  in.softmax_scale = -1;
  CHECK(message(fa3, in) == "softmax scale -1: expected a finite number above 0");
  in = inputs_of(p);
  in.v.rows -= 1;
  CHECK(message(fa3, in) == "predict_bias: v is 47 x 64, expected 48 x 64");
  in = inputs_of(p);
  in.d_o.push_back(in.d_o[0]);
  CHECK(message(fa3, in) == "predict_bias: dO of 2 heads, q of 1");
  p.v[std::size_t(3 * 64 + 5)] = bf16_code::infinity(true);
  CHECK(message(fa3, inputs_of(p)) == "no prediction: v is NaN or infinite at row 3, column 5");
}

TEST_CASE("predict_bias: no keys, no queries, sizes beyond the model: refused, never a number", "[predict]") {
  attention_problem p = small();
  attention_schedule const& paper = attention_schedule_named("paper-v2");
  forecast_inputs in = inputs_of(p);
  in.k.rows = in.v.rows = 0;
  CHECK(message(paper, in) == "no prediction: the call has no key or no query");
  in = inputs_of(p);
  in.q[0].rows = in.d_o[0].rows = 0;
  CHECK(message(paper, in) == "no prediction: the call has no key or no query");
  in = inputs_of(p);
  in.softmax_scale = 0x1p-70;
  CHECK_THROWS_AS(predict_bias(paper, in), no_forecast);
  for (bf16_code& c : p.v) c = bf16_code::from_bits(std::uint16_t(c.to_bits() & 0x807f));  // subnormal
  CHECK_THROWS_AS(predict_bias(paper, inputs_of(p)), no_forecast);
}

TEST_CASE("predict_bias: all keys equal: dQ is 0 but for what double leaves, and has no unit", "[predict]") {
  attention_problem p = small();
  for (std::size_t i = 64; i < p.k.size(); ++i) p.k[i] = p.k[i % 64];
  for (tensor_forecast const& t : summarize(forecast_call(attention_schedule_named("fa3"), p)))
    if (t.tensor == "dq") CHECK(t.units == 0);
}

TEST_CASE("predict_bias: rows without keys, one key, one query: finite, and nothing for a row that sees none", "[predict]") {
  for (auto const& [queries, keys] : {std::pair{5, 3}, std::pair{1, 1}, std::pair{1, 40}, std::pair{70, 1}, std::pair{130, 17}})
    for (bool causal : {false, true}) {
      const attention_problem p = small(queries, keys, causal);
      const std::vector<forecast> all = forecast_call(attention_schedule_named("fa3"), p);
      INFO(queries << " x " << keys << (causal ? " causal" : ""));
      for (tensor_forecast const& t : summarize(all)) {
        CHECK(std::isfinite(t.mean_ulp));
        CHECK(std::isfinite(t.standard_error_ulp));
      }
      if (causal && queries > keys && queries > 1) {
        CHECK(all[0].heads[0].o.mean[0] == 0);
        CHECK(all[0].heads[0].delta[0].mean == 0);
      }
    }
}

TEST_CASE("forecast_call: the same numbers with one thread, and for a head alone and among others", "[predict]") {
  named_regime r{.name = "several", .kind = regime_kind::gauss, .queries = 80, .keys = 96, .heads = 4, .key_heads = 2};
  const attention_problem p = generate(r);
  attention_schedule const& fa3 = attention_schedule_named("fa3");
  const std::vector<forecast> all = forecast_call(fa3, p);
  REQUIRE(all.size() == 2);
  REQUIRE(all[1].heads.size() == 2);
  const head_rows rows = rows_of_head(p, 0, 3);
  forecast_inputs in;
  in.k = rows.k, in.v = rows.v, in.q = {rows.q}, in.d_o = {rows.d_o}, in.softmax_scale = p.softmax_scale;
  const forecast alone = predict_bias(fa3, in);
  CHECK(alone.heads[0].o.mean == all[1].heads[1].o.mean);
  CHECK(alone.heads[0].dq.variance == all[1].heads[1].dq.variance);
}
