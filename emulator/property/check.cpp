#include "stickybit/property/check.hpp"

#include <fmt/format.h>

#include "stickybit/explain/call_difference.hpp"

namespace stickybit {

std::ostream& operator<<(std::ostream& out, check_outcome const& outcome) {
  return out << (outcome ? fmt::format("{} passed {} cases against {}", outcome.result.kernel, outcome.result.cases(), outcome.result.schedule) : outcome.report);
}

check_outcome check_kernel(kernel_under_test& kernel, std::string const& schedule, campaign_options const& options) {
  const attention_schedule s = schedule_from(schedule);
  check_outcome outcome{run_campaign(kernel, s, options), {}};
  if (outcome) return outcome;
  report_options how;
  how.space = options.space;
  how.approximate = options.approximate;
  how.schedule_words = schedule;
  how.kernel_words = kernel.name();
  if (!outcome.result.failures.empty()) outcome.report = tell(examine(kernel, s, outcome.result.failures[0], how));
  else if (options.approximate && outcome.result.against_exact.biased()) outcome.report = fmt::format("O is biased by {:+.4g} ulp against exact values\n", outcome.result.against_exact.mean());
  else if (outcome.result.against_schedule.biased()) outcome.report = fmt::format("O is biased by {:+.4g} ulp against {}\n", outcome.result.against_schedule.mean(), schedule);
  else outcome.report = "nothing was tested: no case applied\n";
  return outcome;
}

}  // namespace stickybit
