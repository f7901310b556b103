#include "stickybit/study/low_rank.hpp"

#include <cmath>

#include "stickybit/attention/exact_head.hpp"
#include "stickybit/fix/fix.hpp"
#include "support/catch.hpp"

namespace stickybit {
namespace {

/// scale · l rᵀ
std::vector<double> outer(std::vector<double> const& l, std::vector<double> const& r, double scale) {
  std::vector<double> m;
  for (double a : l)
    for (double b : r) m.push_back(scale * a * b);
  return m;
}

const std::vector<double> left{0.6, 0, 0.8}, right{0, 1, 0, 0}, other_left{0.8, 0, -0.6}, other_right{0, 0, 1, 0};

}  // namespace

TEST_CASE("leading_pair: the larger of two orthogonal parts, its size and its share", "[study]") {
  std::vector<double> m = outer(left, right, 5);
  const std::vector<double> smaller = outer(other_left, other_right, -3);
  for (std::size_t i = 0; i < m.size(); ++i) m[i] += smaller[i];
  const rank_one r = leading_pair(m, 3, 4);
  CHECK(std::fabs(r.size - 5) < 1e-12);
  CHECK(std::fabs(r.share - 25.0 / 34) < 1e-12);
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < 4; ++j) CHECK(std::fabs(r.left[i] * r.right[j] - left[i] * right[j]) < 1e-7);
  CHECK(leading_pair(std::vector<double>(12), 3, 4).size == 0);
}

TEST_CASE("accumulate: known coefficients along the common direction come back", "[study]") {
  std::vector<weight_gradient> steps;
  const std::vector<double> coefficients{2, 3, -1, 4};
  for (double c : coefficients) {
    weight_gradient s{outer(left, right, 100), outer(left, right, c), outer(left, right, 7 + c)};
    const std::vector<double> beside = outer(other_left, other_right, 1);
    for (std::size_t i = 0; i < beside.size(); ++i) s.error[i] += beside[i];
    steps.push_back(s);
  }
  const accumulation a = accumulate(steps, 3, 4);
  REQUIRE(a.coefficients.size() == 4);
  for (std::size_t t = 0; t < 4; ++t) CHECK(std::fabs(a.coefficients[t] - coefficients[t]) < 1e-12);
  CHECK(std::fabs(a.sum - 8) < 1e-12);
  CHECK(a.positive == 3);
  CHECK(a.negative == 1);
  CHECK(std::fabs(a.walks - 8 / std::sqrt(30.0)) < 1e-12);
  CHECK(std::fabs(a.share - 64.0 / (64 + 16)) < 1e-12);
  CHECK(std::fabs(a.relative_error - std::sqrt(80.0) / 400) < 1e-12);
  CHECK(std::fabs(a.similarity - 1) < 1e-12);
  CHECK_THROWS_AS(accumulate(steps, 4, 4), std::invalid_argument);
}

TEST_CASE("low rank: in the made-up run delta's error adds up with one sign; with O in FP32 or GProj it does not", "[study]") {
  synthetic_run run;
  run.steps = 12;
  attention_schedule const& fa3 = attention_schedule_named("fa3");
  std::vector<weight_gradient> none, fp32, gproj;
  for (training_step& s : make_run(run)) {
    const exact_step exact(std::move(s), mask_alignment::none);
    none.push_back(weight_gradients(fa3, exact).front());
    fp32.push_back(weight_gradients(with_fixes(fa3, "delta-fp32"), exact).front());
    gproj.push_back(weight_gradients(with_fixes(fa3, "gproj"), exact).front());
  }
  const accumulation a = accumulate(none, run.head_dim, run.d_model), b = accumulate(fp32, run.head_dim, run.d_model), c = accumulate(gproj, run.head_dim, run.d_model);
  CHECK(a.negative == 0);
  CHECK(a.walks > 3);
  CHECK(std::fabs(b.sum) < a.sum / 20);
  CHECK(std::fabs(c.sum) < a.sum / 1000);
  CHECK(c.relative_error < 0.005);
}

TEST_CASE("low rank: tokens that do not fit the call are refused", "[study]") {
  synthetic_run run;
  run.steps = 1;
  training_step s = make_run(run).front();
  s.x.pop_back();
  CHECK_THROWS_AS(exact_step(std::move(s), mask_alignment::none), std::invalid_argument);
}

}  // namespace stickybit
