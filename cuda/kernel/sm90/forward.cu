#include "forward.hpp"

#include "launch.cuh"

namespace stickybit::kernel {
namespace {

/// d = 64: three warpgroups to a tile use the exponential unit better, two leave less of the last round of tiles idle. Times of a tile, of 192
/// and of 128 rows, in units that only their ratio matters.  @source log/sm90_forward.md
bool takes_small_tiles(attention_shape const& shape) {
  const auto rounds = [&](std::int64_t rows) {
    const std::int64_t tiles = shape.batch * shape.heads * ((shape.queries + rows - 1) / rows);
    return double((tiles + sm90::multiprocessors() - 1) / sm90::multiprocessors());
  };
  constexpr double large_tile = 1.3, small_tile = 1.0;
  return rounds(128) * small_tile < rounds(192) * large_tile;
}

}  // namespace

void launch_sm90_forward(forward_call const& call, cudaStream_t stream) {
  if (call.shape.head_dim == 128) sm90::launch_128(call, stream);
  else if (takes_small_tiles(call.shape)) sm90::launch_64_small(call, stream);
  else sm90::launch_64(call, stream);
}

}  // namespace stickybit::kernel
