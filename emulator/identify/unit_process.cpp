#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <optional>
#include <sstream>

#include "stickybit/identify/unit_probe.h"
#include "stickybit/identify/unit_probe.hpp"
#include "stickybit/machine/unit_file.hpp"

namespace stickybit {
namespace {

constexpr std::size_t most_cases_a_batch = 4096;

bool write_all(int to, void const* data, std::size_t size) {
  auto const* at = static_cast<char const*>(data);
  while (size != 0) {
    const ssize_t n = ::write(to, at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    size -= std::size_t(n);
  }
  return true;
}
bool read_all(int from, void* data, std::size_t size) {
  auto* at = static_cast<char*>(data);
  while (size != 0) {
    const ssize_t n = ::read(from, at, size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    size -= std::size_t(n);
  }
  return true;
}

/// A child process that answers as program_unit() says; ended with its parent.
class child_unit final : public unit_under_test {
 public:
  /// @param run  what the child does with its two ends; it does not return
  child_unit(std::string name, double seconds, std::function<void(int in, int out)> const& run) : name_(std::move(name)), seconds_(seconds) {
    int to_child[2], from_child[2];
    if (::pipe2(to_child, O_CLOEXEC) != 0 || ::pipe2(from_child, O_CLOEXEC) != 0) throw unit_failure(fmt::format("{}: no pipe: {}", name_, std::strerror(errno)));
    ::signal(SIGPIPE, SIG_IGN);
    child_ = ::fork();
    if (child_ < 0) throw unit_failure(fmt::format("{}: no process: {}", name_, std::strerror(errno)));
    if (child_ == 0) {
      ::setpgid(0, 0);
#ifdef __linux__
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a unit that hangs ends with us
#endif
      for (int s = 1; s < NSIG; ++s) ::signal(s, SIG_DFL);  // the parent's handlers are not the unit's
      ::close(to_child[1]);
      ::close(from_child[0]);
      run(to_child[0], from_child[1]);
      ::_exit(127);
    }
    ::close(to_child[0]);
    ::close(from_child[1]);
    to_ = to_child[1];
    from_ = from_child[0];
    ::fcntl(to_, F_SETFL, O_NONBLOCK);
    try {
      read_header();
    } catch (...) {
      end();
      throw;
    }
  }
  ~child_unit() override { end(); }
  child_unit(child_unit const&) = delete;
  child_unit& operator=(child_unit const&) = delete;

  [[nodiscard]] unit_formats formats() const override { return formats_; }

  [[nodiscard]] std::vector<std::uint64_t> evaluate(std::span<unit_case const> cases) override {
    std::vector<std::uint64_t> results;
    for (std::size_t first = 0; first < cases.size(); first += most_cases_a_batch) {
      const auto part = cases.subspan(first, std::min(most_cases_a_batch, cases.size() - first));
      std::vector<std::uint64_t> words{part.size()};
      for (unit_case const& x : part) {
        words.insert(words.end(), x.a.begin(), x.a.end());
        words.insert(words.end(), x.b.begin(), x.b.end());
        words.push_back(formats_.c == format::f16 ? to_f16_bits(x.c) : x.c);
      }
      std::vector<std::uint64_t> answers(part.size());
      exchange(words, answers);
      for (std::uint64_t d : answers) results.push_back(formats_.output == format::f16 ? from_f16_bits(d) : d);
    }
    return results;
  }

 private:
  using clock = std::chrono::steady_clock;

  [[noreturn]] void fail(std::string_view what) {
    int status = 0;
    const bool ended = ::waitpid(child_, &status, WNOHANG) == child_;
    if (ended) child_ = -1;
    if (ended && WIFSIGNALED(status)) throw unit_failure(fmt::format("{}: crashed: {}", name_, strsignal(WTERMSIG(status))));
    if (ended && WEXITSTATUS(status) != 0) throw unit_failure(fmt::format("{}: ended with status {}", name_, WEXITSTATUS(status)));
    throw unit_failure(fmt::format("{}: {}", name_, what));
  }

  /// Writes all words while reading all answers.
  void exchange(std::vector<std::uint64_t> const& words, std::vector<std::uint64_t>& answers) {
    auto const* out = reinterpret_cast<char const*>(words.data());
    auto* in = reinterpret_cast<char*>(answers.data());
    std::size_t out_left = words.size() * sizeof(words[0]), in_left = answers.size() * sizeof(answers[0]);
    const clock::time_point until = deadline();
    while (in_left != 0 || out_left != 0) {
      const bool readable = wait(until, out_left != 0);
      if (out_left != 0) {
        const ssize_t n = ::write(to_, out, out_left);
        if (n < 0 && errno != EAGAIN && errno != EINTR) give_time_and_fail();
        if (n > 0) {
          out += n;
          out_left -= std::size_t(n);
        }
      }
      if (!readable) continue;
      const ssize_t n = ::read(from_, in, in_left);
      if (n == 0 || (n < 0 && errno != EINTR)) give_time_and_fail();
      if (n < 0) continue;
      in += n;
      in_left -= std::size_t(n);
    }
  }

  [[nodiscard]] clock::time_point deadline() const { return clock::now() + std::chrono::milliseconds(std::int64_t(seconds_ * 1000)); }

  /// Has the child something to say? Waits until it has, or until it can take more where `writing`.
  bool wait(clock::time_point until, bool writing) {
    std::array<pollfd, 2> ends{pollfd{from_, POLLIN, 0}, pollfd{to_, POLLOUT, 0}};
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - clock::now()).count();
    const int ready = left <= 0 ? 0 : ::poll(ends.data(), writing ? 2 : 1, int(std::min<long>(left, 1'000'000)));
    if (ready == 0) fail(fmt::format("no answer within {} s", seconds_));
    return (ends[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0;
  }

  /// The pipe is closed: the process is about to be gone.
  [[noreturn]] void give_time_and_fail() {
    for (int i = 0; i < 100; ++i) {
      siginfo_t info{};
      if (::waitid(P_PID, id_t(child_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == child_) break;
      ::usleep(10'000);
    }
    fail("ended without an answer");
  }

  void read_header() {
    std::string line;
    const clock::time_point until = deadline();
    for (char c = 0; c != '\n';) {
      (void)wait(until, false);
      const ssize_t n = ::read(from_, &c, 1);
      if (n <= 0) give_time_and_fail();
      line += c;
      if (line.size() > 2000) break;
    }
    std::istringstream words(line);
    std::string magic, version, a, b, c, d;
    int k = 0;
    words >> magic >> version >> a >> b >> c >> d >> k;
    if (magic == "stickybit-error") fail(line.substr(line.find(' ') + 1, line.size() - line.find(' ') - 2));
    const auto fa = format_named(a), fb = format_named(b), fc = format_named(c), fd = format_named(d);
    const auto is_result = [](auto f) { return f == format::f32 || f == format::f16 || f == format::f64; };
    const bool f64 = fa == format::f64;
    if (magic != "stickybit-unit" || version != "1" || !fa || !fb || fa == format::e8m0 || fb == format::e8m0 || !is_result(fc) || !is_result(fd) || k < 1 || k > 255 ||
        f64 != (fd == format::f64) || f64 != (fb == format::f64) || f64 != (fc == format::f64))
      fail("expected the line 'stickybit-unit 1 A B C D K' first");
    formats_ = {*fa, *fb, *fc, *fd, k};
  }

  void end() {
    if (to_ >= 0) ::close(to_);
    if (from_ >= 0) ::close(from_);
    if (child_ > 0) {
      ::kill(-child_, SIGKILL);
      ::kill(child_, SIGKILL);
      ::waitpid(child_, nullptr, 0);
    }
  }

  std::string name_;
  double seconds_;
  pid_t child_ = -1;
  int to_ = -1, from_ = -1;
  unit_formats formats_;
};

void say_error(int out, std::string const& what) {
  std::string line = "stickybit-error " + what;
  std::replace(line.begin(), line.end(), '\n', ' ');
  line += '\n';
  (void)write_all(out, line.data(), line.size());
}

/// The child of library_unit(): the library's answers in the program's protocol.
void serve_library(std::string const& path, int in, int out) {
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return say_error(out, ::dlerror());
  void* symbol = ::dlsym(library, "stickybit_unit_under_test");
  if (symbol == nullptr) return say_error(out, "no function stickybit_unit_under_test: expected that of unit_probe.h");
  stickybit_unit const* unit = reinterpret_cast<decltype(&stickybit_unit_under_test)>(symbol)();
  if (unit == nullptr) return say_error(out, "stickybit_unit_under_test() returned null");
  if (unit->version != STICKYBIT_UNIT_VERSION) return say_error(out, fmt::format("version {}: expected {}", unit->version, STICKYBIT_UNIT_VERSION));
  if (unit->evaluate == nullptr || unit->a == nullptr || unit->b == nullptr || unit->c == nullptr || unit->d == nullptr) return say_error(out, "a null member: expected formats and evaluate");
  const std::string header = fmt::format("stickybit-unit 1 {} {} {} {} {}\n", unit->a, unit->b, unit->c, unit->d, unit->k);
  if (!write_all(out, header.data(), header.size())) return;
  const std::size_t k = unit->k;
  for (std::uint64_t count = 0; read_all(in, &count, sizeof count);) {
    std::vector<std::uint64_t> words(count * (2 * k + 1)), a(count * k), b(count * k), c(count), d(count);
    if (!read_all(in, words.data(), words.size() * sizeof words[0])) return;
    for (std::size_t i = 0; i < count; ++i) {
      auto const* at = words.data() + i * (2 * k + 1);
      std::copy_n(at, k, a.data() + i * k);
      std::copy_n(at + k, k, b.data() + i * k);
      c[i] = at[2 * k];
    }
    if (const int failed = unit->evaluate(unit->context, count, a.data(), b.data(), c.data(), d.data()); failed != 0) ::_exit(failed & 0x7f ? failed & 0x7f : 1);
    if (!write_all(out, d.data(), d.size() * sizeof d[0])) return;
  }
  ::_exit(0);
}

}  // namespace

std::unique_ptr<unit_under_test> library_unit(std::string const& path, double seconds) {
  const std::string found = path.find('/') == path.npos ? "./" + path : path;
  return std::make_unique<child_unit>(path, seconds, [&](int in, int out) { serve_library(found, in, out); });
}

std::unique_ptr<unit_under_test> program_unit(std::string const& command, double seconds) {
  return std::make_unique<child_unit>(command, seconds, [&](int in, int out) {
    ::dup2(in, STDIN_FILENO);
    ::dup2(out, STDOUT_FILENO);
    ::execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
  });
}

}  // namespace stickybit
