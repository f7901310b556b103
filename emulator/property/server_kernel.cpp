#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "call_file.hpp"
#include "child.hpp"
#include "program_files.hpp"
#include "stickybit/attention/forward.hpp"
#include "stickybit/property/kernel.hpp"

namespace stickybit {
namespace {

using detail::child_process;

/// A command that is started once and answers call after call, in lines: "CALL RESULTS GRADIENTS" to it, "ok", "unsupported" or "error TEXT" from it.
class server final : public kernel_under_test {
 public:
  server(std::string command, bool has_backward, child_limits limits) : command_(std::move(command)), has_backward_(has_backward), limits_(limits) {}
  [[nodiscard]] std::string name() const override { return command_; }
  [[nodiscard]] bool has_backward() const override { return has_backward_; }

  [[nodiscard]] kernel_results run(attention_problem const& p, bool gradients) override {
    try {
      if (!child_) start();
      return exchange(p, gradients);
    } catch (kernel_failure const& failure) {
      child_.reset();
      throw kernel_failure(failure.kind, failure.what() + detail::tail_of(folder_ / "errors"));
    }
  }

 private:
  static child_process::clock::time_point in(double seconds) { return child_process::clock::now() + std::chrono::milliseconds(std::int64_t(seconds * 1000)); }

  void start() {
    unread_.clear();
    child_.emplace(command_, [this](int socket) {
      const int errors = ::open((folder_ / "errors").c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      ::dup2(socket, STDIN_FILENO);
      ::dup2(socket, STDOUT_FILENO);
      ::dup2(errors, STDERR_FILENO);
      ::execl("/bin/sh", "sh", "-c", command_.c_str(), static_cast<char*>(nullptr));
      ::_exit(127);
    });
    // What loads before it is ready may take longer than a call.
    const auto until = in(std::max(120.0, limits_.seconds));
    while (line(until) != "ready") {}
  }

  kernel_results exchange(attention_problem const& p, bool gradients) {
    const auto call = folder_ / "call.safetensors", results = folder_ / "results.safetensors";
    std::filesystem::remove(results);
    detail::call_file(p).save(call);
    const auto until = in(limits_.seconds);
    const std::string question = fmt::format("{} {} {}\n", call.string(), results.string(), gradients ? 1 : 0);
    child_->write(std::as_bytes(std::span(question)), until);
    for (;;) {
      const std::string answer = line(until);
      if (answer == "ok") return detail::read_results(command_, p, results, gradients);
      if (answer == "unsupported" || answer.starts_with("unsupported ")) throw unsupported_call(fmt::format("{}: {}", command_, answer));
      if (answer.starts_with("error")) {
        const bool memory = answer.find("illegal memory access") != answer.npos || answer.find("misaligned address") != answer.npos;
        throw kernel_failure(memory ? failure_kind::memory_fault : failure_kind::error, fmt::format("{}: {}", command_, answer));
      }
    }  // whatever else a library prints is not an answer
  }

  std::string line(child_process::clock::time_point until) {
    for (;;) {
      const std::size_t end = unread_.find('\n');
      if (end != unread_.npos) {
        std::string first = unread_.substr(0, end);
        unread_.erase(0, end + 1);
        if (!first.empty() && first.back() == '\r') first.pop_back();
        return first;
      }
      unread_ += child_->read_some(until);
    }
  }

  std::string command_;
  bool has_backward_;
  child_limits limits_;
  detail::scratch_folder folder_;
  std::string unread_;
  std::optional<child_process> child_;
};

}  // namespace

std::unique_ptr<kernel_under_test> server_kernel(std::string const& command, bool has_backward, child_limits limits) { return std::make_unique<server>(command, has_backward, limits); }

}  // namespace stickybit
