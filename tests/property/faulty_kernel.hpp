#pragma once
#include <initializer_list>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "stickybit/property/kernel.hpp"

// An attention kernel written for these tests: one loop over blocks of keys with a running maximum, equal to FlashAttention-3 (`fa3`, forward and backward) or,
// told so, to cuDNN (`cudnn`, forward) on finite calls; and everything that can be wrong with it. It shares the tensor core and MUFU with the library, and nothing else.

namespace stickybit::testing {

enum class defect {
  // What the diagnosis knows.
  block_64, block_96, other_order, exponent_not_fused, exponent_subtract_first, exponent_scaled, rescale_fused, sum_carried_twice, sum_block_first, lanes_near, sum_of_bf16, weights_cut,
  inverse_ieee, divided, rounded_then_divided, output_not_rescaled, bf16_accumulator, weights_fp32, mask_one_more, mask_one_fewer, mask_top_left, no_mask, scale_ignored, scale_twice,
  scale_base_2, scale_bf16, key_head_modulo, partial_block_lost, padding_counts, lse_by_scale, unit_k8, subnormals_kept, sum_not_rescaled, values_tf32, all_tf32,
  // What it does not know.
  sum_rescaled_late, maximum_from_zero, maximum_of_first_block, last_key_lost, first_key_lost, mask_by_sentinel, values_shifted_in_second_block, last_column_ignored, argument_clamped, exponential_low,
  weights_away, small_weights_flushed, lse_in_log2, neighbour_maximum, batch_values_of_first, odd_heads_other_scale, output_cut, ties_counted_once, lane_three_lost, last_column_copied, not_deterministic,
  output_away, second_block_weights_halved, rescale_of_sum_twice, seventh_row_lost, long_rows_lose_a_block, value_sign_of_zero, score_bf16, key_17_twice,
  sum_epsilon, maximum_from_sentinel, inputs_flushed, keys_above_256_lost, last_lse_lost, weights_rounded_twice,
  // The same of the backward pass: what the diagnosis knows, and what it does not.
  b_block_64, b_dq_ascending, b_queries_descending, b_weight_not_fused, b_delta_serial, b_delta_fp32, b_delta_none, b_ds_fused, b_ds_two_products, b_ds_from_bf16, b_scale_in_ds, b_group_bf16,
  b_group_last, b_swapped, b_dq_unscaled, b_dq_scaled_twice, b_mask_more, b_mask_fewer, b_no_mask, b_lse_bf16,
  b_delta_neighbour, b_delta_columns_lost, b_delta_other_head, b_ds_not_cast, b_ds_cut, b_weights_cut, b_dq_bf16_accumulator, b_last_rows_lost, b_dk_first_q, b_atomics, b_dk_scaled_twice, b_lse_of_tile,
  b_first_part_twice, b_dv_unmasked, b_score_bf16, b_delta_scaled, b_diagonal_without_weight, b_first_rows_lost, b_key_head_modulo, b_ds_away,
};

struct kernel_form {
  std::string name;
  bool as_cudnn = false;
  std::set<defect> defects;
  bool rows_descending = false, heads_descending = false, swapped_product = false, columns_in_halves = false, padded = false;  ///< reorderings that change no bit
};

[[nodiscard]] std::unique_ptr<kernel_under_test> plain_kernel(kernel_form const& form);

/// dq, dk, dv of the kernel: equal to fa3's deterministic backward pass on finite calls.
/// @param o_f32  O before its cast, like r.o  @param calls  counts the kernel's calls, so that it can be not deterministic
void plain_backward(kernel_form const& form, attention_problem const& p, std::vector<f32_code> const& o_f32, std::int64_t calls, kernel_results& r);

struct known_defect {
  std::string name;
  std::vector<defect> defects;
  /// Text that a right diagnosis has, of which one suffices; empty: not in the catalogue, must be "unknown".
  std::vector<std::string> causes;
  bool backward = false;  ///< in the backward pass: cases have a dO
  bool deterministic = true;
};
/// Each alone, then some together.
[[nodiscard]] std::vector<known_defect> all_defects();
[[nodiscard]] std::vector<known_defect> backward_defects();

/// Kernels that are right, with the schedule that each equals: the emulator's schedules, and the plain kernel in legal orders.
struct right_kernel {
  std::shared_ptr<kernel_under_test> kernel;
  std::string schedule;
  bool finite_only, backward;
};
[[nodiscard]] std::vector<right_kernel> right_kernels();

}  // namespace stickybit::testing
