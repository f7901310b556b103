#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "stickybit/attention/forward.hpp"

namespace stickybit {

struct backward_result {
  std::vector<bf16_code> dq, dk, dv;        // in the problem's layout: dq as q, dk and dv as k
  std::vector<f32_code> delta, lse_log2;    // [b, h, s]; lse_log2 is lse in units of log2, −inf counted as 0
  std::vector<f32_code> dq_f32, dk_f32;     // dq and dk before their cast; only where asked for, else empty
};

/// One query row in one block of keys, as the backward pass sees it. Masked keys: s = −inf.
struct score_block_row {
  std::int64_t batch, head, row, first_column;
  std::int64_t visible;            ///< keys of this block that the row sees: the first so many
  std::span<f32_code const> s, p, dp;  // [columns of the block]
  std::span<f32_code const> p_cast;    // P as it meets dO: values of BF16, unless the pass computes in FP32
  std::span<f32_code const> ds;        // dS as it meets K and Q, likewise; without the scale (unless the rules put it there)
};
/// Told every row of every block that a query row's tile visits; called from several threads, never twice for one row and block. Must not throw.
using score_observer = std::function<void(score_block_row const&)>;

/// One key block's part of one row of dQ, before the parts are added and scaled.
struct dq_part {
  std::int64_t batch, head, row, block;
  std::span<f32_code const> part;  // [d]
};
using dq_part_observer = std::function<void(dq_part const&)>;

/// Gradients that are computed; the others are zeros.
struct wanted_gradients {
  bool dv = true, dk = true, dq = true;
};

struct backward_options {
  engine how = engine::fast;
  bool keep_f32 = false;  ///< dq_f32 and dk_f32 too
  progress report;
  score_observer scores;
  dq_part_observer dq_parts;
  /// Which key block's part of dQ is added first, second, …, in one buffer: a run of a kernel whose additions are atomic. A permutation
  /// of all key blocks; empty: the order of the schedule's deterministic mode.
  std::vector<std::int64_t> dq_order;
  /// Keys that each query row sees, the first so many, instead of what the mask says: for rows or keys selected from a longer call. Every block of
  /// keys is then visited by every row. Empty: the mask's.
  std::vector<std::int64_t> visible = {};
  /// For searches, which look at one after another. Of no effect where a fix removes the row mass.
  wanted_gradients wanted = {};
};

/// The backward pass of the schedule's kernel, code for code, from what the forward pass stored. Infinities and NaN are results.
/// Memory beside the problem: O((s + s_k)·d) and two BF16 weights for each row of one block of keys; S is never stored.
/// @param forward  the stored O and lse, of this schedule's attention_forward or captured
/// @throws unsupported_call when the schedule's backward pass is not emulated or has no tile for the head dimension;
///         std::invalid_argument when the problem has no dO, dq_order is no permutation of the blocks, or visible not one number for each row
/// @checked H200: dq, dk, dv of 46 captured calls of FlashAttention-3 (delta and lse too) and of PyTorch's FlashAttention-2, every element
[[nodiscard]] backward_result attention_backward(attention_schedule const& schedule, attention_problem const& problem, forward_result const& forward,
                                                 backward_options const& options = {});

/// Blocks of keys, each of which makes one part of dQ.  @throws unsupported_call
[[nodiscard]] std::int64_t dq_blocks(attention_schedule const& schedule, attention_problem const& problem);

/// Rows to which the kernel pads delta (with +0) and lse_log2 (with +inf).  @throws unsupported_call
[[nodiscard]] std::int64_t padded_rows(attention_schedule const& schedule, attention_problem const& problem);

}  // namespace stickybit
