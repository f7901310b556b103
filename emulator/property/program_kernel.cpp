#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "call_file.hpp"
#include "child.hpp"
#include "program_files.hpp"
#include "stickybit/attention/forward.hpp"
#include "stickybit/property/kernel.hpp"

namespace stickybit {
namespace {

class program final : public kernel_under_test {
 public:
  program(std::string command, bool has_backward, child_limits limits) : command_(std::move(command)), has_backward_(has_backward), limits_(limits) {}
  [[nodiscard]] std::string name() const override { return command_; }
  [[nodiscard]] bool has_backward() const override { return has_backward_; }

  [[nodiscard]] kernel_results run(attention_problem const& p, bool gradients) override {
    detail::scratch_folder folder;
    const auto in = folder / "call.safetensors", out = folder / "results.safetensors", errors = folder / "errors";
    detail::call_file(p).save(in);
    const std::string line = fmt::format("{} '{}' '{}'", command_, in.string(), out.string());
    const int status = shell(line, errors);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) throw unsupported_call(command_ + ": does not take this call");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      try {
        detail::throw_ended(command_, status);
      } catch (kernel_failure const& failure) {
        throw kernel_failure(failure.kind, failure.what() + detail::tail_of(errors));
      }
    }
    return detail::read_results(command_, p, out, gradients);
  }

 private:
  int shell(std::string const& line, std::filesystem::path const& errors) const {
    detail::child_process child(command_, [&](int) {
      const int to = ::open(errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      ::dup2(to, STDOUT_FILENO);
      ::dup2(to, STDERR_FILENO);
      ::execl("/bin/sh", "sh", "-c", line.c_str(), static_cast<char*>(nullptr));
      ::_exit(127);
    });
    return child.wait_for_end(detail::child_process::clock::now() + std::chrono::milliseconds(std::int64_t(limits_.seconds * 1000)));
  }

  std::string command_;
  bool has_backward_;
  child_limits limits_;
};

}  // namespace

std::unique_ptr<kernel_under_test> program_kernel(std::string const& command, bool has_backward, child_limits limits) { return std::make_unique<program>(command, has_backward, limits); }

}  // namespace stickybit
