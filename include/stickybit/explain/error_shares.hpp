#pragma once
#include <string_view>
#include <vector>

#include "stickybit/explain/account.hpp"

namespace stickybit {

/// What part of the result's error each step is to blame for, to first order: (its code − the operation on the codes it got, exactly) times the
/// derivative of the result by it. An input's part is that of the difference between its code and what it stands for. In the result's ulp at its
/// exact value, so that they sum to error_in_ulp() of the last step but for products of errors. Empty where value or exact value of the result, or
/// of anything on the way to it with influence, is not finite.
struct error_shares {
  std::vector<double> steps;      // [steps]
  std::vector<double> constants;  // of account::constants(): each one's rounding to FP32
  double total = 0;               ///< error_in_ulp() of the result
  double not_linear = 0;          ///< total − Σ
};
[[nodiscard]] error_shares share_error(account const& a);

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
