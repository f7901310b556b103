#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "stickybit/gemm/gemm.hpp"
#include "stickybit/property/property_table.hpp"
#include "stickybit/property/sequential_test.hpp"

namespace stickybit {

struct campaign_options {
  case_space space;
  std::vector<std::string> properties;  ///< names; empty: all
  std::uint64_t first_seed = 1;
  std::int64_t cases = 1000;
  std::int64_t most_failures = 1;   ///< stops when so many cases failed
  double seconds = 0;               ///< stops after so many; 0: never
  bool approximate = false;         ///< for a kernel that equals no schedule: equality is counted, not asked for; properties must hold within their tolerance, whatever the schedule has
  double bias_error_rate = 1e-6;
  std::filesystem::path checkpoint;  ///< empty: none. Written whole every `checkpoint_every` cases and at the end; read first where it exists
  std::int64_t checkpoint_every = 200;
  progress report;
};

/// A case that failed.
struct failed_case {
  std::uint64_t seed = 0;
  std::string recipe;
  std::string property;  ///< name; of a crash and the like the name of its kind
  std::string what;
  bool is_kernel_failure = false;  ///< no results: crash, hang, memory fault, ...
};

/// What became of one property.
struct property_count {
  std::string name;
  std::int64_t cases = 0, inexact = 0, failures = 0;
  double largest = 0;      ///< deviation, in units of the tolerance
  holding expected = holding::untested;
};

struct campaign_result {
  std::string kernel, schedule;
  std::uint64_t first_seed = 1, next_seed = 1;  ///< the seeds first … next − 1 are done, each once
  std::int64_t unsupported = 0;                 ///< cases that the kernel or the schedule does not take
  std::vector<property_count> properties;
  std::vector<failed_case> failures;
  bool approximate = false;
  sequential_mean_test against_schedule, against_exact;  ///< mean of a case's errors of O, in BF16 ulp of its column
  [[nodiscard]] std::int64_t cases() const noexcept { return std::int64_t(next_seed - first_seed); }
  /// No failure, no bias against the schedule (approximate: against exact values), and something was tested.
  [[nodiscard]] bool passed() const noexcept;
};

/// Is this outcome a failure of a kernel that should equal the schedule? equals-schedule: any difference; else what the table says of the schedule
/// is missed: exactly → any deviation, approximately → one above the tolerance, no → never. A schedule with another unit or with fixes is asked for no more than "approximately".
/// @param approximate  as in campaign_options: a deviation above the tolerance, or any where there is none; but never of masked-nan and row-independence, which sound kernels miss
[[nodiscard]] bool is_failure(attention_schedule const& schedule, attention_property const& property, property_outcome const& outcome, bool approximate = false) noexcept;

/// One case: equality with the schedule, and one of the other properties, which takes turns by the seed.
/// @throws kernel_failure
struct case_outcome {
  bool supported = false;
  std::vector<std::pair<attention_property const*, property_outcome>> outcomes;
  std::optional<double> error_against_schedule, error_against_exact;
};
[[nodiscard]] case_outcome run_case(kernel_under_test& kernel, attention_schedule const& schedule, property_case const& c, campaign_options const& options);

/// Cases by seed until all are done or enough failed. With a checkpoint, a campaign that was killed goes on where it was; no seed is lost or counted twice.
/// @throws std::invalid_argument where a checkpoint is of another kernel, schedule or space; file_error where it cannot be written
[[nodiscard]] campaign_result run_campaign(kernel_under_test& kernel, attention_schedule const& schedule, campaign_options const& options);

/// The result as JSON: what a checkpoint holds.
[[nodiscard]] std::string to_json(campaign_result const& result);

}  // namespace stickybit
