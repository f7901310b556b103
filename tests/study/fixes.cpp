#include <cmath>
#include <limits>

#include "stickybit/fix/fix.hpp"
#include "stickybit/study/fix_costs.hpp"
#include "stickybit/study/fix_errors.hpp"
#include "stickybit/study/regimes.hpp"
#include "support/catch.hpp"

namespace stickybit {
namespace {

fix_errors errors(double dq, double dk) { return {.dq_before_cast = dq, .dq = dq, .dk_before_cast = dk, .dk = dk}; }

}  // namespace

TEST_CASE("costs: every fix and every candidate has one; a combination adds; beside FP32 at FP32's rate", "[study]") {
  for (fix_description const& f : all_fixes()) CHECK(cost_of(f.name).products >= 0);
  for (std::string const& fix : candidate_fixes()) CHECK(cost_of(fix).bytes >= 0);
  CHECK(cost_of("gproj").products == 3);
  CHECK(cost_of("gproj:targets=dq").products == 1);
  CHECK(cost_of("gproj:weights=uniform,targets=dq").products == 0);
  CHECK(cost_of("delta-hilo+gproj:targets=dq").bytes == cost_of("delta-hilo").bytes + cost_of("gproj:targets=dq").bytes);
  CHECK(cost_of("fp32+gproj").products == cost_of("fp32").products + 15 * 3);
  CHECK(cost_of("gproj+fp32").products == cost_of("fp32+gproj").products);
  CHECK_THROWS_AS(cost_of("gprojx"), invalid_fix);
}

TEST_CASE("candidates: every one is a fix of fa3, and about twenty", "[study]") {
  CHECK(candidate_fixes().size() >= 20);
  for (std::string const& fix : candidate_fixes()) CHECK_NOTHROW(parse_study_fix(attention_schedule_named("fa3"), fix));
  CHECK_THROWS_AS(parse_study_fix(attention_schedule_named("fa3"), "winner+gproj"), invalid_fix);
}

TEST_CASE("summary of fixes: figures made by hand", "[study]") {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const fix_table table{.calls = {"a", "b", "zero"},
                        .fixes = {"none", "delta-hilo", "gproj"},
                        .errors = {{errors(0.5, 0.01), errors(0.02, 0.002), errors(0.002, 0.002)}, {errors(0.002, 0.002), errors(0.003, 0.002), errors(0.002, 0.001)}, {errors(nan, nan), errors(nan, nan), errors(nan, nan)}},
                        .cast = {}};
  CHECK(table.fixes[best_cheap_fix(table, 0)] == "delta-hilo");
  CHECK(table.fixes[best_cheap_fix(table, 1)] == "none");
  CHECK(table.fixes[best_cheap_fix(table, 2)] == "none");
  const std::vector<fix_summary> all = summarize(table);
  REQUIRE(all.size() == 3);
  CHECK(all[0].calls == 2);
  CHECK(all[0].above_one_percent == 1);
  CHECK(all[1].above_one_percent == 1);
  CHECK(all[1].worse_than_none == 1);
  CHECK(all[1].dq_to_gproj == 10);
  CHECK(all[1].worst_call == "a");
  CHECK(all[1].beyond_twice_gproj == 1);
  CHECK(all[2].dk_to_gproj == 1);
  CHECK_THROWS_AS(summarize(fix_table{.calls = {}, .fixes = {"none"}, .errors = {}, .cast = {}}), std::invalid_argument);
}

TEST_CASE("winner: the row mass put right at the largest key alone is as good as gproj where rows are one-hot, not where they are flat", "[study]") {
  attention_schedule const& fa3 = attention_schedule_named("fa3");
  const auto of = [&](std::string_view regime, std::string_view fix) {
    const measured_call call(std::string(regime), generate(regime_named(regime)), mask_alignment::none);
    return errors_of_fix(fa3, fix, call);
  };
  CHECK(of("late-mean6-d128", "none").dq > 10);
  CHECK(of("late-mean6-d128", "winner").worst() < 0.003);
  CHECK(of("late-mean6-d128", "delta-pdp").worst() > 0.5);
  CHECK(of("constant-v-noise", "winner").worst() > 0.05);
  CHECK(of("constant-v-noise", "winner+delta-pdp").worst() < 0.003);
  CHECK(of("pair-neg-small", "winner+delta-pdp").worst() < 0.003);
}

TEST_CASE("errors_of_fixes: as one by one; constant V has no gradient but dV's", "[study]") {
  attention_schedule const& fa3 = attention_schedule_named("fa3");
  const measured_call call("gauss-grouped", generate(regime_named("gauss-grouped")), mask_alignment::none);
  const std::vector<fix_errors> both = errors_of_fixes(fa3, {"none", "gproj"}, call);
  CHECK(both[0].dq == errors_of_fix(fa3, "none", call).dq);
  CHECK(both[1].dk == errors_of_fix(fa3, "gproj", call).dk);
  const measured_call constant("constant-v", generate(regime_named("constant-v")), mask_alignment::none);
  CHECK(std::isnan(errors_of_fix(fa3, "none", constant).worst()));
}

}  // namespace stickybit
