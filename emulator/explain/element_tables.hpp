#pragma once
#include <string>

#include "stickybit/explain/attention_teller.hpp"

namespace stickybit::detail {

/// What the row (or key) of an element looks like, in a sentence or two.
[[nodiscard]] std::string describe_row(told_element const& e);

/// "the cast of O to BF16 -0.31, the cast of P to BF16 +0.05 and ...; all else together +1e-05"; empty without groups.
[[nodiscard]] std::string largest_shares(told_element const& e, std::vector<error_group> const& groups);

/// Its blocks, and the keys or rows that matter most, in tables.
[[nodiscard]] std::string tables_of(told_element const& e, error_shares const& shares);

/// A key's weight in a row of the forward pass and its part of it: later blocks with a larger maximum take all earlier weights down.
struct weighed_key {
  std::int32_t key;
  std::size_t step;  ///< of p
  double share;
};
/// Heaviest first; of a row whose keys are not split.
[[nodiscard]] std::vector<weighed_key> weigh_keys(account const& a);

}  // namespace stickybit::detail
