#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "stickybit/attention/problem.hpp"

namespace stickybit {

struct shrink_options {
  std::int64_t most_runs = 3000;
  double seconds = 30;
  std::vector<std::int64_t> head_dims;  ///< that the kernel takes; empty: only the call's own
};

struct shrunk_call {
  attention_problem problem;
  std::int64_t runs = 0;      ///< of the test
  bool finished = false;      ///< no further step makes it smaller; else a limit came first
};

/// A smaller call that fails too: fewer batch elements, heads, rows, keys, columns that are not 0, elements that are not 0 or 1, shorter significands.
/// @param fails  true for `problem`; may be asked of any call. Must not throw.  @pre problem is in layout b,s,h,d
[[nodiscard]] shrunk_call shrink(attention_problem problem, std::function<bool(attention_problem const&)> const& fails, shrink_options const& options = {});

/// Elements of q, k, v and dO that are not zero.
[[nodiscard]] std::int64_t nonzero_elements(attention_problem const& problem) noexcept;

}  // namespace stickybit
