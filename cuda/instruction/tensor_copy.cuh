#pragma once
#include <cuda.h>

#include <cstdint>

namespace stickybit::gpu {

/// cp.async.bulk.tensor: the copy engine brings a box of a tensor of four dimensions into shared memory; what lies outside the tensor becomes zero.
/// One thread asks; the barrier gets the bytes.
/// @source PTX ISA, "Data movement and conversion instructions: cp.async.bulk.tensor"
struct tensor_copy {
  __device__ static void prefetch(CUtensorMap const& map) { asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory"); }

  /// @param shared  aligned to 1024 where the box is swizzled by 128 bytes  @param c0 … c3  coordinates of the box's first element, innermost first
  __device__ static void load(std::uint32_t shared, CUtensorMap const& map, std::uint32_t barrier, int c0, int c1, int c2, int c3) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(shared), "l"(&map),
                 "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
                 : "memory");
  }
};

}  // namespace stickybit::gpu
