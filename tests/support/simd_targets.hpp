#pragma once
#include <fmt/format.h>
#include <hwy/targets.h>

#include <cstdint>
#include <string>
#include <vector>

// Highway's targets, one after another. A test that uses this links hwy::hwy.
namespace testing {

/// The targets that are compiled in and that this machine can run; the best first.
inline std::vector<std::int64_t> simd_targets() { return hwy::SupportedAndGeneratedTargets(); }

inline std::string names_of(std::vector<std::int64_t> const& targets) {
  std::string names;
  for (std::int64_t target : targets) names += fmt::format("{}{}", names.empty() ? "" : ", ", hwy::TargetName(target));
  return names;
}

/// While it lives, run-time dispatch goes to one target.
class forced_target {
 public:
  explicit forced_target(std::int64_t target) { hwy::SetSupportedTargetsForTest(target); }
  ~forced_target() { hwy::SetSupportedTargetsForTest(0); }
  forced_target(forced_target const&) = delete;
  forced_target& operator=(forced_target const&) = delete;
};

}  // namespace testing
