#include "launch.cuh"

namespace stickybit::kernel::sm90 {

void launch_64(forward_call const& call, cudaStream_t stream) { launch_with_fixes<tile_of_64>(call, stream); }

}  // namespace stickybit::kernel::sm90
