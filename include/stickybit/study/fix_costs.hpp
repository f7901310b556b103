#pragma once
#include <string_view>

namespace stickybit {

/// What a fix adds to one forward and one backward pass, by the model below: counted work, not measured time.
struct fix_cost {
  /// Products of s·s_k·d multiply-adds on the tensor core. One done in FP32 counts as 15 of them, so a product taken off the tensor core
  /// adds 14: 989 TFLOP/s in BF16 against 67 in FP32 (assumed: the H200's data sheet).
  double products = 0;
  double score_operations = 0;  ///< scalar operations for each of the s·s_k scores
  double bytes = 0;             ///< written and read, for each element of an s × d tensor
  std::string_view reason;      ///< of one fix; empty for a combination

  /// Of the 2 products of the forward and the 5 of the backward pass.
  [[nodiscard]] constexpr double share() const noexcept { return products / 7; }
};

/// The sum over the fixes of the text (see with_fixes, and errors_of_fix for "winner"); beside a backward pass in FP32 what a fix adds is in FP32 too.
/// @throws invalid_fix for a name that has no cost here
[[nodiscard]] fix_cost cost_of(std::string_view fixes);

}  // namespace stickybit
