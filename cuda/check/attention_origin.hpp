#pragma once
#include <string>
#include <utility>
#include <vector>

namespace stickybit::gpu {

/// GPU, driver and CUDA runtime, as a recorded file says them.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> origin_of_results();

/// Of the GPU in use; 90: 9.0.
[[nodiscard]] int compute_capability();

}  // namespace stickybit::gpu
