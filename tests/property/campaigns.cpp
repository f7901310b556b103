#include "stickybit/property/campaign.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "stickybit/explain/call_difference.hpp"
#include "stickybit/format/value.hpp"
#include "stickybit/property/check.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

namespace stickybit {
namespace {

case_space small_space() {
  case_space space;
  space.head_dims = {64};
  space.most_queries = 8;
  space.most_keys = 160;
  return space;
}

campaign_options some(std::int64_t cases) {
  campaign_options options;
  options.space = small_space();
  options.cases = cases;
  return options;
}

/// fa3, but O of the seventh row is one code larger where the call has as many rows.
std::unique_ptr<kernel_under_test> off_by_an_ulp() {
  return callable_kernel("off by an ulp", [](attention_problem const& p, kernel_results& r) {
    r = emulated_kernel("fa3")->run(p, false);
    const std::size_t at = std::size_t(6 * p.heads * p.head_dim + 5);
    if (p.queries > 6 && r.o[at].is_finite()) r.o[at] = bf16_code::from_bits(std::uint16_t(r.o[at].to_bits() ^ 1));
  });
}

}  // namespace

TEST_CASE("campaign: a kernel equal to the schedule passes; the same seeds give the same result", "[property][campaign]") {
  const auto kernel = emulated_kernel("fa3");
  const campaign_result r = run_campaign(*kernel, attention_schedule_named("fa3"), some(150));
  CHECK(r.passed());
  CHECK(r.cases() == 150);
  CHECK(r.properties[0].cases + r.unsupported >= 150);
  CHECK(to_json(r) == to_json(run_campaign(*kernel, attention_schedule_named("fa3"), some(150))));
}

TEST_CASE("campaign: a difference of one code is found, shrunk, written and replayed", "[property][campaign]") {
  const temporary_folder folder;
  const auto kernel = off_by_an_ulp();
  const attention_schedule fa3 = attention_schedule_named("fa3");
  campaign_result r = run_campaign(*kernel, fa3, some(500));
  REQUIRE(r.failures.size() == 1);
  CHECK(r.failures[0].property == "equals-schedule");
  report_options how;
  how.space = small_space();
  how.folder = folder.path();
  const failure_report report = examine(*kernel, fa3, r.failures[0], how);
  CHECK(report.call.queries == 7);
  CHECK(report.call.keys == 1);
  CHECK(nonzero_elements(report.call) <= 1);
  CHECK_FALSE(report.cause.known);
  CHECK(report.cause.cause == "unknown");
  INFO(report.first_step);
  CHECK(report.first_step.find("O[head 0, row 6, column 5]") != std::string::npos);
  CHECK(tell(report).find(report.replay) != std::string::npos);
  const tensor_file file = tensor_file::load(report.file);
  CHECK_FALSE(replay(*kernel, fa3, file)->exact);
  CHECK(replay(*emulated_kernel("fa3"), fa3, file)->exact);
  const std::string xml = to_junit(r, {report});
  CHECK(xml.find("failures=\"1\"") != std::string::npos);
  CHECK(xml.find("<failure message=") != std::string::npos);
}

TEST_CASE("campaign: a kernel that crashes fails with its input, in every form of report", "[property][campaign]") {
  const temporary_folder folder;
  const auto kernel = isolated("crashes", false, [] {
    return callable_kernel("crashes", [](attention_problem const& p, kernel_results& r) {
      if (p.keys > 40 && p.causal) ::raise(SIGSEGV);
      r = emulated_kernel("fa3")->run(p, false);
    });
  });
  const attention_schedule fa3 = attention_schedule_named("fa3");
  const campaign_result r = run_campaign(*kernel, fa3, some(500));
  REQUIRE(r.failures.size() == 1);
  CHECK(r.failures[0].is_kernel_failure);
  CHECK(r.failures[0].property == "memory fault");
  CHECK_FALSE(r.passed());
  report_options how;
  how.space = small_space();
  how.folder = folder.path();
  const failure_report report = examine(*kernel, fa3, r.failures[0], how);
  CHECK(report.call.keys == 41);
  CHECK(report.call.queries == 1);
  CHECK(std::filesystem::exists(report.file));
  CHECK_THROWS_AS(replay(*kernel, fa3, tensor_file::load(report.file)), kernel_failure);
  CHECK(to_junit(r, {report}).find("errors=\"1\"") != std::string::npos);
  CHECK(nlohmann::json::parse(to_json(r))["failures"][0]["kernel_failure"] == true);
}

TEST_CASE("campaign: a kernel that is not deterministic is reported as such, with the tensor and how many codes change", "[property][campaign]") {
  // Every third run has another code in dQ; and, told so, O is wrong in every run.
  for (const bool wrong : {false, true}) {
    std::int64_t calls = 0;
    const auto kernel = callable_kernel(
        "varies",
        [&](attention_problem const& p, kernel_results& r) {
          r = emulated_kernel("fa3")->run(p, false);
          if (wrong) r.o[0] = bf16_code::from_bits(std::uint16_t(r.o[0].to_bits() ^ 1));
        },
        [&](attention_problem const& p, kernel_results& r) {
          const kernel_results sound = emulated_kernel("fa3")->run(p, true);
          r.dq = sound.dq;
          r.dk = sound.dk;
          r.dv = sound.dv;
          if (++calls % 3 == 0) r.dq[1] = bf16_code::from_bits(std::uint16_t(r.dq[1].to_bits() ^ 1));
        });
    campaign_options options = some(40);
    options.space.gradients = options.space.finite = true;
    options.properties = {"equals-schedule"};
    const campaign_result r = run_campaign(*kernel, attention_schedule_named("fa3"), options);
    REQUIRE(r.failures.size() == 1);
    INFO(r.failures[0].what);
    if (wrong) {
      CHECK(r.failures[0].property == "equals-schedule");  // O is the same in every run
      continue;
    }
    CHECK(r.failures[0].property == "determinism");
    CHECK(r.failures[0].what.find("dq: up to 1 of ") != std::string::npos);
    CHECK(r.properties.back().name == "determinism");
    CHECK(r.properties.back().failures == 1);
    report_options how;
    how.space = options.space;
    const failure_report report = examine(*kernel, attention_schedule_named("fa3"), r.failures[0], how);
    CHECK(report.cause.cause.empty());
    CHECK(report.call.keys <= 2);
    CHECK(to_junit(r, {report}).find("name=\"determinism\"><failure") != std::string::npos);
  }
}

TEST_CASE("campaign: a bias against the schedule is found by the sequential test alone", "[property][campaign]") {
  // Every tenth code is one too large: with the equality not asked for, nothing else sees it.
  const auto kernel = callable_kernel("biased", [](attention_problem const& p, kernel_results& r) {
    r = emulated_kernel("fa3")->run(p, false);
    for (std::size_t i = 0; i < r.o.size(); i += 10)
      if (r.o[i].is_finite() && !r.o[i].is_zero() && r.o[i].magnitude() < 0x7f00) r.o[i] = bf16_code::from_bits(std::uint16_t(r.o[i].to_bits() + (r.o[i].negative() ? -1 : 1)));
    });
  campaign_options options = some(600);
  options.space.finite = true;
  options.space.only = {"one-signed", "values-one-signed"};
  options.most_failures = 1'000'000;
  const campaign_result r = run_campaign(*kernel, attention_schedule_named("fa3"), options);
  CHECK(r.against_schedule.biased());
  CHECK(std::fabs(r.against_schedule.mean()) < 0.2);
}

TEST_CASE("campaign: the sequential test has its error rate, 20000 runs without a bias", "[property][campaign]") {
  study_random random(5);
  int alarms = 0;
  for (int run = 0; run < 20000; ++run) {
    sequential_mean_test test(0, 0.05);
    for (int i = 0; i < 200; ++i) test.add(random.next() % 2 == 0 ? 0.5 : -0.5);
    alarms += test.biased();
  }
  CHECK(alarms < 1000 + 100);  // at most 5 % and three standard deviations
  sequential_mean_test found(0.02, 1e-6);
  for (int i = 0; i < 4000 && !found.biased(); ++i) found.add(random.normal() * 0.1 - 0.05);
  CHECK(found.biased());
  CHECK(found.count() < 2000);
}

TEST_CASE("campaign: killed and gone on with, it loses no case and counts none twice", "[property][campaign]") {
  const temporary_folder folder;
  campaign_options options = some(400);
  options.checkpoint_every = 7;
  const attention_schedule fa3 = attention_schedule_named("fa3");
  const auto whole = off_by_an_ulp();
  options.most_failures = 1'000'000;
  const campaign_result uninterrupted = run_campaign(*whole, fa3, options);
  options.checkpoint = folder / "state.json";
  for (int kills = 0; kills < 4; ++kills) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      ::setenv("OMP_NUM_THREADS", "1", 1);
      std::int64_t calls = 0;
      auto dies = callable_kernel("off by an ulp", [&](attention_problem const& p, kernel_results& r) {
        if (++calls > 90 + 31 * kills) ::raise(SIGKILL);
        r = off_by_an_ulp()->run(p, false);
      });
      std::thread([&] { (void)run_campaign(*dies, fa3, options); }).join();
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(WIFSIGNALED(status));
  }
  const auto half = nlohmann::json::parse(std::ifstream(options.checkpoint));
  CHECK((half["next_seed"] > 1 && half["next_seed"] < 401));
  const campaign_result resumed = run_campaign(*whole, fa3, options);
  CHECK(to_json(resumed) == to_json(uninterrupted));
  CHECK(to_json(run_campaign(*whole, fa3, options)) == to_json(uninterrupted));  // nothing left to do
  CHECK_THROWS_AS(run_campaign(*whole, attention_schedule_named("cudnn"), options), std::invalid_argument);
  options.space.most_keys = 161;
  CHECK_THROWS_AS(run_campaign(*whole, fa3, options), std::invalid_argument);
}

TEST_CASE("check_kernel: for any test framework", "[property][campaign]") {
  const auto kernel = emulated_kernel("cudnn");
  CHECK(check_kernel(*kernel, "cudnn", some(60)));
  const check_outcome wrong = check_kernel(*kernel, "fa3", some(60));
  CHECK_FALSE(wrong);
  INFO(wrong);
  CHECK(wrong.report.find("FAILED equals-schedule") != std::string::npos);
  campaign_options nothing = some(5);
  nothing.space.head_dims = {72};
  CHECK_FALSE(check_kernel(*kernel, "cudnn", nothing));  // nothing was tested: no pass
#if __has_include(<catch2/catch.hpp>)
  using base = Catch::MatcherBase<std::shared_ptr<kernel_under_test>>;
#else
  using base = Catch::Matchers::MatcherBase<std::shared_ptr<kernel_under_test>>;
#endif
  const std::shared_ptr<kernel_under_test> shared = emulated_kernel("fa3");
  CHECK_THAT(shared, schedule_matcher<base>("fa3", some(20)));
}

}  // namespace stickybit
