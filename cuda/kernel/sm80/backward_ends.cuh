#pragma once
#include "../../instruction/bf16x2.cuh"
#include "../../instruction/scalar_ftz.cuh"
#include "backward_layout.cuh"

// What comes before and after the backward kernel proper. Memory-bound: every thread takes 8 columns, 16 bytes of BF16.

namespace stickybit::kernel::sm80 {

inline constexpr int ends_threads = 256;

struct eight_codes {
  std::uint32_t pair[4];
};
__device__ inline eight_codes load_eight(std::uint16_t const* from) {
  const uint4 x = *reinterpret_cast<uint4 const*>(from);
  return {{x.x, x.y, x.z, x.w}};
}
__device__ inline void store_eight(std::uint16_t* to, float const (&x)[8]) {
  *reinterpret_cast<uint4*>(to) = make_uint4(gpu::cvt_rn_bf16x2_f32(x[0], x[1]), gpu::cvt_rn_bf16x2_f32(x[2], x[3]), gpu::cvt_rn_bf16x2_f32(x[4], x[5]),
                                             gpu::cvt_rn_bf16x2_f32(x[6], x[7]));
}

/// rowsum(dO ∘ O) in d/8 lanes: fma(dO₀, O₀, rn(dO₁·O₁)), then fma by fma; lanes are joined by halves, farthest first. Lane 0 has the sum.
template <int HeadDim>
__device__ float sum_of_products(eight_codes const& d_o, eight_codes const& o) {
  using gpu::high_of_bf16x2, gpu::low_of_bf16x2;
  float sum = gpu::fma_ftz_f32(low_of_bf16x2(d_o.pair[0]), low_of_bf16x2(o.pair[0]), gpu::mul_ftz_f32(high_of_bf16x2(d_o.pair[0]), high_of_bf16x2(o.pair[0])));
#pragma unroll
  for (int i = 1; i < 4; ++i) {
    sum = gpu::fma_ftz_f32(low_of_bf16x2(d_o.pair[i]), low_of_bf16x2(o.pair[i]), sum);
    sum = gpu::fma_ftz_f32(high_of_bf16x2(d_o.pair[i]), high_of_bf16x2(o.pair[i]), sum);
  }
#pragma unroll
  for (int half = HeadDim / 16; half > 0; half /= 2) sum = gpu::add_ftz_f32(sum, __shfl_xor_sync(0xffffffffU, sum, half));
  return sum;
}

struct preprocess_arguments {
  input_tensor o, o_low, d_o;  ///< o_low.data: may be null
  float const* lse;            // [batch, heads, queries]
  float *lse_log2, *delta, *dq;
  int* turns;                  ///< may be null
  int heads, queries, query_blocks;
};

/// One block of threads: 64 rows of one head. Their delta and lse in units of log2, zeros where dQ will be added up, nobody's turn yet.
template <int HeadDim>
__global__ void __launch_bounds__(ends_threads) backward_preprocess(preprocess_arguments const a) {
  constexpr int lanes = HeadDim / 8, rows_at_once = ends_threads / lanes;
  const std::int64_t tile = blockIdx.x;
  const int block = int(tile % a.query_blocks), head = int(tile / a.query_blocks % a.heads);
  const std::int64_t batch = tile / a.query_blocks / a.heads;
  const int lane = threadIdx.x % lanes;
  const auto row_of = [&](input_tensor const& t, int row) { return load_eight(t.data + batch * t.batch_stride + row * t.row_stride + head * t.head_stride + 8 * lane); };
#pragma unroll
  for (int i = 0; i < 64 / rows_at_once; ++i) {
    const int in_tile = i * rows_at_once + int(threadIdx.x) / lanes, row = 64 * block + in_tile;
    const bool inside = row < a.queries;
    const eight_codes zero{}, d_o = inside ? row_of(a.d_o, row) : zero;
    float delta = sum_of_products<HeadDim>(d_o, inside ? row_of(a.o, row) : zero);
    if (a.o_low.data != nullptr) delta = gpu::add_ftz_f32(delta, sum_of_products<HeadDim>(d_o, inside ? row_of(a.o_low, row) : zero));
    if (lane == 0) {
      const float minus_infinity = __uint_as_float(0xff800000U), infinity = __uint_as_float(0x7f800000U), log2_e = __uint_as_float(0x3fb8aa3bU);
      const float lse = inside ? a.lse[(batch * a.heads + head) * a.queries + row] : infinity;
      a.lse_log2[tile * 64 + in_tile] = gpu::mul_ftz_f32(lse == minus_infinity ? 0.0f : lse, log2_e);
      a.delta[tile * 64 + in_tile] = inside ? delta : 0.0f;
    }
  }
  float4* const dq = reinterpret_cast<float4*>(a.dq + tile * 64 * HeadDim);
#pragma unroll
  for (int i = 0; i < 64 * HeadDim / 4 / ends_threads; ++i) dq[i * ends_threads + threadIdx.x] = make_float4(0, 0, 0, 0);
  if (a.turns != nullptr && threadIdx.x == 0) a.turns[tile] = 0;
}

/// dQ = BF16(rn(s·sum)). One block of threads: 64 rows of one head.
template <int HeadDim>
__global__ void __launch_bounds__(ends_threads) backward_finish_dq(float const* sums, output_tensor dq, int heads, int queries, int query_blocks, float scale) {
  constexpr int lanes = HeadDim / 8, rows_at_once = ends_threads / lanes;
  const std::int64_t tile = blockIdx.x;
  const int block = int(tile % query_blocks), head = int(tile / query_blocks % heads);
  const std::int64_t batch = tile / query_blocks / heads;
  const int column = 8 * (int(threadIdx.x) % lanes);
#pragma unroll
  for (int i = 0; i < 64 / rows_at_once; ++i) {
    const int in_tile = i * rows_at_once + int(threadIdx.x) / lanes, row = 64 * block + in_tile;
    if (row >= queries) break;
    // The part of row/32 and column/32; eight columns of a row are two numbers of four neighbouring lanes.
    float const* const part = sums + tile * 64 * HeadDim + (in_tile / 32 + 2 * (column / 32)) * 1024 + place_in_dq_part(in_tile % 32, column % 32);
    float scaled[8];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float2 two = *reinterpret_cast<float2 const*>(part + 4 * j);
      scaled[2 * j] = gpu::mul_ftz_f32(two.x, scale);
      scaled[2 * j + 1] = gpu::mul_ftz_f32(two.y, scale);
    }
    store_eight(dq.data + batch * dq.batch_stride + row * dq.row_stride + head * dq.head_stride + column, scaled);
  }
}

/// dK or dV of a key head from its query heads' FP32 results: added to +0, heads ascending, then times 1 and cast. A thread takes 8 columns.
template <class = void>
__global__ void __launch_bounds__(ends_threads) backward_sum_heads(float const* parts, output_tensor to, std::int64_t count, int key_heads, int group, int keys, int head_dim) {
  const std::int64_t at = std::int64_t(blockIdx.x) * ends_threads + threadIdx.x;
  if (at >= count) return;
  const int chunks = head_dim / 8, column = 8 * int(at % chunks);
  const int key = int(at / chunks % keys), key_head = int(at / chunks / keys % key_heads);
  const std::int64_t batch = at / chunks / keys / key_heads;
  float sum[8] = {};
  for (int i = 0; i < group; ++i) {
    float const* const x = parts + (((batch * key_heads + key_head) * group + i) * keys + key) * head_dim + column;
    const float4 low = *reinterpret_cast<float4 const*>(x), high = *reinterpret_cast<float4 const*>(x + 4);
    const float part[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (int j = 0; j < 8; ++j) sum[j] = gpu::add_ftz_f32(sum[j], part[j]);
  }
#pragma unroll
  for (int j = 0; j < 8; ++j) sum[j] = gpu::mul_ftz_f32(sum[j], 1.0f);
  store_eight(to.data + batch * to.batch_stride + key * to.row_stride + key_head * to.head_stride + column, sum);
}

}  // namespace stickybit::kernel::sm80
