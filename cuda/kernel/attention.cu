// The calls of attention.hpp: checked, then handed to the kernel that this GPU has.
#include "attention.hpp"

#include "../support/device.cuh"
#include "call_check.hpp"
#include "sm90/forward.hpp"
#include "sm80/forward.hpp"
#include "sm80/backward.hpp"

namespace stickybit::kernel {
namespace {

int compute_capability() {
  int device = 0, major = 0, minor = 0;
  gpu::check(cudaGetDevice(&device), "attention: no CUDA device");
  gpu::check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "attention: compute capability");
  gpu::check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "attention: compute capability");
  return 10 * major + minor;
}

}  // namespace

void forward(forward_call const& call, cudaStream_t stream, kernel_choice choice) {
  const kernel_choice kernel = checked_forward(call, compute_capability(), choice);
  if (kernel == kernel_choice::sm90) {
    launch_sm90_forward(with_every_stride(call), stream);
  } else {
    launch_sm80_forward(with_every_stride(call), stream);
  }
  gpu::check(cudaGetLastError(), "attention: launch of the forward kernel");
}

void backward(backward_call const& call, cudaStream_t stream, kernel_choice choice) {
  static_cast<void>(checked_backward(call, backward_workspace_bytes(call.shape, call.deterministic), compute_capability(), choice));
  launch_sm80_backward(with_every_stride(call), stream);
  gpu::check(cudaGetLastError(), "attention: launch of the backward kernels");
}

std::size_t backward_workspace_bytes(attention_shape const& shape, bool deterministic) {
  check_shape(shape);
  return sm80_backward_workspace_bytes(shape, deterministic);
}

}  // namespace stickybit::kernel
