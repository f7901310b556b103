// The test of the tests: kernels with seeded defects must be found, and named right or not at all; right kernels must pass.
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdlib>

#include "faulty_kernel.hpp"
#include "stickybit/explain/call_difference.hpp"
#include "stickybit/format/value.hpp"
#include "stickybit/property/report.hpp"
#include "support/catch.hpp"
#include "support/random_calls.hpp"

namespace stickybit {
namespace {

using testing::known_defect;

campaign_options finite_campaign(std::int64_t cases, bool gradients = false) {
  campaign_options options;
  options.space.finite = true;
  options.space.gradients = gradients;
  options.cases = cases;
  return options;
}

std::unique_ptr<kernel_under_test> with(known_defect const& d) { return testing::plain_kernel({.name = d.name, .defects = {d.defects.begin(), d.defects.end()}}); }

enum class naming { right, unknown, wrong };

struct verdict_on_defect {
  std::int64_t cases = 0;  ///< until it was found
  std::string by;          ///< which property
  naming named = naming::unknown;
  std::string said;
  std::int64_t queries = 0, keys = 0, nonzero = 0;
};

verdict_on_defect find(known_defect const& d, bool diagnoses) {
  const attention_schedule fa3 = attention_schedule_named("fa3");
  const auto kernel = with(d);
  const campaign_options options = finite_campaign(10'000, d.backward);
  const campaign_result r = run_campaign(*kernel, fa3, options);
  verdict_on_defect v;
  v.cases = r.cases();
  if (r.failures.empty()) {
    v.cases = -1;
    return v;
  }
  v.by = r.failures[0].property;
  if (!diagnoses) return v;
  report_options how;
  how.space = options.space;
  how.shrinking.most_runs = 600;
  how.shrinking.seconds = 4;
  try {
    const failure_report report = examine(*kernel, fa3, r.failures[0], how);
    v.queries = report.call.queries;
    v.keys = report.call.keys;
    v.nonzero = nonzero_elements(report.call);
    v.said = report.cause.cause;
    for (std::string const& other : report.cause.also) v.said += " | " + other;
    bool right = false;
    for (std::string const& cause : d.causes) right = right || v.said.find(cause) != std::string::npos;
    v.named = !report.cause.known ? naming::unknown : right ? naming::right : naming::wrong;
  } catch (std::invalid_argument const& error) {
    v.said = error.what();  // not deterministic
  }
  return v;
}

/// Normal random calls, |O − exact| ≤ 1e-2 (1 + |exact|); of a backward pass dQ, dK and dV too.
bool found_by_tolerance(known_defect const& d) {
  const auto kernel = with(d), exact = emulated_kernel("exact");
  std::mt19937_64 random(7);
  for (std::int64_t n : {64, 128, 200, 256})
    for (bool causal : {false, true})
      for (std::int64_t head_dim : {64, 128}) {
        attention_problem p = call_of(n, n, head_dim, causal);
        p.layout = tensor_layout::b_s_h_d;
        fill(p, regime::gauss, random);
        if (d.backward) p.d_o = random_codes(p.q.size(), 1, random);
        const kernel_results a = kernel->run(p, d.backward), b = exact->run(p, d.backward);
        const auto beyond = [](std::vector<bf16_code> const& found, std::vector<bf16_code> const& expected) {
          for (std::size_t i = 0; i < found.size(); ++i) {
            const double x = to_double(expected[i]);
            if (!(std::fabs(to_double(found[i]) - x) <= 1e-2 * (1 + std::fabs(x)))) return true;
          }
          return false;
        };
        if (beyond(a.o, b.o) || beyond(a.dq, b.dq) || beyond(a.dk, b.dk) || beyond(a.dv, b.dv)) return true;
      }
  return false;
}

}  // namespace

TEST_CASE("faults: the kernel of these tests, without a defect, equals fa3 and cudnn", "[property][faults]") {
  for (testing::right_kernel const& right : testing::right_kernels()) {
    if (!right.finite_only) continue;
    campaign_options options = finite_campaign(40, right.backward);
    options.properties = {"equals-schedule"};
    const campaign_result r = run_campaign(*right.kernel, attention_schedule_named(right.schedule), options);
    INFO(right.kernel->name() << ": " << (r.failures.empty() ? std::string() : r.failures[0].recipe + ": " + r.failures[0].what));
    CHECK(r.passed());
  }
}

TEST_CASE("faults: most seeded defects are found within 8 cases", "[property][faults]") {
  std::int64_t found = 0, asked = 0;
  std::string late;
  for (known_defect const& d : testing::all_defects()) {
    const auto kernel = with(d);
    campaign_options options = finite_campaign(8, d.backward);
    options.space.head_dims = {64};
    options.space.most_queries = 104;
    const campaign_result r = run_campaign(*kernel, attention_schedule_named("fa3"), options);
    ++asked;
    found += !r.failures.empty();
    if (r.failures.empty()) late += fmt::format("{}{}", late.empty() ? "" : ", ", d.name);
    else if (!d.deterministic && d.defects.size() == 1) CHECK(r.failures[0].property == "determinism");
  }
  fmt::print("{} of {} within 8 cases, seeds from 1; later, in the long test: {}\n", found, asked, late);
  CHECK(10 * found >= 7 * asked);
}

TEST_CASE("faults: every seeded defect is found within 10000 cases", "[.long][faults]") {
  std::int64_t most = 0;
  const std::vector<known_defect> all = testing::all_defects();
  CHECK(all.size() >= 40);
  CHECK(std::count_if(all.begin(), all.end(), [](known_defect const& d) { return d.causes.empty(); }) >= 20);
  for (known_defect const& d : all) {
    const verdict_on_defect v = find(d, false);
    INFO(d.name);
    CHECK(v.cases > 0);
    most = std::max(most, v.cases);
  }
  fmt::print("{} defects found, each within {} cases, seeds from 1\n", all.size(), most);
}

TEST_CASE("faults: some defects are named, others are unknown", "[property][faults]") {
  for (known_defect const& d : testing::all_defects()) {
    if (d.name != "dS fused" && d.name != "delta of the row above") continue;
    const verdict_on_defect v = find(d, true);
    INFO(d.name << ": " << v.said);
    CHECK(v.named == (d.causes.empty() ? naming::unknown : naming::right));
    CHECK(v.keys <= 200);
  }
}

TEST_CASE("faults: all defects, found, made small and named", "[.long][faults]") {
  const std::vector<known_defect> all = testing::all_defects();
  const char* only = std::getenv("STICKYBIT_ONLY");  // a defect's name
  std::int64_t asked = 0, in_catalogue = 0, right = 0, wrong = 0, by_tolerance = 0, found = 0;
  fmt::print("| defect | found in case | by | a normal-random test, 1e-2 | shrunk: queries, keys, numbers | diagnosis | |\n| --- | --- | --- | --- | --- | --- | --- |\n");
  for (known_defect const& d : all) {
    if (only != nullptr && d.name != only) continue;
    ++asked;
    const verdict_on_defect v = find(d, true);
    const bool tolerance = found_by_tolerance(d);
    in_catalogue += !d.causes.empty();
    right += v.named == naming::right;
    wrong += v.named == naming::wrong;
    by_tolerance += tolerance;
    found += v.cases > 0;
    fmt::print("| {} | {} | {} | {} | {}, {}, {} | {} | {} |\n", d.name, v.cases, v.by, tolerance ? "finds it" : "-", v.queries, v.keys, v.nonzero, v.said,
               v.named == naming::right ? "right" : v.named == naming::wrong ? "WRONG" : d.causes.empty() ? "right: not in the catalogue" : "not named");
    std::fflush(stdout);
  }
  fmt::print("{} of {} found; of {} in the catalogue {} named right; {} misnamed; a normal-random test with tolerance 1e-2 finds {}\n", found, asked, in_catalogue, right, wrong, by_tolerance);
  CHECK(found == asked);
  CHECK(wrong == 0);
  CHECK(10 * right >= 8 * in_catalogue);
}

TEST_CASE("faults: right kernels pass, few cases", "[property][faults]") {
  for (testing::right_kernel const& right : testing::right_kernels()) {
    campaign_options options = finite_campaign(right.schedule == "exact" ? 1 : 3);
    options.space.finite = right.finite_only;
    options.space.gradients = right.backward;
    const attention_schedule s = schedule_from(right.schedule);
    options.space.least_queries = std::max<std::int64_t>(1, s.min_queries);
    options.space.most_queries = std::max<std::int64_t>(40, s.min_queries);
    const campaign_result r = run_campaign(*right.kernel, s, options);
    INFO(right.kernel->name() << ": " << (r.failures.empty() ? std::string() : r.failures[0].recipe + ": " + r.failures[0].what));
    CHECK(r.passed());
  }
}

TEST_CASE("faults: no false alarm on right kernels in 10^5 cases", "[.long][alarms]") {
  const std::vector<testing::right_kernel> all = testing::right_kernels();
  CHECK(all.size() >= 20);
  std::int64_t cases = 0, alarms = 0;
  const char* only = std::getenv("STICKYBIT_ONLY");  // a kernel's name, so that many cores can share the work
  for (testing::right_kernel const& right : all) {
    if (only != nullptr && right.kernel->name() != only) continue;
    campaign_options options = finite_campaign(100'000 / std::int64_t(all.size()) + 1);
    options.first_seed = 5'000'000;
    options.most_failures = 1'000'000;
    options.space.finite = right.finite_only;
    options.space.gradients = right.backward;
    options.space.most_queries = 8;
    options.space.most_keys = 200;
    const attention_schedule s = schedule_from(right.schedule);
    options.space.least_queries = std::max<std::int64_t>(1, s.min_queries);
    options.space.most_queries = std::max(options.space.most_queries, options.space.least_queries);
    const campaign_result r = run_campaign(*right.kernel, s, options);
    cases += r.cases();
    alarms += std::int64_t(r.failures.size()) + r.against_schedule.biased();
    fmt::print("{} against {}: {} cases, {} not taken, {} alarms{}\n", right.kernel->name(), right.schedule, r.cases(), r.unsupported, r.failures.size(),
               r.failures.empty() ? std::string() : fmt::format(", first {} seed {} {}: {}", r.failures[0].property, r.failures[0].seed, r.failures[0].recipe, r.failures[0].what));
    std::fflush(stdout);
  }
  fmt::print("{} kernels, {} cases, seeds from 5000000 each: {} alarms\n", all.size(), cases, alarms);
  CHECK(alarms == 0);
}

}  // namespace stickybit
