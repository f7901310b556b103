#pragma once
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "stickybit/explain/account.hpp"

namespace stickybit {

/// What part of the result's error each step is to blame for, to first order: (its code − the operation on the codes it got, exactly) times the
/// derivative of the result by it. An input's part is that of the difference between its code and what it stands for. In the result's ulp at its
/// exact value, so that they sum to error_in_ulp() of the last step but for products of errors.
struct error_shares {
  std::vector<double> steps;      // [steps]; NaN where something is not finite
  std::vector<double> constants;  // of account::constants(): each one's rounding to FP32
  double total = 0;               ///< error_in_ulp() of the result
  double not_linear = 0;          ///< total − Σ
  bool finite = false;            ///< all of these are; else groups and sums say nothing
  std::size_t deciding = 0;       ///< the step with the largest share, the last one where all are 0; of a result that is not finite the first such step

  [[nodiscard]] double of_constants() const noexcept;
};
/// @pre the account has a step
[[nodiscard]] error_shares share_error(account const& a);

/// The first step that gives no finite number; not an input, and not the argument of a masked key's exponential, which is −infinity by design.
[[nodiscard]] std::optional<std::size_t> first_not_finite(account const& a) noexcept;

/// The parts of one kind of step. Steps without a name belong to the named one that they lead to; a constant is a kind of its own.
struct error_group {
  std::string_view symbol;
  double sum = 0;        ///< of the steps' shares, ulp
  double magnitude = 0;  ///< sum of their absolute values, ulp
  std::size_t steps = 0;
};
/// By magnitude of the sum, largest first; those without any error left out.
[[nodiscard]] std::vector<error_group> group_shares(account const& a, error_shares const& shares);

/// For each step, itself or the first named step that it leads to, by way of its last reader.
[[nodiscard]] std::vector<std::size_t> owners(account const& a);

}  // namespace stickybit
