#pragma once
#include <cstddef>
#include <vector>

#include "stickybit/explain/account.hpp"

namespace stickybit {

/// What each rounding is worth in an account's result (its last step), to first order: own error × d result / d step. An input's
/// error is that of its code against what it stands for. The parts and `constants` add up to the result's error but for products of errors.
struct error_worth {
  std::vector<double> steps;  ///< one a step, in ulp of the result at its exact value, or at its value where that is 0; NaN where it is not finite
  double constants = 0;       ///< of named constants, whose codes are rounded
  std::size_t deciding = 0;   ///< the step worth most; the last one where all are 0; the first that is no finite number where the result is none
};

/// @pre the account has a step
[[nodiscard]] error_worth worth_of(account const& a);

}  // namespace stickybit
