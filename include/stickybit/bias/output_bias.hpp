#pragma once
#include <cstdint>

#include "stickybit/attention/forward.hpp"
#include "stickybit/bias/signed_error.hpp"

namespace stickybit {

class call_reference;

struct output_bias {
  tensor_error o;                      ///< BF16 ulp
  std::int64_t rows_without_keys = 0;  ///< their exact O is 0; left out
};

/// Signed error of O, as the schedule's kernel computes it, against its mathematical value, by column and by row.
/// @throws unsupported_call, std::invalid_argument (a scale that is not above 0)
[[nodiscard]] output_bias bias_of_output(attention_schedule const& schedule, attention_problem const& problem, engine how = engine::fast,
                                         progress const& report = {});

/// The same against a reference that is there already, of the schedule's mask.
[[nodiscard]] output_bias bias_of_output(attention_schedule const& schedule, call_reference const& reference, engine how = engine::fast, progress const& report = {});

}  // namespace stickybit
