#pragma once
#include <cuda_runtime.h>

#include "../attention.hpp"

namespace stickybit::kernel {

/// O and lse by the kernel whose bits schedule `stickybit-sm90` states. Asynchronous on the stream.
/// @pre the call is one that attention.hpp allows; the current device is a Hopper GPU
/// @throws std::runtime_error naming what CUDA refused
void launch_sm90_forward(forward_call const& call, cudaStream_t stream);

}  // namespace stickybit::kernel
