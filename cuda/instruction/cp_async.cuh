#pragma once
#include <cstdint>

#include "ldmatrix.cuh"

namespace stickybit::gpu {

/// cp.async: 16 bytes from global to shared memory, past the registers and the first-level cache; zeros where `inside` is false (the global
/// address is not read then).  @source PTX ISA, "Data movement and conversion instructions: cp.async"
struct cp_async_16 {
  __device__ static void copy(std::uint32_t shared, void const* global, bool inside = true) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(inside ? 16 : 0) : "memory");
  }
  /// Ends a group of copies.
  __device__ static void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
  /// Waits until all but the latest N groups of this thread have arrived; other threads see them after a barrier.
  template <int N>
  __device__ static void wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
  }
};

}  // namespace stickybit::gpu
