#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "stickybit/property/campaign.hpp"
#include "stickybit/property/diagnosis.hpp"
#include "stickybit/property/shrink.hpp"

namespace stickybit {

/// A failure made small and explained.
struct failure_report {
  failed_case failed;
  attention_problem call;    ///< the shrunk call, as the property judges it
  std::int64_t runs = 0;     ///< that shrinking took
  std::string what;          ///< what the property says of the shrunk call, or how the kernel failed
  std::string first_step;    ///< equals-schedule: the first step at which kernel and schedule part, by the schedule's account of the element
  diagnosis cause;           ///< of the kernel's differences from the schedule; not asked for after a kernel failure
  std::filesystem::path file;  ///< the shrunk call with the kernel's results; empty where none was written
  std::string replay;        ///< one line that runs it again
};

struct report_options {
  case_space space;
  shrink_options shrinking;
  bool diagnoses = true;
  bool approximate = false;  ///< as the campaign was
  diagnosis_options diagnosing;
  std::filesystem::path folder;                      ///< for the file; empty: none is written
  std::string kernel_words, schedule_words;          ///< as they stand on the command line; empty: their names
};

/// Shrinks and explains a case that failed in a campaign.  @throws std::invalid_argument where the case passes; file_error
[[nodiscard]] failure_report examine(kernel_under_test& kernel, attention_schedule const& schedule, failed_case const& failed, report_options const& options = {});

/// A call's sizes and all its numbers that are not zero; a large one's sizes alone.
[[nodiscard]] std::string tell_call(attention_problem const& problem);
[[nodiscard]] std::string tell(failure_report const& report);

/// The campaign as JUnit XML: one test case a property, one for what the kernel itself did, one for the bias test.
[[nodiscard]] std::string to_junit(campaign_result const& result, std::vector<failure_report> const& reports);

/// One call judged again by the property that the file's metadata names (default equals-schedule), with its seed.
/// @returns nothing where the call is not taken.  @throws file_error, kernel_failure, std::invalid_argument
[[nodiscard]] std::optional<property_outcome> replay(kernel_under_test& kernel, attention_schedule const& schedule, tensor_file const& file);

}  // namespace stickybit
