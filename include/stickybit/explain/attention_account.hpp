#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "stickybit/attention/forward.hpp"
#include "stickybit/explain/account.hpp"

// The account of one element of an attention call. The law of the schedule's kernel (emulator/attention, softmax/online_softmax.hpp) runs once more
// for the element's row, or for its key, on numbers that remember where they come from; so every form and order that a schedule or a fix has is
// in the account. Names of steps, with i a key (or for lanes and blocks the block in the kernel's order):
//   forward   S[i], x[i] argument of the exponential, p[i], P[i] its cast; m[i], r[i], l[i, j] maximum, rescale factor and lane j after block i;
//             A[i] O's element after block i; sum, 1/sum, O/sum, lse, O. With split keys m, r, A, sum, 1/sum and O/sum have the part in j, and weight[-, j] is the part's.
//   backward  lse, O as stored (inputs); lse2, delta; S[i], P[i], dP[i], dS[i], dS^[i] its cast; part[i] of dQ; dQ, dK, dV. For dK and dV i is a row.

namespace stickybit {

/// Which tensors have accounts: o lse (forward); delta lse_log2 s p dp ds dq (backward, of a query row), dk dv (backward, of a key).
[[nodiscard]] bool is_forward_tensor(std::string_view tensor) noexcept;
[[nodiscard]] std::span<std::string_view const> explained_tensors() noexcept;

/// Where an element stands. head: query head, for dk and dv key head. row: query row, or key. column: of the head dimension, for s p dp ds the key;
/// nothing for lse, delta and lse_log2.
struct element_place {
  std::int64_t batch = 0, head = 0, row = 0, column = 0;
};

/// Everything that led to one element of a result; its last step is the element, with the code of attention_forward or attention_backward.
/// @param tensor   see explained_tensors()
/// @param forward  the stored O and lse, as attention_backward takes them; for o and lse nothing of it is read. Their steps are inputs whose
///                 exact values are those of the mathematical attention, so that the errors of the forward pass are seen to come in.
/// @returns  Exact values are mathematical ones: the scale and log2(e) unrounded, keys that k-smooth has smoothed as they are
/// @throws std::out_of_range naming the index; std::invalid_argument for a tensor that is not one of these;
///         unsupported_call for the mathematical schedule, for gradients of eager-bf16, and where NaN or infinities
///         meet the padding of the last tile
[[nodiscard]] account account_of(attention_schedule const& schedule, attention_problem const& problem, std::string_view tensor, element_place at,
                                 forward_result const& forward = {});

/// A call of one row whose scores are given: Q and K are zeros, V's first column is `values`, its others zeros.
/// @param values  one a key, or empty: zeros
/// @throws std::invalid_argument without a score, or where there are values but not one a score
[[nodiscard]] attention_problem one_row_problem(std::span<f32_code const> scores, std::span<bf16_code const> values, double softmax_scale, std::int64_t head_dim = 64);

/// The account of O's first element (tensor o) or of lse of such a call: the scores are inputs, everything after them is the schedule's.
/// @throws as account_of; unsupported_call for schedules that are not computed block by block
[[nodiscard]] account account_of_softmax(attention_schedule const& schedule, attention_problem const& one_row, std::span<f32_code const> scores, std::string_view tensor);

}  // namespace stickybit
