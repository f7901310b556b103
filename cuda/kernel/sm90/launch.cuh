#pragma once
#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "../../support/device.cuh"
#include "../scales.hpp"
#include "forward.cuh"

// From a call to a launch.

namespace stickybit::kernel::sm90 {

/// The driver's encoder, without linking the driver's library.
inline auto tensor_map_encoder() {
  static const auto encoder = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found{};
    gpu::check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found), "stickybit-sm90: cuTensorMapEncodeTiled");
    if (found != cudaDriverEntryPointSuccess) throw std::runtime_error("stickybit-sm90: the driver has no cuTensorMapEncodeTiled");
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
  }();
  return encoder;
}

/// [batch, rows, heads, d] as the copy engine sees it, in boxes of `box_rows` rows and 64 columns.
inline CUtensorMap tensor_map(input_tensor const& t, std::int64_t batch, std::int64_t rows, std::int64_t heads, std::int64_t head_dim, int box_rows) {
  CUtensorMap map;
  const auto stride = [](std::int64_t extent, std::int64_t elements) { return cuuint64_t(extent > 1 ? 2 * elements : 16); };
  const cuuint64_t sizes[4] = {cuuint64_t(head_dim), cuuint64_t(rows), cuuint64_t(heads), cuuint64_t(batch)};
  const cuuint64_t strides[3] = {stride(rows, t.row_stride), stride(heads, t.head_stride), stride(batch, t.batch_stride)};
  const cuuint32_t box[4] = {64, cuuint32_t(box_rows), 1, 1}, steps[4] = {1, 1, 1, 1};
  const CUresult result = tensor_map_encoder()(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4, const_cast<std::uint16_t*>(t.data), sizes, strides, box, steps,
                                               CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) throw std::runtime_error("stickybit-sm90: cuTensorMapEncodeTiled: error " + std::to_string(int(result)));
  return map;
}

/// The largest finite d ≥ 0 with rn(d s) ≤ tolerance, by halving the codes that it may have: a tolerance of 0 has many beside a small scale.
inline float tied_within(float scale, float tolerance) {
  std::uint32_t within = 0, beyond = 0x7f800000;
  while (beyond - within > 1) {
    const std::uint32_t middle = within + (beyond - within) / 2;
    (std::bit_cast<float>(middle) * scale <= tolerance ? within : beyond) = middle;
  }
  return std::bit_cast<float>(within);
}

inline softmax_numbers numbers_of(forward_call const& call) {
  const auto scale = static_cast<float>(call.shape.softmax_scale);
  softmax_numbers n;
  n.scale_log2 = scale_log2_of(scale);
  n.lse_factor = n.scale_log2 * ln_2;
  n.beta = call.fixes.tie.beta;
  n.tied_within = tied_within(scale, call.fixes.tie.tolerance);
  n.least_shift = least_tie_shift / scale;
  n.most_shift = most_tie_shift / scale;
  n.never = 0;
  return n;
}

/// Of the current device.
inline int multiprocessors() {
  int device = 0, count = 0;
  gpu::check(cudaGetDevice(&device), "stickybit-sm90: cudaGetDevice");
  gpu::check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device), "stickybit-sm90: cudaDeviceGetAttribute");
  return count;
}

template <class Tile, class Fixes>
void launch(forward_call const& call, cudaStream_t stream) {
  attention_shape const& shape = call.shape;
  forward_parameters p;
  const int tiles = int((shape.queries + Tile::query_rows - 1) / Tile::query_rows);
  p.sizes = {int(shape.batch), int(shape.queries), int(shape.keys), int(shape.heads), int(shape.key_heads), tiles, int(shape.batch * shape.heads * tiles), shape.causal};
  if (p.sizes.items == 0) return;
  p.numbers = numbers_of(call);
  p.o = call.o;
  p.o_low = call.o_low;
  p.lse = call.lse;
  p.q = tensor_map(call.q, shape.batch, shape.queries, shape.heads, shape.head_dim, Tile::warpgroup_rows);
  // Without keys nothing is copied; a map must have an address all the same.
  const bool keys = shape.keys > 0;
  p.k = keys ? tensor_map(call.k, shape.batch, shape.keys, shape.key_heads, shape.head_dim, Tile::key_columns) : p.q;
  p.v = keys ? tensor_map(call.v, shape.batch, shape.keys, shape.key_heads, shape.head_dim, Tile::key_columns) : p.q;

  const auto kernel = forward_kernel<Tile, Fixes>;
  gpu::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Tile::shared_bytes), "stickybit-sm90: cudaFuncSetAttribute");
  kernel<<<std::min(multiprocessors(), p.sizes.items), Tile::threads, Tile::shared_bytes, stream>>>(p);
  gpu::check(cudaGetLastError(), "stickybit-sm90: launch");
}

/// The kernel with the call's fixes.
template <class Tile>
void launch_with_fixes(forward_call const& call, cudaStream_t stream) {
  forward_fixes const& f = call.fixes;
  const auto with = [&]<bool SubtractFirst, ties Ties>() {
    if (f.two_row_sums) launch<Tile, fixes<SubtractFirst, Ties, true>>(call, stream);
    else launch<Tile, fixes<SubtractFirst, Ties, false>>(call, stream);
  };
  const auto with_ties = [&]<ties Ties>() {
    if (f.subtract_first) with.template operator()<true, Ties>();
    else with.template operator()<false, Ties>();
  };
  if (!f.beta) with_ties.template operator()<ties::kept>();
  else if (f.tie.published) with_ties.template operator()<ties::published>();
  else with_ties.template operator()<ties::extended>();
}

// One file each: they take a while to compile.
void launch_128(forward_call const& call, cudaStream_t stream);
void launch_64(forward_call const& call, cudaStream_t stream);
void launch_64_small(forward_call const& call, cudaStream_t stream);

}  // namespace stickybit::kernel::sm90
