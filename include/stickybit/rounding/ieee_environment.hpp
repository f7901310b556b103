#pragma once
#include <cfenv>

namespace stickybit::host {

/// While it lives, this thread's floating point is that of IEEE 754 by default: to nearest even, subnormals kept, no traps. Afterwards
/// it is what it was. A thread may have something else from -ffast-math, from a caller, or from the thread that started it.
class ieee_environment {
 public:
  ieee_environment() noexcept {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  /// The same with another direction: FE_TOWARDZERO, ...
  explicit ieee_environment(int direction) noexcept : ieee_environment() { std::fesetround(direction); }
  ~ieee_environment() { std::fesetenv(&before_); }
  ieee_environment(ieee_environment const&) = delete;
  ieee_environment& operator=(ieee_environment const&) = delete;

 private:
  std::fenv_t before_;
};

}  // namespace stickybit::host
