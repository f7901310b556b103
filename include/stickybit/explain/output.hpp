#pragma once
#include <cstdint>
#include <string>

#include "stickybit/attention/forward.hpp"

namespace stickybit {

/// One element of O, from the scores of its row to its last bit: the blocks of keys in the kernel's order with maximum, rescale factor and
/// partial sums, the keys that weigh most, 1/sum, the product and the cast; beside it the exact value and the error.
/// @throws std::out_of_range naming the index; unsupported_call
[[nodiscard]] std::string explain_output(attention_schedule const& schedule, attention_problem const& problem, std::int64_t batch, std::int64_t head,
                                         std::int64_t row, std::int64_t column);

}  // namespace stickybit
