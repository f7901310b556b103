// Fixes by name: what they change in a schedule, what they take, and what is refused.
#include "stickybit/fix/fix.hpp"

#include <array>
#include <string>

#include "support/catch.hpp"

using namespace stickybit;
using Catch::Matchers::Contains;

namespace {

attention_schedule fixed(const char* schedule, const char* text) { return with_fixes(attention_schedule_named(schedule), text); }

bool same(attention_schedule const& a, attention_schedule const& b) {
  return a.rules == b.rules && a.small.rules == b.small.rules && a.backward == b.backward && a.smooths_keys == b.smooths_keys &&
         a.forward_in_fp32 == b.forward_in_fp32 && a.backward_in_fp32 == b.backward_in_fp32 && a.name == b.name;
}

}  // namespace

TEST_CASE("fix: every name changes the schedule, and none does not", "[fix]") {
  REQUIRE(all_fixes().front().name == "none");
  for (fix_description const& f : all_fixes()) {
    INFO(f.name);
    const attention_schedule s = fixed("fa3", std::string(f.name).c_str());
    CHECK(same(s, attention_schedule_named("fa3")) == (f.name == "none"));
    CHECK(s.name == "fa3");
    CHECK(f.replaces.empty() == false);
  }
}

TEST_CASE("fix: what each one changes", "[fix]") {
  CHECK(fixed("fa3", "beta").rules.ties == tied_maximum::extended);
  CHECK(fixed("fa3", "beta").rules.tie == tie_parameters{.beta = 2, .tolerance = 1e-3f});
  CHECK(fixed("fa3", "beta:beta=4,tol=0").rules.tie == tie_parameters{.beta = 4, .tolerance = 0});
  CHECK(fixed("fa3", "beta:beta=4,tol=0").rules.ties == tied_maximum::extended);
  CHECK(fixed("fa3", "beta:preset=v2").rules.ties == tied_maximum::published);
  CHECK(fixed("fa3", "beta:preset=v2").rules.tie == tie_parameters{.beta = 7, .tolerance = 0});
  for (const char* preset : {"beta:preset=v4", "beta:preset=repo"}) {
    CHECK(fixed("fa3", preset).rules.ties == tied_maximum::published);
    CHECK(fixed("fa3", preset).rules.tie == tie_parameters{.beta = 2, .tolerance = 1e-3f});
  }
  CHECK(fixed("fa3", "subtract-first").rules.exponent == exponent_form::difference_scaled);
  CHECK(fixed("fa2-torch", "two-row-sums").rules.summed == sum_of::both);
  CHECK(fixed("fa3", "k-smooth").smooths_keys);
  CHECK(fixed("fa3", "gproj").backward.mass == row_mass::by_weights);
  CHECK(fixed("fa3", "gproj").backward.mass_in_dk);
  CHECK(fixed("fa3", "gproj:targets=dq").backward.mass_in_dk == false);
  CHECK(fixed("fa3", "gproj:weights=uniform").backward.mass == row_mass::uniform);
  CHECK(fixed("fa3", "delta-fp32").backward.delta_from == delta_source::fp32_output);
  CHECK(fixed("fa3", "delta-hilo").backward.delta_from == delta_source::high_and_low);
  CHECK(fixed("fa3", "delta-mma").backward.delta == delta_sum::tensor_core);
  CHECK(fixed("fa3", "delta-pdp").backward.delta == delta_sum::weighted_dp);
  CHECK(fixed("fa3", "fp32").forward_in_fp32);
  CHECK(fixed("fa3", "fp32").backward_in_fp32);
  CHECK(fixed("fa3", "fp32-backward").forward_in_fp32 == false);
  CHECK(fixed("fa3", "fp32-backward").backward_in_fp32);
  CHECK(fixed("fa3", "fp32").backward.delta == delta_sum::serial);
  CHECK(fixed("fa3", "fp32").backward.delta_from == delta_source::fp32_output);
  CHECK(fixed("fa3", "fp32:delta=pdp").backward.delta == delta_sum::weighted_dp);
  CHECK(fixed("paper-v2", "fp32").rules.output == output_form::divide_then_round);
}

TEST_CASE("fix: the kernel for small calls is fixed too", "[fix]") {
  CHECK(fixed("cudnn", "beta").small.rules.ties == tied_maximum::extended);
  CHECK(fixed("cudnn", "two-row-sums").small.rules.summed == sum_of::both);
  CHECK(fixed("cudnn", "none").small.rules == attention_schedule_named("cudnn").small.rules);
}

TEST_CASE("fix: several are joined with '+', in any order", "[fix]") {
  const attention_schedule ab = fixed("fa3", "beta:tol=1e-2+gproj:targets=all+k-smooth"), ba = fixed("fa3", "k-smooth+gproj:targets=all+beta:tol=1e-2");
  CHECK(same(ab, ba));
  CHECK(ab.rules.tie.tolerance == 1e-2f);
  CHECK(ab.smooths_keys);
  CHECK(ab.backward.mass_in_dk);
  CHECK(!same(ab, fixed("fa3", "k-smooth+gproj:targets=dq+beta:tol=1e-2")));
}

TEST_CASE("fix: unknown names and parameters are refused, naming what there is", "[fix]") {
  CHECK_THROWS_AS(fixed("fa3", "gamma"), invalid_fix);
  CHECK_THROWS_WITH(fixed("fa3", "gamma"), Contains("'gamma'") && Contains("none, beta") && Contains("fp32-backward"));
  CHECK_THROWS_WITH(fixed("fa3", ""), Contains("''"));
  CHECK_THROWS_WITH(fixed("fa3", "beta+"), Contains("''"));
  CHECK_THROWS_WITH(fixed("fa3", "beta:gamma=1"), Contains("beta") && Contains("'gamma'") && Contains("tol=1e-3"));
  CHECK_THROWS_WITH(fixed("fa3", "k-smooth:beta=1"), Contains("k-smooth") && Contains("'beta'") && Contains("none"));
  for (const char* text : {"beta:", "beta:beta", "beta:=2", "beta:beta=2,"}) CHECK_THROWS_WITH(fixed("fa3", text), Contains("expected name=value"));
  CHECK_THROWS_WITH(fixed("fa3", "beta:beta=2,beta=3"), Contains("twice"));
  for (const char* text : {"beta:beta=0.5", "beta:beta=65", "beta:beta=nan", "beta:beta=2x", "beta:beta=", "beta:beta=two"})
    CHECK_THROWS_WITH(fixed("fa3", text), Contains("from 1 to 64"));
  for (const char* text : {"beta:tol=-1e-3", "beta:tol=1.5", "beta:tol=inf"}) CHECK_THROWS_WITH(fixed("fa3", text), Contains("from 0 to 1"));
  CHECK_THROWS_WITH(fixed("fa3", "beta:preset=v3"), Contains("v2 or v4 or repo"));
  CHECK_THROWS_WITH(fixed("fa3", "gproj:weights=q"), Contains("p or uniform"));
  CHECK_THROWS_WITH(fixed("fa3", "gproj:targets=dk"), Contains("all or dq"));
  CHECK_THROWS_WITH(fixed("fa3", "fp32:delta=mma"), Contains("o or pdp"));
  CHECK_THROWS_WITH(fixed("fa3", "beta:preset=v2,beta=3"), Contains("preset"));
  CHECK_THROWS_WITH(fixed("fa3", "beta:preset=v2,tol=0"), Contains("preset"));
}

TEST_CASE("fix: what makes no sense together is refused, naming both; its neighbours are not", "[fix]") {
  const auto refused = [](const char* one, const char* other) {
    for (const std::string& text : {std::string(one) + "+" + other, std::string(other) + "+" + one, std::string(one) + "+k-smooth+" + other}) {
      INFO(text);
      CHECK_THROWS_AS(fixed("fa3", text.c_str()), invalid_fix);
      CHECK_THROWS_WITH(fixed("fa3", text.c_str()), Contains(one) && Contains(other));
    }
  };
  const std::array<const char*, 4> deltas{"delta-fp32", "delta-hilo", "delta-mma", "delta-pdp"};
  for (const char* one : deltas) {
    for (const char* other : deltas)
      if (std::string(one) != other) refused(one, other);
    refused("fp32", one);
  }
  refused("fp32", "fp32-backward");
  refused("fp32", "two-row-sums");
  refused("fp32-backward", "delta-mma");
  CHECK_THROWS_WITH(fixed("fa3", "none+beta"), Contains("none") && Contains("beta"));
  CHECK_THROWS_WITH(fixed("fa3", "beta+none"), Contains("none") && Contains("beta"));
  CHECK_THROWS_WITH(fixed("fa3", "beta+gproj+beta"), Contains("beta is given twice"));
  for (const char* text : {"fp32+beta", "fp32+k-smooth", "fp32+subtract-first", "fp32-backward+delta-fp32", "fp32-backward+delta-pdp",
                           "fp32-backward+two-row-sums", "fp32+gproj", "fp32-backward+gproj:targets=all", "gproj+delta-mma",
                           "beta+subtract-first+two-row-sums+k-smooth+gproj+delta-pdp"}) {
    INFO(text);
    CHECK_NOTHROW(fixed("fa3", text));
  }
}

TEST_CASE("fix: schedules that a fix has nothing to do with are refused, by name", "[fix]") {
  for (const char* schedule : {"eager-bf16", "exact"})
    for (fix_description const& f : all_fixes()) {
      INFO(schedule << ", " << f.name);
      if (f.name == "none") CHECK_NOTHROW(fixed(schedule, "none"));
      else CHECK_THROWS_WITH(fixed(schedule, std::string(f.name).c_str()), Contains(schedule) && Contains(std::string(f.name)));
    }
  for (attention_schedule const& s : all_attention_schedules()) {
    if (s.kind != schedule_kind::online) continue;
    INFO(s.name);
    if (has_scaled_maximum(s.rules.exponent)) CHECK_THROWS_WITH(with_fixes(s, "subtract-first"), Contains("subtract-first") && Contains(std::string(s.name)));
    else CHECK(with_fixes(s, "subtract-first").rules.unmasked == unmasked_blocks::none);
  }
}
