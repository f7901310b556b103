#pragma once
#include <string>
#include <vector>

#include "../support/safetensors.hpp"
#include "attention_case.hpp"
#include "attention_device.hpp"
#include "stickybit/attention/backward.hpp"
#include "stickybit/schedule/attention_schedule.hpp"

namespace stickybit::gpu {

/// Codes of one tensor that differ; NaN equals NaN.
struct tensor_tally {
  std::string name;
  std::size_t compared = 0, mismatches = 0, first = 0;  ///< first: index of the first mismatch, if there is one
  std::uint32_t on_gpu = 0, emulated = 0;               ///< its codes
};

/// What the emulator says of a case. A backward case also has the forward pass that it starts from.
struct emulated_call {
  forward_result forward;
  std::vector<bf16_code> o_low;  ///< of the forward pass, where the schedule has one
  call_results results;
};
[[nodiscard]] emulated_call emulate_call(attention_case const& c, attention_problem const& problem, attention_schedule const& schedule);

/// The fixes of a schedule as a kernel takes them; `plain` is the same schedule without.
[[nodiscard]] kernel::forward_fixes fixes_of(attention_schedule const& fixed, attention_schedule const& plain);

/// One tally a tensor. dQ of a case that is not deterministic is left out.
[[nodiscard]] std::vector<tensor_tally> compare_results(attention_case const& c, call_results const& on_gpu, call_results const& emulated);

/// One line: where in the tensor, both codes.
[[nodiscard]] std::string mismatch_text(attention_case const& c, tensor_tally const& t);

/// Schedules that differ from this one in one rule. Storage for their tiles is static.
struct changed_schedule {
  std::string what;
  attention_schedule schedule;
};
[[nodiscard]] std::vector<changed_schedule> changed_schedules(attention_schedule const& s, bool backward);

/// A file with the call's inputs, and one kernel's results for it.
[[nodiscard]] safetensors_writer call_file(attention_case const& c, attention_problem const& problem);
void add_results(safetensors_writer& file, attention_case const& c, attention_schedule const& schedule, call_results const& results);

/// Writes the call and its results so that `stickybit validate` checks them.
void save_call(std::string const& path, attention_case const& c, attention_problem const& problem, attention_schedule const& schedule, emulated_call const& emulated, call_results const& results);

/// Prints TFLOP/s of the kernel on random numbers, 16 heads, both head dimensions, causal and not.
void time_kernel(kernel::kernel_choice choice, bool backward, bool deterministic, kernel::forward_fixes const& fixes, bool low_output);

}  // namespace stickybit::gpu
