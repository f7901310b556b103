// Property tests of a kernel in GoogleTest, as docs/check.md says.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include "stickybit/property/check.hpp"

namespace {

stickybit::campaign_options few_small_cases() {
  stickybit::campaign_options options;
  options.cases = 25;
  options.space.head_dims = {64};
  options.space.most_queries = 6;
  options.space.most_keys = 150;
  return options;
}

/// Stands for a kernel of one's own.
void forward(stickybit::attention_problem const& call, stickybit::kernel_results& results) { results = stickybit::emulated_kernel("fa3")->run(call, false); }

}  // namespace

TEST(Kernel, EqualsItsSchedule) {
  const auto kernel = stickybit::callable_kernel("my kernel", forward);
  const auto outcome = stickybit::check_kernel(*kernel, "fa3", few_small_cases());
  EXPECT_TRUE(outcome) << outcome;
}

TEST(Kernel, RunsInAProcessOfItsOwn) {
  const auto kernel = stickybit::isolated("my kernel", false, [] { return stickybit::callable_kernel("my kernel", forward); });
  const auto outcome = stickybit::check_kernel(*kernel, "fa3", few_small_cases());
  EXPECT_TRUE(outcome) << outcome;
}

TEST(Kernel, AFailurePrintsTheReport) {
  EXPECT_NONFATAL_FAILURE(
      {
        const auto kernel = stickybit::callable_kernel("my kernel", forward);
        const auto outcome = stickybit::check_kernel(*kernel, "fa3+subtract-first", few_small_cases());
        EXPECT_TRUE(outcome) << outcome;
      },
      "FAILED equals-schedule");
}
