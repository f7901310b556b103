#pragma once
#include "attention.hpp"

// What a call must be before a kernel sees it. Host code without CUDA, so that it is tested where there is no GPU.

namespace stickybit::kernel {

/// The kernel that runs the call on a GPU of this compute capability (90: 9.0): `choice`, or what automatic means there. Never automatic.
/// @throws unsupported_call naming the first argument that is wrong, what it is and what was expected
[[nodiscard]] kernel_choice checked_forward(forward_call const& call, int compute_capability, kernel_choice choice);
[[nodiscard]] kernel_choice checked_backward(backward_call const& call, std::size_t workspace_bytes, int compute_capability, kernel_choice choice);
void check_shape(attention_shape const& shape);

/// The call with strides of dimensions of extent 1, which nothing reads, replaced by such as a dense tensor has: kernels may then hand
/// every stride to the hardware.
[[nodiscard]] forward_call with_every_stride(forward_call call);
[[nodiscard]] backward_call with_every_stride(backward_call call);

}  // namespace stickybit::kernel
