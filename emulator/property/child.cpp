#include "child.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "stickybit/property/kernel.hpp"

namespace stickybit::detail {

void throw_ended(std::string const& name, int status) {
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    const bool memory = signal == SIGSEGV || signal == SIGBUS;
    throw kernel_failure(memory ? failure_kind::memory_fault : failure_kind::crashed, fmt::format("{}: ended by signal {} ({})", name, signal, strsignal(signal)));
  }
  const int ended = WEXITSTATUS(status);
  const bool memory = ended == 128 + SIGSEGV || ended == 128 + SIGBUS;  // a shell's word for a child that a signal ended
  throw kernel_failure(memory ? failure_kind::memory_fault : failure_kind::crashed, fmt::format("{}: ended with status {} before it answered", name, ended));
}

child_process::child_process(std::string name, std::function<void(int)> const& run) : name_(std::move(name)) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw kernel_failure(failure_kind::error, fmt::format("{}: no socket: {}", name_, std::strerror(errno)));
  child_ = ::fork();
  if (child_ < 0) throw kernel_failure(failure_kind::error, fmt::format("{}: no process: {}", name_, std::strerror(errno)));
  if (child_ == 0) {
    ::setpgid(0, 0);
#ifdef __linux__
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a kernel that hangs ends with us
#endif
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    for (int s = 1; s < NSIG; ++s) ::signal(s, SIG_DFL);  // the parent's handlers are not the kernel's
    ::signal(SIGPIPE, SIG_IGN);
    ::close(ends[0]);
    ::dup2(STDERR_FILENO, STDOUT_FILENO);
    run(ends[1]);
    ::_exit(0);
  }
  ::close(ends[1]);
  socket_ = ends[0];
  ::fcntl(socket_, F_SETFL, O_NONBLOCK);
}

child_process::~child_process() {
  if (socket_ >= 0) ::close(socket_);
  if (child_ > 0) {
    ::kill(-child_, SIGKILL);
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
}

void child_process::wait_until_ready(short what, clock::time_point until) {
  pollfd end{socket_, what, 0};
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - clock::now()).count();
  const int ready = left <= 0 ? 0 : ::poll(&end, 1, int(std::min<long>(left, 1'000'000)));
  if (ready == 0) throw kernel_failure(failure_kind::hung, fmt::format("{}: no answer within the time limit", name_));
}

/// The socket is closed: the process is about to be gone.
void child_process::ended() {
  int status = 0;
  for (int i = 0; i < 200; ++i) {
    if (::waitpid(child_, &status, WNOHANG) == child_) {
      child_ = -1;
      throw_ended(name_, status);
    }
    ::usleep(10'000);
  }
  throw kernel_failure(failure_kind::crashed, fmt::format("{}: closed its socket without an answer", name_));
}

void child_process::write(std::span<std::byte const> bytes, clock::time_point until) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n > 0) bytes = bytes.subspan(std::size_t(n));
    else if (errno == EAGAIN) wait_until_ready(POLLOUT, until);
    else if (errno != EINTR) ended();
  }
}

void child_process::read(std::span<std::byte> bytes, clock::time_point until) {
  while (!bytes.empty()) {
    const ssize_t n = ::recv(socket_, bytes.data(), bytes.size(), 0);
    if (n > 0) bytes = bytes.subspan(std::size_t(n));
    else if (n == 0 || (errno != EAGAIN && errno != EINTR)) ended();
    else if (errno == EAGAIN) wait_until_ready(POLLIN, until);
  }
}

std::string child_process::read_some(clock::time_point until) {
  char bytes[4096];
  for (;;) {
    const ssize_t n = ::recv(socket_, bytes, sizeof bytes, 0);
    if (n > 0) return {bytes, std::size_t(n)};
    if (n == 0 || (errno != EAGAIN && errno != EINTR)) ended();
    if (errno == EAGAIN) wait_until_ready(POLLIN, until);
  }
}

int child_process::wait_for_end(clock::time_point until) {
  int status = 0;
  for (int pause_us = 200; ::waitpid(child_, &status, WNOHANG) != child_; pause_us = std::min(pause_us * 2, 10'000)) {
    if (clock::now() > until) throw kernel_failure(failure_kind::hung, fmt::format("{}: no end within the time limit", name_));
    ::usleep(useconds_t(pause_us));
  }
  child_ = -1;
  return status;
}

bool write_all(int to, std::span<std::byte const> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(to, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes = bytes.subspan(std::size_t(n));
  }
  return true;
}

bool read_all(int from, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::read(from, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes = bytes.subspan(std::size_t(n));
  }
  return true;
}

}  // namespace stickybit::detail
