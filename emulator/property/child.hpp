#pragma once
#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <string>

// A child process at the other end of a socket, as isolated kernels and commands need it.

namespace stickybit::detail {

/// What became of a child that ended: "memory fault: Segmentation fault", thrown as kernel_failure.  @param status  of waitpid
[[noreturn]] void throw_ended(std::string const& name, int status);

class child_process {
 public:
  using clock = std::chrono::steady_clock;

  /// @param run  what the child does with its end of the socket; ends the child by returning
  child_process(std::string name, std::function<void(int socket)> const& run);
  ~child_process();
  child_process(child_process const&) = delete;
  child_process& operator=(child_process const&) = delete;

  /// @throws kernel_failure: hung, crashed, memory_fault
  void write(std::span<std::byte const> bytes, clock::time_point until);
  void read(std::span<std::byte> bytes, clock::time_point until);
  /// What there is, at least one byte.
  std::string read_some(clock::time_point until);
  /// Until it ends by itself.  @returns the status of waitpid  @throws kernel_failure: hung
  int wait_for_end(clock::time_point until);

 private:
  void wait_until_ready(short what, clock::time_point until);
  [[noreturn]] void ended();

  std::string name_;
  pid_t child_ = -1;
  int socket_ = -1;
};

/// In the child: whole or false.
bool write_all(int to, std::span<std::byte const> bytes);
bool read_all(int from, std::span<std::byte> bytes);

}  // namespace stickybit::detail
