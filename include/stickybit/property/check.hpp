#pragma once
#include <cstdint>
#include <memory>
#include <ostream>
#include <string>

#include "stickybit/property/report.hpp"

// Property tests of a kernel from a test program: a function that any framework can ask, and what Catch2 needs to print it.

namespace stickybit {

/// What a check found: true where the kernel passed; the report otherwise.
struct check_outcome {
  campaign_result result;
  std::string report;  ///< empty where passed
  explicit operator bool() const noexcept { return result.passed(); }
};
/// GoogleTest and Catch2 print it so.
std::ostream& operator<<(std::ostream& out, check_outcome const& outcome);

/// GoogleTest: const auto outcome = check_kernel(*kernel, "fa3"); EXPECT_TRUE(outcome) << outcome;
/// Catch2, any version: const auto outcome = check_kernel(*kernel, "fa3"); INFO(outcome); CHECK(outcome);
/// @param schedule  "fa3", "fa2-torch+subtract-first"  @throws unknown_name and the like where the schedule is none
[[nodiscard]] check_outcome check_kernel(kernel_under_test& kernel, std::string const& schedule, campaign_options const& options = {});

/// A Catch2 matcher of std::shared_ptr<kernel_under_test>: CHECK_THAT(kernel, schedule_matcher<Base>("fa3")).
/// @tparam Base  Catch::MatcherBase<std::shared_ptr<kernel_under_test>> of Catch2 version 2, Catch::Matchers::MatcherBase<the same> of version 3
template <class Base>
class schedule_matcher final : public Base {
 public:
  explicit schedule_matcher(std::string schedule, campaign_options options = {}) : schedule_(std::move(schedule)), options_(std::move(options)) {}
  bool match(std::shared_ptr<kernel_under_test> const& kernel) const override {
    const check_outcome outcome = check_kernel(*kernel, schedule_, options_);
    said_ = outcome.report;
    return bool(outcome);
  }

 protected:
  std::string describe() const override { return "equals the schedule " + schedule_ + (said_.empty() ? "" : "\n" + said_); }

 private:
  std::string schedule_;
  campaign_options options_;
  mutable std::string said_;
};

}  // namespace stickybit
