#pragma once
#include <atomic>
#include <cstdint>
#include <exception>

#include "stickybit/gemm/gemm.hpp"

namespace stickybit::detail {

/// A caller's progress inside a parallel region, where nothing may be thrown: what it throws is kept, work that has not begun is to be passed over
/// (`stopped`), and rethrow() throws it when the region has ended.
class guarded_progress {
 public:
  explicit guarded_progress(progress const& report) : report_(report) {}
  guarded_progress(guarded_progress const&) = delete;
  guarded_progress& operator=(guarded_progress const&) = delete;

  [[nodiscard]] bool wanted() const noexcept { return bool(report_); }
  [[nodiscard]] bool stopped() const noexcept { return stopped_.load(std::memory_order_relaxed); }
  /// From one thread at a time.
  void operator()(std::int64_t done, std::int64_t total) noexcept {
    if (!report_ || stopped()) return;
    try {
      report_(done, total);
    } catch (...) {
      thrown_ = std::current_exception();
      stopped_.store(true, std::memory_order_relaxed);
    }
  }
  /// After the region.
  void rethrow() const {
    if (thrown_) std::rethrow_exception(thrown_);
  }

 private:
  progress const& report_;
  std::atomic<bool> stopped_ = false;
  std::exception_ptr thrown_;
};

}  // namespace stickybit::detail
