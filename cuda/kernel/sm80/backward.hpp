#pragma once
#include <cstddef>

#include "../attention.hpp"

namespace stickybit::kernel {

/// Gradients by mma.sync and cp.async, on sm_80 and later: schedule `stickybit-sm80`. Three or four launches: what precedes (delta, lse in
/// units of log2, zeros), the kernel proper, dQ's scale and cast, and with grouped heads the sum of the heads' dK and dV.
/// @pre     the call is valid: shapes, strides and alignments as attention.hpp says, head_dim 64 or 128
/// @throws  std::runtime_error with CUDA's words where a launch fails
void launch_sm80_backward(backward_call const& call, cudaStream_t stream);

/// Bytes of workspace, which need not be cleared.
[[nodiscard]] std::size_t sm80_backward_workspace_bytes(attention_shape const& shape, bool deterministic);

}  // namespace stickybit::kernel
