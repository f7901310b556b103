#pragma once
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "../instruction/m16n8k16_f32_bf16_bf16_f32.cuh"
#include "../instruction/m64n8k16_f32_bf16_bf16_f32.cuh"
#include "../support/device.cuh"
#include "inner_product_case.hpp"

// Inner products by the tensor cores. A tile holds eight cases: column n of B and C is case n, row r of A is case r mod 8, so
// that D[r, n] with r mod 8 = n is case n's result. It appears in every group of eight rows; which one is read goes round
// with the tile's number, so that all rows of the instruction are used.

namespace stickybit::gpu {

inline constexpr int cases_per_tile = 8;

__device__ inline std::uint32_t pair_at(std::array<bf16_code, 16> const& x, int k) { return x[k].to_bits() | std::uint32_t{x[k + 1].to_bits()} << 16; }

/// The layouts of m16n8k16; m64n8k16 has them in each of its four warps.
struct lane_place {
  int group = int(threadIdx.x % 32 / 4);  // row of A, column of B
  int first_k = 2 * int(threadIdx.x % 4);
  int first_column = 2 * int(threadIdx.x % 4);

  __device__ void load_a(inner_product_case const* tile, std::uint32_t (&a)[4]) const {
    a[0] = a[1] = pair_at(tile[group].a, first_k);
    a[2] = a[3] = pair_at(tile[group].a, first_k + 8);
  }
  __device__ void load_c(inner_product_case const* tile, float (&c)[4]) const {
    for (int i = 0; i < 4; ++i) c[i] = __uint_as_float(tile[first_column + i % 2].c.to_bits());
  }
  /// Writes the tile's eight results from rows 8·row_group .. 8·row_group + 7.
  __device__ void store_d(float const (&d)[4], int row_group, f32_code* results) const {
    for (int i = 0; i < 4; ++i)
      if (int(threadIdx.x / 32) * 2 + i / 2 == row_group && first_column + i % 2 == group) results[group] = f32_code::from_bits(__float_as_uint(d[i]));
  }
};

struct by_mma {
  using instruction = m16n8k16_f32_bf16_bf16_f32;
  static constexpr char const* name = "mma.sync.m16n8k16";
  static constexpr char const* unit = "sm90.mma.bf16.f32";

  __device__ static void multiply(inner_product_case const* tile, lane_place lane, float (&d)[4]) {
    std::uint32_t a[4];
    lane.load_a(tile, a);
    const std::uint32_t b[2] = {pair_at(tile[lane.group].b, lane.first_k), pair_at(tile[lane.group].b, lane.first_k + 8)};
    float c[4];
    lane.load_c(tile, c);
    instruction::fma(d, a, b, c);
  }
};

struct by_wgmma {
  using instruction = m64n8k16_f32_bf16_bf16_f32;
  static constexpr char const* name = "wgmma.m64n8k16";
  static constexpr char const* unit = "sm90.wgmma.bf16.f32";

  __device__ static void multiply(inner_product_case const* tile, lane_place lane, float (&d)[4]) {
    __shared__ instruction::shared_b b;
    const int n = int(threadIdx.x) / 16, k = int(threadIdx.x) % 16;  // 128 threads, 128 elements
    b.bits[k / 8][n][k % 8] = tile[n].b[k].to_bits();
    instruction::publish_b();
    std::uint32_t a[4];
    lane.load_a(tile, a);
    lane.load_c(tile, d);
    instruction::fma(d, a, instruction::descriptor(b));
  }
};

template <class By>
__global__ void evaluate_tiles(inner_product_case const* cases, f32_code* results) {
  const std::size_t first = std::size_t{blockIdx.x} * cases_per_tile;
  const lane_place lane{};
  float d[4];
  By::multiply(cases + first, lane, d);
  lane.store_d(d, int(blockIdx.x % (By::instruction::m / 8)), results + first);
}

/// The results of all cases by one instruction.
template <class By>
std::vector<f32_code> evaluate(std::span<inner_product_case const> cases) {
  const std::size_t tiles = (cases.size() + cases_per_tile - 1) / cases_per_tile;
  std::vector<f32_code> results(cases.size());
  if (tiles == 0) return results;
  device_array<inner_product_case> device_cases(tiles * cases_per_tile);
  device_array<f32_code> device_results(tiles * cases_per_tile);
  // A tile that is not full is filled with whatever was there; a NaN stays everywhere that nothing is written.
  check(cudaMemset(device_results.data(), 0xff, tiles * cases_per_tile * sizeof(f32_code)), "cudaMemset");
  device_cases.upload(cases);
  evaluate_tiles<By><<<unsigned(tiles), By::instruction::threads>>>(device_cases.data(), device_results.data());
  finish(By::name);
  device_results.download(results);
  return results;
}

}  // namespace stickybit::gpu
