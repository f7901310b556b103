#pragma once
#include <nanobind/nanobind.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <future>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

#include "stickybit/gemm/gemm.hpp"

// Long work for Python: without the GIL, and ended by Ctrl-C.

namespace stickybit::python {

/// What a progress throws to end its computation.
struct interrupted {};

/// Told by the thread that waits, asked by those that work.
class stop_request {
 public:
  void stop() noexcept { stopped_.store(true, std::memory_order_relaxed); }
  void check() const {
    if (stopped_.load(std::memory_order_relaxed)) throw interrupted{};
  }
  [[nodiscard]] progress report() const {
    return [this](std::int64_t, std::int64_t) { check(); };
  }

 private:
  std::atomic<bool> stopped_ = false;
};

/// f(stop) with the GIL released. It runs on a thread of its own, so that this one, which alone hears of signals, can ask it to stop; f then has to
/// let `interrupted` out soon. Its result is dropped, and what the signal's handler raised (KeyboardInterrupt) is thrown.
/// @param is_short  f is over before anybody could press a key: run here, where starting a thread would be noticed
template <class F>
auto interruptible(bool is_short, F&& f) -> std::invoke_result_t<F&, stop_request const&> {
  namespace nb = nanobind;
  stop_request stop;
  nb::gil_scoped_release released;
  if (is_short) return f(std::as_const(stop));
  std::packaged_task<std::invoke_result_t<F&, stop_request const&>()> task([&] { return f(std::as_const(stop)); });
  auto result = task.get_future();
  std::thread worker(std::move(task));
  bool signalled = false;
  while (result.wait_for(std::chrono::milliseconds(20)) != std::future_status::ready) {
    if (signalled) continue;
    nb::gil_scoped_acquire held;
    if (PyErr_CheckSignals() == 0) continue;
    signalled = true;
    stop.stop();
    // The exception stays with this thread's state while it waits.
  }
  worker.join();
  if (!signalled) return result.get();
  nb::gil_scoped_acquire held;
  throw nb::python_error();
}

}  // namespace stickybit::python
