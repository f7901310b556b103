// The risk report: its rule, what it finds, what it says, on calls that are built to be biased and on a clean one.
#include "stickybit/bias/risk_report.hpp"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>

#include "stickybit/attention/exact_head.hpp"
#include "stickybit/fix/fix.hpp"
#include "stickybit/study/regimes.hpp"
#include "support/catch.hpp"

using namespace stickybit;
using Catch::Matchers::Contains;

namespace {

struct reported {
  attention_problem problem;
  call_reference reference;
  risk_inputs inputs;
  risk_report report;

  reported(std::string_view regime, attention_schedule const& schedule) : problem(generate(regime_named(regime))), reference(problem, mask_of(schedule, problem)) {
    inputs.errors.output = bias_of_output(schedule, reference);
    inputs.errors.gradients = bias_of_gradients(schedule, reference, {.how = engine::fast, .report = {}, .scores = true, .masses = true});
    inputs.warnings = warnings_of_inputs(schedule, problem);
    add_gradient_warnings(inputs.warnings, schedule, reference, *inputs.errors.gradients);
    report = report_risks(schedule, reference, inputs);
  }

  finding const* find(std::string_view tensor, finding_kind kind) const {
    const auto found = std::ranges::find_if(report.findings, [&](finding const& f) { return f.tensor == tensor && f.kind == kind; });
    return found == report.findings.end() ? nullptr : &*found;
  }
  std::string text() const {
    std::string all;
    for (std::string const& s : report.sentences) all += s + "\n";
    return all;
  }
};

bool has_digit(std::string const& s) { return std::ranges::any_of(s, [](unsigned char c) { return std::isdigit(c) != 0; }); }

/// The call's error under a fix, by itself.
call_errors errors_with(reported const& r, attention_schedule const& schedule, std::string_view fix) {
  const attention_schedule fixed = with_fixes(schedule, fix);
  return {.output = bias_of_output(fixed, r.problem), .gradients = bias_of_gradients(fixed, r.problem, engine::fast, {}, false)};
}

/// A tensor of one head of 64 × 32 elements near 1, whose errors are drawn around a mean.
tensor_error made_error(double mean_ulp, double spread_ulp) {
  error_samples s(1, 64, 32);
  for (std::int64_t row = 0; row < 64; ++row)
    for (std::int64_t column = 0; column < 32; ++column) {
      const std::size_t at = s.at(0, row, column);
      s.exact[at] = 1.5;
      s.error[at] = (mean_ulp + spread_ulp * ((row + column) % 2 == 0 ? 1 : -1) * (1 + double((row / 2 * 7 + column / 2 * 3) % 5) / 10)) * 0x1p-7;
    }
  return summarize(s, format::bf16);
}

}  // namespace

TEST_CASE("risk report: the limit is 5 for one look, and keeps the chance of one finding the same for more", "[bias]") {
  CHECK(limit_for(1) == Approx(5).epsilon(1e-9));
  for (std::int64_t looks : {7, 100, 100000}) {
    CHECK(double(looks) * std::erfc(limit_for(looks) / std::sqrt(2.0)) == Approx(std::erfc(5 / std::sqrt(2.0))).epsilon(1e-6));
    CHECK(limit_for(looks) > 5);
  }
}

TEST_CASE("risk report: a mean below the limit is not called biased, one above is, with its side", "[bias]") {
  call_errors errors;
  errors.output.emplace();
  errors.output->o = made_error(0, 1);
  const double standard_error = uncertainty_of_mean(errors.output->o).standard_error;
  REQUIRE(standard_error > 0);
  CHECK(find_risks(errors).empty());
  const double limit = limit_for(1, uncertainty_of_mean(errors.output->o).freedom);
  CHECK(limit > 5);
  errors.output->o.mean_signed_error_ulp = 0.99 * limit * standard_error;
  CHECK(find_risks(errors).empty());
  errors.output->o.mean_signed_error_ulp = -1.01 * limit * standard_error;
  REQUIRE(find_risks(errors).size() == 1);
  CHECK(find_risks(errors)[0].direction == -1);
  CHECK(find_risks(errors)[0].significance == Approx(1.01 * limit));
  CHECK(detectable_mean(errors.output->o, 1) == Approx(limit * standard_error));
  // With two tensors looked at, that is no longer enough.
  errors.gradients.emplace();
  errors.gradients->dq = made_error(0, 1);
  CHECK(find_risks(errors).empty());
}

TEST_CASE("risk report: few rows have a larger limit, Student's, and very few none that can be passed", "[bias]") {
  CHECK(limit_for(1, 1e6) == Approx(5).epsilon(1e-4));
  CHECK(std::isinf(limit_for(1, 0)));
  CHECK(std::isinf(limit_for(1, 17)));
  CHECK(std::isfinite(limit_for(1, 20)));
  for (double freedom : {30.0, 100.0, 400.0}) {
    const boost::math::students_t t(freedom);
    CHECK(limit_for(1, freedom) == Approx(boost::math::quantile(boost::math::complement(t, std::erfc(5 / std::sqrt(2.0)) / 2))).epsilon(0.01));
  }
  error_samples one(1, 1, 64);
  for (std::size_t i = 0; i < 64; ++i) one.exact[i] = 1.5, one.error[i] = 0x1p-9;
  call_errors errors;
  errors.output.emplace().o = summarize(one, format::bf16);
  CHECK(find_risks(errors).empty());
}

TEST_CASE("risk report: the standard error counts columns too, so that rows that are all alike are not taken for independent", "[bias]") {
  error_samples s(1, 100, 8);
  const double column_error_ulp[8] = {0.3, -0.4, 0.1, 0.2, -0.2, 0.45, -0.1, 0.05};
  for (std::int64_t row = 0; row < 100; ++row)
    for (std::int64_t column = 0; column < 8; ++column) {
      s.exact[s.at(0, row, column)] = 1.5;
      s.error[s.at(0, row, column)] = (column_error_ulp[column] + 1e-4 * double(row % 2)) * 0x1p-7;
    }
  const tensor_error e = summarize(s, format::bf16);
  CHECK(e.standard_error_ulp < 1e-4);
  CHECK(uncertainty_of_mean(e).standard_error == Approx(0.09774).epsilon(1e-3));  // standard deviation of the eight, over √8
  call_errors errors;
  errors.output.emplace().o = e;
  for (finding const& f : find_risks(errors)) CHECK(f.kind != finding_kind::mean);
}

TEST_CASE("risk report: nothing is found in a clean call, and it says what would have been seen", "[bias]") {
  const reported r("gauss-d64", attention_schedule_named("fa3"));
  CHECK(r.report.findings.empty());
  CHECK(r.report.unbiased.size() == 7);
  CHECK(r.report.tensors == 7);
  CHECK_THAT(r.text(), Contains("Nothing is biased or wrong in the 7 tensors") && Contains("No bias seen") && !Contains("Warning"));
  for (unbiased_tensor const& u : r.report.unbiased)
    if (u.tensor == "o") CHECK(u.detectable_ulp == detectable_mean(r.inputs.errors.output->o, 7));
}

TEST_CASE("risk report: tied rows under fa3: O and delta too high by the measured means, and the fix's figures are those of the call with it", "[bias]") {
  attention_schedule const& fa3 = attention_schedule_named("fa3");
  const reported r("pair-neg-small", fa3);
  CHECK_THAT(r.text(), Contains("Warning: repeated row maxima 100%") && Contains("O is too high: +0.2407") && Contains("the cast of O to BF16 makes +0.24") && Contains("Even the exact O"));
  finding const* o = r.find("o", finding_kind::mean);
  REQUIRE(o != nullptr);
  CHECK(o->before.value == r.inputs.errors.output->o.mean_signed_error_ulp);
  CHECK(o->effect != fix_effect::removes);  // the correct rounding of the exact O has the same bias
  CHECK(o->floor.value == Approx(o->before.value).epsilon(0.01));
  finding const* delta = r.find("delta", finding_kind::mean);
  REQUIRE(delta != nullptr);
  CHECK(delta->direction == 1);
  CHECK(delta->effect == fix_effect::removes);
  const call_errors with_fix = errors_with(r, fa3, delta->best.fix);
  CHECK(delta->best.after.value == with_fix.gradients->delta.mean_signed_error_ulp);
  finding const* dq = r.find("dq", finding_kind::rows);
  REQUIRE(dq != nullptr);
  CHECK(dq->before.value == r.inputs.errors.gradients->dq.median_relative_error);
  CHECK(dq->best.fix == "gproj");
  CHECK(dq->best.after.value == errors_with(r, fa3, "gproj").gradients->dq.median_relative_error);
  CHECK(dq->best.after.value < 0.01);
  finding const* dp = r.find("dp", finding_kind::mean);
  REQUIRE(dp != nullptr);
  CHECK(dp->small);
  CHECK(dp->tried.empty());
}

TEST_CASE("risk report: tied rows under paper-v2: O too low, through the cast before the division", "[bias]") {
  const reported r("pair-neg-small", attention_schedule_named("paper-v2"));
  finding const* o = r.find("o", finding_kind::mean);
  REQUIRE(o != nullptr);
  CHECK(o->direction == -1);
  CHECK_THAT(o->cause, Contains("before the division"));
  CHECK(o->effect == fix_effect::removes);
  CHECK(o->best.fix == "beta+two-row-sums");
  CHECK_THAT(r.text(), Contains("O is too low"));
}

TEST_CASE("risk report: late rows: dQ is wrong through the row mass of dS, the third cause is named, gproj removes it and k-smooth does not", "[bias]") {
  const reported r("late-mean6-d128", attention_schedule_named("fa3"));
  finding const* dq = r.find("dq", finding_kind::rows);
  REQUIRE(dq != nullptr);
  CHECK(dq->before.value > 10);
  CHECK(dq->best.fix == "gproj");
  const auto smooth = std::ranges::find(dq->tried, "k-smooth", &tried_fix::fix);
  REQUIRE(smooth != dq->tried.end());
  CHECK(smooth->effect != fix_effect::removes);
  CHECK_THAT(r.text(), Contains("dQ is wrong") && Contains("summed by different arithmetic") && Contains("Warning: mean key over spread of keys") && Contains("gproj removes what is wrong with dQ"));
  CHECK(r.find("o", finding_kind::mean) == nullptr);
}

TEST_CASE("risk report: every sentence carries a number, and every warning and finding has its own", "[bias]") {
  for (std::string_view regime : {"pair-neg-small", "late-mean6", "gauss-d64", "constant-v", "flat-tiny-scale"}) {
    const reported r(regime, attention_schedule_named("fa3"));
    std::int64_t expected = 2 + std::ssize(r.report.findings) + (r.report.findings.empty() ? 1 : 0);
    for (std::string const& s : r.report.sentences) {
      INFO(s);
      CHECK(has_digit(s));
      CHECK(s.back() == '.');
    }
    for (warning_description const& d : warning_descriptions()) expected += r.report.warnings.raised(d.kind);
    CHECK(std::ssize(r.report.sentences) >= expected);
  }
}

TEST_CASE("risk report: a prediction is told with the mean", "[bias]") {
  attention_schedule const& fa3 = attention_schedule_named("fa3");
  reported r("pair-neg-small", fa3);
  r.inputs.predicted["o"] = {0.25, 0.01};
  r.report = report_risks(fa3, r.reference, r.inputs);
  CHECK_THAT(r.text(), Contains("(predicted without emulation: +0.25 ± 0.01)"));
}

TEST_CASE("risk report: a forward-only call is judged by O alone", "[bias]") {
  attention_schedule const& fa3 = attention_schedule_named("fa3");
  attention_problem p = generate(regime_named("pair-pos-small"));
  p.d_o.clear();
  const call_reference reference(p, mask_of(fa3, p));
  risk_inputs inputs;
  inputs.errors.output = bias_of_output(fa3, reference);
  inputs.warnings = warnings_of_inputs(fa3, p);
  const risk_report report = report_risks(fa3, reference, inputs);
  CHECK(report.tensors == 1);
  CHECK(report.limit == Approx(5));
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].direction == -1);
  CHECK(!report.findings[0].tried.empty());
}
