#pragma once
#include <span>

#include "../attention/backward_plan.hpp"
#include "../attention/score_worker.hpp"
#include "backward_sets.hpp"
#include "stickybit/bias/call_reference.hpp"
#include "stickybit/exact/dot_products.hpp"
#include "wide_products.hpp"

namespace stickybit::detail {

/// One call of a schedule whose gradients are attributed: what the kernel computes and what is true.
struct gradient_call {
  attention_schedule schedule;
  attention_problem const& problem;
  call_reference const& reference;
  engine how;
  forward_result forward;
  backward_plan plan;
  backward_result kernel;

  /// @throws unsupported_call where there is no attribution; as attention_backward
  gradient_call(attention_schedule const& schedule, call_reference const& reference, engine how, progress const& report);

  gradient_call(gradient_call const&) = delete;  // plan points into schedule
  gradient_call& operator=(gradient_call const&) = delete;

  [[nodiscard]] bool grouped() const noexcept { return problem.heads != problem.key_heads; }
  [[nodiscard]] std::size_t row_index(std::int64_t b, std::int64_t head, std::int64_t row) const noexcept {
    return std::size_t((b * problem.heads + head) * problem.queries + row);
  }
  /// The scale in the outputs' place, else 1.
  [[nodiscard]] double output_scale() const noexcept { return schedule.backward.scaled == scale_place::outputs ? problem.softmax_scale : 1; }
};

/// The schedule itself.  @throws unsupported_call, std::invalid_argument
attention_schedule const& require_attribution(attention_schedule const& schedule, attention_problem const& problem);

/// K and V of one key head, in every form that the products need.
struct key_head_operands {
  backward_key_panels panels;
  wide_panel keys;            // K[s_k × d]
  dot_products exact_scores;  // with K

  key_head_operands(attention_problem const& p, std::int64_t b, std::int64_t key_head);
};

/// Q and dO of one query head.
struct query_head_operands {
  column_panel q, d_o;         // Q[s × d], dO[s × d]
  wide_panel wide_q, wide_d_o;

  query_head_operands(attention_problem const& p, std::int64_t b, std::int64_t head);
};

/// Errors of rows, value − exact, NaN or infinite where the value or the exact value is. Told from several threads, no row twice, but
/// dP and dS block by block in the schedule's order.
class gradient_error_sink {
 public:
  struct score_errors {
    std::int64_t batch, head, row, first;                           ///< keys from `first` on, all visible
    std::span<double const> exact_p, exact_dp, exact_ds, dp_error;  ///< dp_error: where dp rounds
    double const* ds_errors;                                        ///< of each set asked for, [sets × keys]
  };
  virtual ~gradient_error_sink() = default;
  /// By delta_values::index.
  virtual void take_delta(std::int64_t batch, std::int64_t head, std::int64_t row, std::span<double const, 4> errors) = 0;
  virtual void take_scores(score_errors const& e) = 0;
  /// @param errors  of each set asked for, [sets × d]  @param direction  PK {d}
  virtual void take_dq(std::int64_t batch, std::int64_t head, std::int64_t row, std::span<double const> errors, std::span<double const> direction) = 0;
  /// dK or dV.  @param direction  PᵀQ or dV {d}
  virtual void take_key(gradient_tensor tensor, std::int64_t batch, std::int64_t key_head, std::int64_t key, std::span<double const> errors,
                        std::span<double const> direction) = 0;
};

/// Runs the whole call with the sets of `sets`.
/// @returns codes of dQ, dK and dV that differ from the kernel's in the sets of every point
[[nodiscard]] std::int64_t run_gradient_call(gradient_call const& call, score_plan const& sets, gradient_error_sink& sink, progress const& report);

}  // namespace stickybit::detail
