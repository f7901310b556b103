#pragma once
#include <cstdint>
#include <vector>

#include "stickybit/attention/backward.hpp"
#include "stickybit/bias/row_mass.hpp"
#include "stickybit/bias/signed_error.hpp"

namespace stickybit {

class call_reference;

/// Rows of dK and dV are keys, and their heads key heads; all other rows are queries.
struct gradient_bias {
  tensor_error delta;       ///< FP32 ulp at the root mean square of the head: its one column
  tensor_error dp, ds;      ///< FP32 and BF16 ulp at the root mean square of the row's visible keys, which alone count
  tensor_error dq, dk, dv;  ///< BF16 ulp at the root mean square of the column
  std::int64_t rows_without_keys = 0;  ///< their exact delta and dQ are 0; left out
  std::vector<row_mass_parts> masses;  ///< [b, h, s], where asked for; watched is each row's key of the largest exact weight
};

struct gradient_bias_options {
  engine how = engine::fast;
  progress report;
  bool scores = true;   ///< dp and ds too, at about half the cost of the whole; else both stay empty
  bool masses = false;  ///< the row mass of dS too
};

/// Signed error of the backward pass, as the schedule's kernel computes it from its own O and lse, against the mathematical value of
/// the inputs. dS is without the scale, unless the schedule puts it there. Memory beside the problem: O((s + s_k)·d) a head; the
/// matrices dP and dS are never stored.
/// @param with_scores  dp and ds too, at about half the cost of the whole; else both stay empty
/// @throws as attention_backward; std::invalid_argument for a scale that is not above 0
[[nodiscard]] gradient_bias bias_of_gradients(attention_schedule const& schedule, attention_problem const& problem, engine how = engine::fast,
                                              progress const& report = {}, bool with_scores = true);

/// The same against a reference that is there already, of the schedule's mask.
[[nodiscard]] gradient_bias bias_of_gradients(attention_schedule const& schedule, call_reference const& reference, gradient_bias_options const& options);

}  // namespace stickybit
