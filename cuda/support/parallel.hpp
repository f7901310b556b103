#pragma once
#include <algorithm>
#include <cstddef>
#include <thread>
#include <vector>

namespace stickybit::gpu {

/// body(begin, end) on every core, over disjoint ranges that cover [0, count). The body must not throw.
template <class Body>
void parallel_ranges(std::size_t count, Body const& body) {
  const std::size_t workers = std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::jthread> threads;
  for (std::size_t w = 0; w < workers; ++w)
    threads.emplace_back([&body, begin = count * w / workers, end = count * (w + 1) / workers] { body(begin, end); });
}

}  // namespace stickybit::gpu
