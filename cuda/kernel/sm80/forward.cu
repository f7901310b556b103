#include "forward.hpp"

#include "../../support/device.cuh"
#include "../scales.hpp"
#include "forward.cuh"

namespace stickybit::kernel {
namespace {

using namespace sm80;

template <int HeadDim, class Variant>
struct tile_of;
template <class Variant>
struct tile_of<64, Variant> {
  using type = forward_tile<64, 2, 4, 64, 3, true, true, true, 2>;
};
template <class Variant>
struct tile_of<128, Variant> {
  // Late is faster by 4 % (full) and with fixes by 1 to 4 %, but for beta, full: slower by 2 %.
  using type = forward_tile<128, 2, 4, 64, 3, false, false, Variant::causal || !Variant::beta, 2>;
};

template <class Tile, class Variant>
void launch(forward_call const& call, cudaStream_t stream) {
  attention_shape const& shape = call.shape;
  const auto scale = static_cast<float>(shape.softmax_scale);
  const forward_arguments arguments{.q = call.q,
                                    .k = call.k,
                                    .v = call.v,
                                    .o = call.o,
                                    .o_low = call.o_low,
                                    .lse = call.lse,
                                    .queries = int(shape.queries),
                                    .keys = int(shape.keys),
                                    .heads = int(shape.heads),
                                    .heads_of_group = int(shape.heads / shape.key_heads),
                                    .tiles = int((shape.queries + Tile::rows - 1) / Tile::rows),
                                    .scale = scale,
                                    .scale_log2 = scale_log2_of(scale),
                                    .tie = call.fixes.tie,
                                    .least_shift = least_tie_shift / scale,
                                    .most_shift = most_tie_shift / scale,
                                    .tie_distance = float((double(call.fixes.tie.tolerance) + 0x1p-125) / scale * (1 + 0x1p-20) + 0x1p-125)};
  const dim3 grid(unsigned(shape.batch * shape.heads), unsigned(arguments.tiles));
  auto* const kernel = forward_kernel<Tile, Variant>;
  gpu::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Tile::shared_bytes), "sm80 forward kernel: shared memory");
  kernel<<<grid, Tile::threads, Tile::shared_bytes, stream>>>(arguments);
  gpu::check(cudaGetLastError(), "sm80 forward kernel");
}

template <int HeadDim, bool... Chosen>
void choose(forward_call const& call, cudaStream_t stream) {
  using variant = forward_variant<Chosen...>;
  launch<typename tile_of<HeadDim, variant>::type, variant>(call, stream);
}

/// One flag after the other becomes a template argument.
template <int HeadDim, bool... Chosen, class... Flags>
void choose(forward_call const& call, cudaStream_t stream, bool flag, Flags... flags) {
  if (flag) choose<HeadDim, Chosen..., true>(call, stream, flags...);
  else choose<HeadDim, Chosen..., false>(call, stream, flags...);
}

}  // namespace

void launch_sm80_forward(forward_call const& call, cudaStream_t stream) {
  if (call.shape.batch == 0 || call.shape.heads == 0 || call.shape.queries == 0) return;
  forward_fixes const& fixes = call.fixes;
  if (call.shape.head_dim == 64) choose<64>(call, stream, call.shape.causal, fixes.subtract_first, fixes.two_row_sums, fixes.beta);
  else choose<128>(call, stream, call.shape.causal, fixes.subtract_first, fixes.two_row_sums, fixes.beta);
}

}  // namespace stickybit::kernel
