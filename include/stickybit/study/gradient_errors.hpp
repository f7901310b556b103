#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "stickybit/attention/backward.hpp"
#include "stickybit/exact/gradients.hpp"

namespace stickybit {

/// Exact gradients of a call, computed once and compared with many schedules.
struct exact_call {
  mask_alignment mask;
  std::vector<head_gradients> heads;  ///< [b, h]; dk and dv of a query head alone
  /// dK of a key head: the sum over its query heads.
  std::vector<std::vector<double_double>> dk;  ///< [b, h_k], each [s_k × d]

  /// @throws std::invalid_argument without dO or with a scale that is not above 0
  exact_call(attention_problem const& problem, mask_alignment mask);
};

/// Median over rows of |value − exact|₂ / |exact|₂; rows whose exact norm is 0, or with a value that is not finite, are left out.
struct relative_error {
  double median = 0;
  std::int64_t rows_left_out = 0;
};

/// One head's errors, the gradients before and after their cast to BF16.
struct gradient_errors {
  std::int64_t batch = 0, head = 0;
  relative_error dq_before_cast, dq;
  relative_error dk_before_cast, dk;  ///< of the head's key head
};

/// The schedule's forward and backward pass against the exact gradients, by head [b, h].
/// @throws as attention_forward and attention_backward
[[nodiscard]] std::vector<gradient_errors> errors_of_gradients(attention_schedule const& schedule, attention_problem const& problem, exact_call const& exact,
                                                               engine how = engine::fast, progress const& report = {});

/// The same of a forward pass that is there already, of this schedule.
[[nodiscard]] std::vector<gradient_errors> errors_of_gradients(attention_schedule const& schedule, attention_problem const& problem, forward_result const& forward,
                                                               exact_call const& exact, engine how = engine::fast, progress const& report = {});

/// The same with the row mass of dS put right at each row's largest key alone: see errors_of_fix.
/// @throws unsupported_call for a schedule that is not computed block by block
[[nodiscard]] std::vector<gradient_errors> errors_with_winner(attention_schedule const& schedule, attention_problem const& problem, forward_result const& forward,
                                                              exact_call const& exact, engine how = engine::fast);

/// The exact gradients rounded once to BF16: the floor that no kernel with BF16 outputs is under.
[[nodiscard]] std::vector<gradient_errors> errors_of_cast(attention_problem const& problem, exact_call const& exact);

/// What of a row's mass e = Σ_j dS_j comes from where, in the kernel's own arithmetic. The exact mass is 0; the row of dQ errs by about
/// s·e·(PK). Each is the median over rows of |part of e|·s·|PK|₂ / |dQ exact|₂. The parts of e add up to it.
struct row_mass_causes {
  std::int64_t batch = 0, head = 0;
  double total = 0;
  double rounded_output = 0;        ///< the stored O is not Σ P V: rounding of O to BF16 and all before it
  double different_arithmetic = 0;  ///< dP by the tensor core, delta by FP32 additions: neither is the exact product, and they differ
  double score_cast = 0;            ///< dS from FP32 to BF16, and its FP32 operations
};

/// @throws as attention_backward; unsupported_call for a schedule that is not computed block by block
[[nodiscard]] std::vector<row_mass_causes> causes_of_row_mass(attention_schedule const& schedule, attention_problem const& problem, exact_call const& exact,
                                                              engine how = engine::fast);

}  // namespace stickybit
