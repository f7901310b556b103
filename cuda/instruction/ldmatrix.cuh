#pragma once
#include <cstdint>

namespace stickybit::gpu {

/// The 32-bit address of shared memory that PTX instructions take.
__device__ inline std::uint32_t shared_address(void const* p) { return static_cast<std::uint32_t>(__cvta_generic_to_shared(p)); }

/// ldmatrix: four 8×8 matrices of 16-bit elements. Lane l gives the address of row l%8 of matrix l/8 (16 bytes, aligned to 16) and gets in
/// r[i] the elements (l/4, 2(l%4)) and (l/4, 2(l%4) + 1) of matrix i, the first in the low half. `transposed`: of the matrix's transpose.
/// @source PTX ISA, "Warp-level matrix load instruction: ldmatrix"
struct ldmatrix_x4 {
  __device__ static void load(std::uint32_t (&r)[4], std::uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
  }
  __device__ static void load_transposed(std::uint32_t (&r)[4], std::uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address) : "memory");
  }
};

}  // namespace stickybit::gpu
