#pragma once
#include <cuda_runtime.h>

#include "../attention.hpp"

namespace stickybit::kernel {

/// O, lse and, where asked, O_low: schedule `stickybit-sm80`. Asynchronous on the stream.
/// @pre the call has been checked: see attention.hpp
/// @throws std::runtime_error with CUDA's own words when a launch fails
void launch_sm80_forward(forward_call const& call, cudaStream_t stream);

}  // namespace stickybit::kernel
