#pragma once
#include "stickybit/attention/problem.hpp"
#include "stickybit/exact/attention.hpp"
#include "stickybit/schedule/attention_schedule.hpp"

namespace stickybit {

/// The mask of the call, as the schedule's kernel aligns it.
[[nodiscard]] mask_alignment mask_of(attention_schedule const& schedule, attention_problem const& problem) noexcept;

/// The mathematical value of one head of a call; the problem's scale is taken as exact. The problem must outlive it.
/// @throws std::invalid_argument unless the scale is above 0
[[nodiscard]] exact_attention exact_head(attention_problem const& problem, mask_alignment mask, std::int64_t batch, std::int64_t head);

}  // namespace stickybit
