#pragma once
#include <cstddef>
#include <cstdint>

namespace stickybit::gpu {

/// What surrounds wgmma, for the four warps of a warpgroup together.
/// @source PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions"; "Miscellaneous instructions: setmaxnreg"
struct warpgroup {
  /// Registers written before are seen by the products that follow.
  __device__ static void fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
  /// Ends a group of products.
  __device__ static void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
  /// Until at most N groups are unfinished.
  template <int N>
  __device__ static void wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
  }
  /// The compiler moves no use of these registers across this point. No instruction.
  template <class Word, std::size_t Size>
  __device__ static void pin(Word (&registers)[Size]) {
#pragma unroll
    for (std::size_t i = 0; i < Size; ++i) pin(registers[i]);
  }

  template <int Registers>
  __device__ static void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
  }
  template <int Registers>
  __device__ static void give_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
  }

 private:
  __device__ static void pin(float& x) { asm volatile("" : "+f"(x)::"memory"); }
  __device__ static void pin(std::uint32_t& x) { asm volatile("" : "+r"(x)::"memory"); }
};

/// One of a block's 16 barriers in hardware; a phase ends when `threads` threads, whole warps, have come.
struct named_barrier {
  __device__ static void sync(int id, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }
  __device__ static void arrive(int id, int threads) { asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory"); }
};

/// The address of a tile in shared memory as wgmma takes it: rows of 128 bytes, eight to a group of 1024, swizzled as the copy engine does.
/// Whose rows run along k (Q, K): eight rows more are 1024 bytes on. Where they run along n (V): eight k more are 1024 bytes on, 64 n more
/// `next_chunk_bytes`.
/// @source PTX ISA, "Matrix descriptor format"; strides: "Strides"
struct swizzled_128 {
  __device__ static std::uint64_t descriptor(std::uint32_t shared, std::uint32_t next_chunk_bytes = 16) {
    constexpr std::uint64_t layout = 1ULL << 62, group = std::uint64_t{1024 >> 4} << 32;
    return layout | group | (std::uint64_t{next_chunk_bytes >> 4} << 16) | std::uint64_t{(shared & 0x3ffff) >> 4};
  }
};

}  // namespace stickybit::gpu
