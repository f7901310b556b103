#pragma once
#include <cstdint>
#include <vector>

#include "stickybit/attention/forward.hpp"
#include "stickybit/bias/signed_error.hpp"
#include "stickybit/exact/attention.hpp"

namespace stickybit {

/// Which rows of a call have their largest score at more than one visible key, in exact arithmetic, and what O should be.
struct tied_rows {
  std::vector<std::uint8_t> tied;  ///< [b, h, s]
  std::int64_t count = 0;
  error_samples exact;             ///< exact O; errors NaN

  /// @throws std::invalid_argument (a scale that is not above 0)
  tied_rows(attention_problem const& problem, mask_alignment mask);
};

/// Signed error of an O that is there already, on all rows or on the tied ones alone, in BF16 ulp at the root mean square of those rows' column.
[[nodiscard]] tensor_error error_of_output(attention_problem const& problem, forward_result const& forward, tied_rows const& rows, bool tied_only);

/// Signed error of O on the tied rows alone, in BF16 ulp at the root mean square of the tied rows' column.
/// @throws as attention_forward
[[nodiscard]] tensor_error error_on_tied_rows(attention_schedule const& schedule, attention_problem const& problem, tied_rows const& rows, engine how = engine::fast,
                                              progress const& report = {});

}  // namespace stickybit
