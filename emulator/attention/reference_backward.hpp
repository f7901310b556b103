#pragma once
#include "stickybit/attention/backward.hpp"

// Backward passes that do not go block by block: of BF16 matrices, and the mathematical value.

namespace stickybit::detail {

/// As PyTorch's autograd computes it for softmax(BF16 matmul): every matrix is BF16.
[[nodiscard]] backward_result eager_backward(attention_schedule const& schedule, attention_problem const& problem, backward_options const& options);

/// The exact gradients, rounded once.
[[nodiscard]] backward_result exact_backward(attention_schedule const& schedule, attention_problem const& problem, backward_options const& options);

}  // namespace stickybit::detail
