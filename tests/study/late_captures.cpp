#include "stickybit/attention/exact_head.hpp"
#include "stickybit/fix/fix.hpp"
#include "stickybit/study/fix_errors.hpp"
#include "support/catch.hpp"
#include "support/recorded.hpp"

namespace stickybit {
namespace {

std::vector<measured_call> late_calls() {
  std::vector<measured_call> calls;
  attention_schedule const& fa3 = attention_schedule_named("fa3");
  for (std::filesystem::path const& path : captures("h200")) {
    if (!path.filename().string().starts_with("late_")) continue;
    attention_problem p = read_problem(tensor_file::load(path));
    const mask_alignment mask = mask_of(fa3, p);
    calls.emplace_back(path.filename().string(), std::move(p), mask);
  }
  return calls;
}

}  // namespace

TEST_CASE("study gproj: the figures of the four late captures", "[study][recorded]") {
  attention_schedule const& fa3 = attention_schedule_named("fa3");
  const std::vector<measured_call> calls = late_calls();
  if (calls.empty()) return;
  REQUIRE(calls.size() == 4);
  for (measured_call const& call : calls) {
    INFO(call.name);
    const auto of = [&](std::string_view fix) { return errors_of_fix(fa3, fix, call); };
    const fix_errors none = of("none"), smooth = of("k-smooth"), gproj = of("gproj"), uniform = of("gproj:weights=uniform");
    CHECK(none.dq > (call.problem.causal ? 0.3 : 1));
    CHECK(smooth.dq < 0.9 * none.dq);
    CHECK(smooth.dq > 2 * gproj.dq);
    CHECK(gproj.dq_before_cast <= 0.0017);
    CHECK(gproj.dq <= 0.0025);
    CHECK(gproj.dk <= 0.0025);
    for (std::string_view forward_only : {"subtract-first", "two-row-sums", "beta"}) {
      INFO(forward_only);
      CHECK(of(forward_only).dq > 0.9 * none.dq);
    }
    if (!call.problem.causal) CHECK(uniform.dk > 2 * none.dk);
    const fix_errors cast = errors_of_cast(call), floor = of("fp32+gproj");
    CHECK(cast.dq_before_cast == 0);
    CHECK(floor.dq < 1.05 * cast.dq);
    if (!call.problem.causal) CHECK(of("fp32").dq > 5 * cast.dq);
  }
}

TEST_CASE("study gproj: delta by the chain of dP removes the third cause alone, late captures of d = 128", "[study][recorded]") {
  attention_schedule const& fa3 = attention_schedule_named("fa3");
  for (measured_call const& call : late_calls()) {
    if (call.problem.head_dim != 128 || call.problem.causal) continue;
    const fix_errors none = errors_of_fix(fa3, "none", call), mma = errors_of_fix(fa3, "delta-mma", call);
    CHECK(none.dq > 100);
    CHECK(mma.dq > 1);
    CHECK(mma.dq < none.dq / 10);
  }
}

TEST_CASE("row mass: one cause makes nearly all of it, O's rounding at d = 64 and the two arithmetics at d = 128, late captures", "[study][recorded]") {
  attention_schedule const& fa3 = attention_schedule_named("fa3");
  for (measured_call const& call : late_calls()) {
    // Medians of parts add up where one part is nearly all of every row; with fewer visible keys no part is.
    if (call.problem.causal) continue;
    INFO(call.name);
    for (row_mass_causes const& c : causes_of_row_mass(fa3, call.problem, call.gradients)) {
      const double largest = call.problem.head_dim == 64 ? c.rounded_output : c.different_arithmetic;
      CHECK(largest > 0.6 * c.total);
      CHECK(c.total < 1.5 * (c.rounded_output + c.different_arithmetic + c.score_cast));
      CHECK(c.score_cast < 0.02 * c.total);
      CHECK((call.problem.head_dim == 64 ? c.different_arithmetic : c.rounded_output) < 0.1 * c.total);
    }
  }
}

}  // namespace stickybit
