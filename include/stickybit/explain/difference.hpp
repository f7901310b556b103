#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stickybit/explain/account.hpp"

namespace stickybit {

/// Where two accounts of one thing part.
struct account_difference {
  quantity where;                    ///< the first named quantity that both have with other codes
  std::size_t at_a = 0, at_b = 0;    ///< its steps
  std::uint32_t bits_a = 0, bits_b = 0;
  std::size_t step_a = 0, step_b = 0;  ///< the operations below it that part: their operands are the same, they are not; or what they are given differs
  std::vector<std::string> equal;    ///< what both take with equal codes: "S[17]", "m after block 0"
  std::string sentence;              ///< in words, with names for the two
};

/// Walks the named quantities that both have, in a's order, to the first with other values; then down the two expressions, operation by
/// operation, to where the operands are equal and the operation, its rules or its order is not. Chains of a tensor core are compared after as
/// many products as both have a result for.
/// @returns none where every common quantity and the last step agree
[[nodiscard]] std::optional<account_difference> first_difference(account const& a, account const& b, std::string_view name_a = "A", std::string_view name_b = "B");

/// The sentence in lines of 110 columns.
[[nodiscard]] std::string tell(account_difference const& d);

}  // namespace stickybit
