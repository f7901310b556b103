#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "stickybit/attention/problem.hpp"
#include "stickybit/format/code.hpp"
#include "stickybit/schedule/attention_schedule.hpp"

namespace stickybit {

/// What a kernel gave for a call, in the problem's layout; what it does not give is empty.
struct kernel_results {
  std::vector<bf16_code> o;
  std::vector<f32_code> lse;  // [b, h, s]
  std::vector<bf16_code> dq, dk, dv;

  friend bool operator==(kernel_results const&, kernel_results const&) = default;
};

enum class failure_kind : std::uint8_t {
  crashed,       ///< ended by a signal, or by itself
  memory_fault,  ///< a signal of memory, or a write beside a tensor
  hung,          ///< no answer within the time limit
  wrong_output,  ///< a result that is missing, has another shape or type, or elements never written
  error,         ///< the kernel said so: a status that is not 0, an exception
};
[[nodiscard]] std::string_view name_of(failure_kind kind) noexcept;

/// A kernel that gave no results for a call that it should take. A failure of the kernel, never a pass.
class kernel_failure : public std::runtime_error {
 public:
  kernel_failure(failure_kind failed, std::string const& what) : std::runtime_error(what), kind(failed) {}
  failure_kind kind;
};

/// An attention kernel that is tested.
class kernel_under_test {
 public:
  virtual ~kernel_under_test() = default;
  [[nodiscard]] virtual std::string name() const = 0;
  [[nodiscard]] virtual bool has_backward() const = 0;
  /// @param problem    layout s,h,d or b,s,h,d  @param gradients  dq, dk, dv too: the problem has a dO, the kernel a backward pass
  /// @throws kernel_failure; unsupported_call where the kernel does not take such a call
  [[nodiscard]] virtual kernel_results run(attention_problem const& problem, bool gradients) = 0;
};

/// Fills o and lse, or leaves lse empty.  @throws unsupported_call, or anything: a failure
using forward_function = std::function<void(attention_problem const&, kernel_results&)>;
/// Fills dq, dk, dv; o and lse are there.
using backward_function = std::function<void(attention_problem const&, kernel_results&)>;

/// A C++ callable in this process: what crashes ends the test; isolated() has a remedy.
[[nodiscard]] std::unique_ptr<kernel_under_test> callable_kernel(std::string name, forward_function forward, backward_function backward = {});

/// The emulator as a kernel: "fa3", "fa2-torch+subtract-first", "fa3@sm80.mma.bf16.f32".  @throws unknown_name, invalid_fix
[[nodiscard]] std::unique_ptr<kernel_under_test> emulated_kernel(std::string const& schedule);
[[nodiscard]] std::unique_ptr<kernel_under_test> emulated_kernel(std::string name, attention_schedule schedule);

struct child_limits {
  double seconds = 30;  ///< for one call
};

/// The kernel that `make` makes, in a child process that is started again after every failure: a crash, a hang and a memory fault become kernel_failure.
/// The child's standard output is joined to standard error. Ended with this object, and with this process.
/// @param make  called in the child alone, on a thread of its own
[[nodiscard]] std::unique_ptr<kernel_under_test> isolated(std::string name, bool has_backward, std::function<std::unique_ptr<kernel_under_test>()> make, child_limits limits = {});

/// A shared library that defines what kernel_abi.h says, in a child process. Tensors end at a page that cannot be touched.
/// @throws kernel_failure where it cannot be loaded
[[nodiscard]] std::unique_ptr<kernel_under_test> library_kernel(std::string const& path, child_limits limits = {});

/// A command, run by a shell for every call with two file names after it: it reads the call from the first (q, k, v, perhaps do; metadata layout b,s,h,d,
/// causal, softmax_scale) and writes to the second o, and where it has them lse, dq, dk, dv. Status 77: the call is not supported.
[[nodiscard]] std::unique_ptr<kernel_under_test> program_kernel(std::string const& command, bool has_backward, child_limits limits = {});

/// The same files, by a command that is started once and stays: it prints the line "ready"; then, for each line "CALL RESULTS GRADIENTS" (two file names, 0 or 1)
/// on its standard input, writes the results and prints "ok", "unsupported" or "error TEXT". Other lines that it prints are passed over. After a failure,
/// also a crash or no answer within the limit (the first "ready" has two minutes), it is started again; the failure is that of the call that was asked.
[[nodiscard]] std::unique_ptr<kernel_under_test> server_kernel(std::string const& command, bool has_backward, child_limits limits = {});

/// emulated:SCHEDULE[@UNIT][+FIX], lib:PATH (or a path that ends in .so), cmd:COMMAND, serve:COMMAND.  @throws std::invalid_argument naming the text
[[nodiscard]] std::unique_ptr<kernel_under_test> kernel_named(std::string const& text, bool gradients, child_limits limits = {});

/// Sizes as the problem says, else kernel_failure(wrong_output).
void require_sizes(attention_problem const& problem, kernel_results const& results, bool gradients);

}  // namespace stickybit
