#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "../kernel/attention.hpp"
#include "attention_case.hpp"
#include "stickybit/attention/forward.hpp"

namespace stickybit::gpu {

/// What a call wrote, in the problem's layout. Empty: not asked for.
struct call_results {
  std::vector<bf16_code> o, o_low, dq, dk, dv;
  std::vector<f32_code> lse;
  std::string damage;  ///< what was written where no element is; empty: nothing

  friend bool operator==(call_results const&, call_results const&) = default;
};

struct device_options {
  kernel::kernel_choice choice = kernel::kernel_choice::automatic;
  kernel::forward_fixes fixes = {};
  bool low_output = false;       ///< a forward case writes o_low
  std::vector<bf16_code> const* stored_low = nullptr;  ///< a backward case reads o_low
  std::uint64_t repeats = 1;     ///< runs that must give the same bits
  call_results const* pretended = nullptr;  ///< no kernel: these go through device memory instead
};

/// The case on the GPU. Inputs have NaN between their elements; outputs begin as another code each time and are watched between their elements.
/// @param stored  O, lse and the FP32 O that a backward case reads
/// @throws kernel::unsupported_call; std::runtime_error with CUDA's words, or where two runs give different bits
[[nodiscard]] call_results run_on_device(attention_case const& c, attention_problem const& problem, forward_result const* stored, device_options const& options);

}  // namespace stickybit::gpu
