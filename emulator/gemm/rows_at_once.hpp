#pragma once
#include <omp.h>

#include <algorithm>
#include <cstdint>

namespace stickybit::detail {

/// How many of `count` rows of A one thread takes at once: operands are taken apart once for all of them, and parts of B are read from
/// the cache, but every thread should get some groups. A multiple of four, the tile of block_fma.
[[nodiscard]] inline std::int64_t rows_at_once(std::int64_t count) noexcept { return std::clamp<std::int64_t>(count / (4 * omp_get_max_threads()) / 4 * 4, 4, 32); }

}  // namespace stickybit::detail
