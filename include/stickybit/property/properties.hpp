#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "stickybit/property/generators.hpp"
#include "stickybit/property/kernel.hpp"

// What an attention kernel should satisfy, whatever its schedule. Which schedule satisfies which exactly, approximately or not is a table that is
// found by search (property_table.hpp), not assumed.

namespace stickybit {

/// What one property says of one call.
struct property_outcome {
  bool applies = true;   ///< the call lies in the property's domain
  bool exact = true;     ///< holds without any deviation
  double deviation = 0;  ///< largest one, in units of the property's tolerance: above 1 it does not hold even approximately
  std::string tensor;    ///< where the largest deviation, or the first difference is
  std::int64_t index = -1;
  std::string what;      ///< in words; empty where exact
};

struct property_call {
  kernel_under_test& kernel;
  attention_schedule const& schedule;  ///< says which keys a causal call shows; nothing else of it is used but by equals-schedule
  attention_problem const& problem;    ///< in the property's domain: what prepare() made
  std::uint64_t seed;                  ///< of what the property draws beside the call
};

struct attention_property {
  std::string_view name;
  std::string_view definition;
  std::string_view domain;     ///< of calls; prepare() changes a call to be in it
  std::string_view tolerance;  ///< what "approximately" allows; "none" where a deviation is a failure
  bool gradients;              ///< needs a backward pass
  bool (*prepare)(attention_problem&, attention_schedule const&, study_random&);  ///< false: this call cannot be brought into the domain
  property_outcome (*judge)(property_call const&);
};

/// All but no-signed-bias, which is about many calls (campaign.hpp). No name twice; equals-schedule is the first.
[[nodiscard]] std::span<attention_property const> all_properties() noexcept;
/// @throws std::invalid_argument listing the properties that there are
[[nodiscard]] attention_property const& property_named(std::string_view name);

/// Changes the call to lie in the property's domain, then judges. What prepare() makes of a call depends on the call and the seed alone.
/// @param prepared  where given, becomes the call that was judged
/// @returns nothing where the property, the schedule's emulation or the kernel does not take the call
/// @throws kernel_failure
[[nodiscard]] std::optional<property_outcome> judge(attention_property const& property, kernel_under_test& kernel, attention_schedule const& schedule, attention_problem const& problem,
                                                    std::uint64_t seed, attention_problem* prepared = nullptr);
/// The same of a call that is in the domain already.
[[nodiscard]] std::optional<property_outcome> judge_prepared(attention_property const& property, kernel_under_test& kernel, attention_schedule const& schedule,
                                                             attention_problem const& problem, std::uint64_t seed);

/// Where two results first differ, tensors in the order o, lse, dq, dk, dv; NaN equals NaN. Tensors that one has not are passed over.
[[nodiscard]] property_outcome compare_results(kernel_results const& found, kernel_results const& expected, std::string_view expected_is);

/// What changes when a call is run again.
struct variation {
  std::int64_t runs = 0, changed = 0;  ///< further runs, and those with other codes than the first
  std::vector<std::string> tensors;    ///< that change
  std::string what;                    ///< "dq: up to 12 of 4096 codes change between two runs, ..."; empty where nothing does
  [[nodiscard]] bool found() const noexcept { return changed != 0; }
  [[nodiscard]] bool has(std::string_view tensor) const noexcept;
};
/// Runs the call again, at most `runs` times; at least two more after a first change. The payload of a NaN counts.
/// @throws kernel_failure, unsupported_call
[[nodiscard]] variation find_variation(kernel_under_test& kernel, attention_problem const& problem, bool gradients, std::int64_t runs = 6);

}  // namespace stickybit
