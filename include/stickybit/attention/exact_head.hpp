#pragma once
#include "stickybit/attention/problem.hpp"
#include "stickybit/exact/attention.hpp"
#include "stickybit/exact/gradients.hpp"
#include "stickybit/schedule/attention_schedule.hpp"

namespace stickybit {

/// The mask of the call, as the schedule's kernel aligns it.
[[nodiscard]] mask_alignment mask_of(attention_schedule const& schedule, attention_problem const& problem) noexcept;

/// The rows of one query head of a call, and those of its key head. They point into the problem, which must outlive them.
struct head_rows {
  bf16_rows q, k, v;
  bf16_rows d_o;  ///< none where the problem has no dO
};
[[nodiscard]] head_rows rows_of_head(attention_problem const& problem, std::int64_t batch, std::int64_t head);

/// The mathematical value of one head of a call; the problem's scale is taken as exact. The problem must outlive it.
/// @throws std::invalid_argument unless the scale is above 0
[[nodiscard]] exact_attention exact_head(attention_problem const& problem, mask_alignment mask, std::int64_t batch, std::int64_t head);

/// The exact gradients of one query head; likewise.  @throws also as exact_gradients does where the problem has no dO
[[nodiscard]] exact_gradients exact_gradients_of_head(attention_problem const& problem, mask_alignment mask, std::int64_t batch, std::int64_t head);

/// dK or dV of a key head: the sum over its query heads.
/// @param heads  of every query head, [b, h]
[[nodiscard]] std::vector<double_double> sum_over_group(attention_problem const& problem, std::vector<head_gradients> const& heads,
                                                        std::vector<double_double> head_gradients::*gradient, std::int64_t batch, std::int64_t key_head);

}  // namespace stickybit
