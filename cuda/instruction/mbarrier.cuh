#pragma once
#include <cstdint>

#include "ldmatrix.cuh"

namespace stickybit::gpu {

/// mbarrier: a barrier in shared memory that counts arrivals, and bytes that a copy has still to bring. It completes phase after phase; who
/// waits says which phase by its parity. Addresses are those of shared memory (shared_address).
/// @source PTX ISA, "Parallel synchronization and communication instructions: mbarrier"
struct mbarrier {
  /// One thread, before anybody uses it; then fence_init and a barrier of the block.
  __device__ static void init(std::uint32_t barrier, int arrivals) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory"); }
  /// Makes initialised barriers known to the copy engine.
  __device__ static void fence_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

  __device__ static void arrive(std::uint32_t barrier) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory"); }
  /// Arrives, and lets the phase wait for so many bytes more.
  __device__ static void arrive_expecting(std::uint32_t barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
  }
  /// Until the phase of this parity is complete. A fresh barrier counts as having completed a phase of parity 1.
  __device__ static void wait(std::uint32_t barrier, std::uint32_t parity) {
    asm volatile(
        "{\n.reg .pred complete;\n"
        "again:\nmbarrier.try_wait.parity.shared::cta.b64 complete, [%0], %1;\n"
        "@!complete bra again;\n}\n" ::"r"(barrier), "r"(parity)
        : "memory");
  }
};

}  // namespace stickybit::gpu
