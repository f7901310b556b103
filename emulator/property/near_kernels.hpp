#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stickybit/attention/backward.hpp"
#include "stickybit/property/kernel.hpp"

// Kernels that are nearly the schedule: each has one of the faults that attention kernels have, and is emulated, so that its bits can be compared.

namespace stickybit::detail {

struct near_kernel {
  std::string name;    ///< "the mask shows one key more"
  std::string family;  ///< what causes that are much the same have in common: "mask", "key block", ...
  /// @throws unsupported_call where the fault cannot be emulated for the call
  std::function<kernel_results(attention_problem const&, bool gradients)> run;
  /// The schedule with the change, where the fault is one of the schedule's rules; two such can be combined.
  std::function<void(attention_schedule&)> change;
};

/// Everything near the schedule. What the changed schedules refer to lives as long as this.
class near_kernels {
 public:
  explicit near_kernels(attention_schedule const& schedule);
  [[nodiscard]] std::vector<near_kernel> const& all() const noexcept { return all_; }
  [[nodiscard]] attention_schedule const& schedule() const noexcept { return schedule_; }

 private:
  void add(std::string family, std::string name, std::function<void(attention_schedule&)> change);
  void add_call(std::string family, std::string name, std::function<kernel_results(attention_problem const&, bool)> run);
  void add_forward_rules();
  void add_tiles();
  void add_backward_rules();
  void add_backward_faults();
  void add_calls();
  void add_rows();

  attention_schedule schedule_;
  std::vector<near_kernel> all_;
  std::vector<std::shared_ptr<std::vector<attention_tile>>> tiles_;
};

/// Forward and, where wanted and there is one, backward.  @throws unsupported_call
[[nodiscard]] kernel_results results_of(attention_schedule const& schedule, attention_problem const& problem, bool gradients);

/// Faults inside a row, which no schedule has. From the trace of the sound row.
enum class row_fault { output_not_rescaled, bf16_accumulator, weights_not_rounded, sum_not_rescaled, tf32_cut, tf32_rounded };
[[nodiscard]] kernel_results forward_with_fault(attention_schedule const& schedule, attention_problem const& problem, row_fault fault);

/// The call seen through a mask that shows each row `more` keys more (or fewer).  @throws unsupported_call
[[nodiscard]] kernel_results forward_with_mask_moved(attention_schedule const& schedule, attention_problem const& problem, std::int64_t more);

/// A fault of the backward pass that no schedule has; the forward pass is sound. Without gradients the sound results.
enum class backward_fault { mask_one_more, mask_one_fewer, no_mask, lse_in_bf16, no_delta, dk_and_dv_swapped, dq_not_scaled, dq_scaled_twice, last_head_of_group, first_head_of_group };
[[nodiscard]] kernel_results backward_with_fault(attention_schedule const& schedule, attention_problem const& problem, backward_fault fault);

}  // namespace stickybit::detail
