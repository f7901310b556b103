// The calls of attention.hpp: checked, then handed to the kernel that this GPU has.
#include "attention.hpp"

#include <cuda_runtime.h>

#include <string>

#include "call_check.hpp"
#ifdef STICKYBIT_SM90_FORWARD
#include "sm90/forward.hpp"
#endif
#ifdef STICKYBIT_SM80_FORWARD
#include "sm80/forward.hpp"
#endif
#ifdef STICKYBIT_SM80_BACKWARD
#include "sm80/backward.hpp"
#endif

namespace stickybit::kernel {
namespace {

void check_cuda(cudaError_t status, char const* what) {
  if (status != cudaSuccess) throw std::runtime_error(std::string("attention: ") + what + ": " + cudaGetErrorString(status));
}

int compute_capability() {
  int device = 0, major = 0, minor = 0;
  check_cuda(cudaGetDevice(&device), "no CUDA device");
  check_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "compute capability");
  check_cuda(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "compute capability");
  return 10 * major + minor;
}

#if !defined(STICKYBIT_SM90_FORWARD) || !defined(STICKYBIT_SM80_FORWARD) || !defined(STICKYBIT_SM80_BACKWARD)
[[noreturn]] void not_built(char const* kernel) { throw unsupported_call(std::string("attention: the ") + kernel + " kernel is not in this build"); }
#endif

}  // namespace

void forward(forward_call const& call, cudaStream_t stream, kernel_choice choice) {
  const kernel_choice kernel = checked_forward(call, compute_capability(), choice);
  if (kernel == kernel_choice::sm90) {
#ifdef STICKYBIT_SM90_FORWARD
    launch_sm90_forward(with_every_stride(call), stream);
#else
    not_built("sm90 forward");
#endif
  } else {
#ifdef STICKYBIT_SM80_FORWARD
    launch_sm80_forward(with_every_stride(call), stream);
#else
    not_built("sm80 forward");
#endif
  }
  check_cuda(cudaGetLastError(), "launch of the forward kernel");
}

void backward(backward_call const& call, cudaStream_t stream, kernel_choice choice) {
  static_cast<void>(checked_backward(call, backward_workspace_bytes(call.shape, call.deterministic), compute_capability(), choice));
#ifdef STICKYBIT_SM80_BACKWARD
  launch_sm80_backward(with_every_stride(call), stream);
#else
  static_cast<void>(stream);
  not_built("sm80 backward");
#endif
  check_cuda(cudaGetLastError(), "launch of the backward kernels");
}

std::size_t backward_workspace_bytes(attention_shape const& shape, bool deterministic) {
  check_shape(shape);
#ifdef STICKYBIT_SM80_BACKWARD
  return sm80_backward_workspace_bytes(shape, deterministic);
#else
  static_cast<void>(deterministic);
  return 0;
#endif
}

}  // namespace stickybit::kernel
