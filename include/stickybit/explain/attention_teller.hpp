#pragma once
#include <string>
#include <string_view>

#include "stickybit/explain/attention_account.hpp"
#include "stickybit/explain/error_shares.hpp"
#include "stickybit/explain/teller.hpp"

namespace stickybit {

/// An element of an attention call with its account. All must outlive it.
struct told_element {
  attention_schedule const& schedule;
  attention_problem const& problem;
  std::string_view tensor;  ///< see explained_tensors()
  element_place at;
  account const& steps;
  std::string_view fix = "none";
};

/// "O[head 0, row 17, column 5]"; with a batch element where there are several.
[[nodiscard]] std::string name_of(told_element const& e);

/// In words, from the account alone:
///   paragraph   result, exact value, which roundings made the error, what the row looks like
///   screen      also blocks, the keys (rows) that weigh most, the parts of the error, the last rounding bit by bit
///   everything  also every step
[[nodiscard]] std::string tell(told_element const& e, detail_level level, text_style style = text_style::plain);

/// "the cast of P to BF16": the rounding that a group of steps or a constant is, for any symbol of attention_account.hpp.
[[nodiscard]] std::string rounding_of(std::string_view symbol, std::string_view tensor);

}  // namespace stickybit
