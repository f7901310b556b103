#include "backward.hpp"

#include "../../support/device.cuh"
#include "../scales.hpp"
#include "backward_ends.cuh"
#include "backward_kernel.cuh"

namespace stickybit::kernel {
namespace {

using namespace sm80;

template <int HeadDim>
void preprocess(backward_call const& c, backward_workspace const& w, std::byte* workspace, cudaStream_t stream) {
  const std::int64_t tiles = c.shape.batch * c.shape.heads * w.query_blocks;
  if (tiles == 0) return;
  const auto at = [&](std::size_t place) { return reinterpret_cast<float*>(workspace + place); };
  const preprocess_arguments a{.o = c.o, .o_low = c.o_low, .d_o = c.d_o, .lse = c.lse, .lse_log2 = at(w.lse_log2), .delta = at(w.delta), .dq = at(w.dq),
                               .turns = c.deterministic ? reinterpret_cast<int*>(workspace + w.turns) : nullptr,
                               .heads = int(c.shape.heads), .queries = int(c.shape.queries), .query_blocks = int(w.query_blocks)};
  backward_preprocess<HeadDim><<<unsigned(tiles), ends_threads, 0, stream>>>(a);
  gpu::check(cudaGetLastError(), "sm80 backward, preprocess");
}

template <int HeadDim, bool Causal, bool Deterministic>
void key_blocks(backward_arguments const& a, cudaStream_t stream) {
  using tile = backward_tile<HeadDim>;
  const std::int64_t blocks = std::int64_t(a.batch) * a.heads * a.key_blocks;
  if (blocks == 0) return;
  const auto kernel = backward_kernel<HeadDim, Causal, Deterministic>;
  gpu::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, tile::shared_bytes), "sm80 backward, shared memory");
  kernel<<<unsigned(blocks), tile::threads, tile::shared_bytes, stream>>>(a);
  gpu::check(cudaGetLastError(), "sm80 backward, kernel");
}

template <int HeadDim>
void launch(backward_call const& c, cudaStream_t stream) {
  attention_shape const& s = c.shape;
  const backward_workspace w(s, c.deterministic);
  auto* const workspace = static_cast<std::byte*>(c.workspace);
  const auto at = [&](std::size_t place) { return reinterpret_cast<float*>(workspace + place); };
  const bool grouped = s.heads != s.key_heads;
  const float scale = float(s.softmax_scale);
  const backward_arguments a{.q = c.q, .k = c.k, .v = c.v, .d_o = c.d_o, .dk = c.dk, .dv = c.dv, .lse_log2 = at(w.lse_log2), .delta = at(w.delta), .dq = at(w.dq),
                             .turns = reinterpret_cast<int*>(workspace + w.turns), .group_dk = grouped ? at(w.dk) : nullptr, .group_dv = grouped ? at(w.dv) : nullptr,
                             .batch = int(s.batch), .heads = int(s.heads), .group = int(s.heads / s.key_heads), .queries = int(s.queries), .keys = int(s.keys),
                             .query_blocks = int(w.query_blocks), .key_blocks = int(w.key_blocks), .scale = scale,
                             .scale_log2 = scale_log2_of(scale)};
  preprocess<HeadDim>(c, w, workspace, stream);
  if (c.deterministic) s.causal ? key_blocks<HeadDim, true, true>(a, stream) : key_blocks<HeadDim, false, true>(a, stream);
  else s.causal ? key_blocks<HeadDim, true, false>(a, stream) : key_blocks<HeadDim, false, false>(a, stream);
  if (const std::int64_t tiles = s.batch * s.heads * w.query_blocks; tiles > 0) {
    backward_finish_dq<HeadDim><<<unsigned(tiles), ends_threads, 0, stream>>>(a.dq, c.dq, a.heads, a.queries, a.query_blocks, scale);
    gpu::check(cudaGetLastError(), "sm80 backward, dQ's cast");
  }
  if (const std::int64_t eights = s.batch * s.key_heads * s.keys * s.head_dim / 8; grouped && eights > 0) {
    const auto blocks = unsigned((eights + ends_threads - 1) / ends_threads);
    backward_sum_heads<><<<blocks, ends_threads, 0, stream>>>(a.group_dk, c.dk, eights, int(s.key_heads), a.group, a.keys, HeadDim);
    backward_sum_heads<><<<blocks, ends_threads, 0, stream>>>(a.group_dv, c.dv, eights, int(s.key_heads), a.group, a.keys, HeadDim);
    gpu::check(cudaGetLastError(), "sm80 backward, sum of the heads");
  }
}

}  // namespace

std::size_t sm80_backward_workspace_bytes(attention_shape const& shape, bool deterministic) { return backward_workspace(shape, deterministic).bytes; }

void launch_sm80_backward(backward_call const& call, cudaStream_t stream) {
  call.shape.head_dim == 64 ? launch<64>(call, stream) : launch<128>(call, stream);
}

}  // namespace stickybit::kernel
