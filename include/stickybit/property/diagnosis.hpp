#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "stickybit/property/generators.hpp"
#include "stickybit/property/kernel.hpp"

namespace stickybit {

struct diagnosis {
  std::string cause;                 ///< "unknown", or what explains every bit of every call that was tried
  std::vector<std::string> also;     ///< causes that explain as much: nothing tried tells them apart
  bool known = false;
  std::int64_t calls = 0;            ///< that were compared: failing ones, passing ones, and ones made to tell causes apart
  std::int64_t causes_tried = 0;
  std::string nearest;               ///< of an unknown cause: the near kernel with the fewest differing codes, if it is nearer than the schedule; else empty
};

struct diagnosis_options {
  std::int64_t most_calls = 60;
  bool pairs = true;  ///< combinations of two changes of the schedule, where no single cause explains
};

/// Why does the kernel differ from the schedule? Emulates near kernels (block size, orders, fused operations, casts, masks, scales, padding, ...) on calls that
/// failed and on further calls of the space. A cause is named only where it gives every code of every call, and of at least eight of them.
/// @param failing  calls in which the kernel differs from the schedule; small ones first.  @throws kernel_failure
[[nodiscard]] diagnosis diagnose(kernel_under_test& kernel, attention_schedule const& schedule, std::vector<attention_problem> const& failing, case_space const& space,
                                 diagnosis_options const& options = {});

/// What can be named, and by which family: the catalogue.
struct catalogue_entry {
  std::string family, name;
};
[[nodiscard]] std::vector<catalogue_entry> diagnosis_catalogue(attention_schedule const& schedule);

}  // namespace stickybit
