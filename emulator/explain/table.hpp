#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "stickybit/explain/account.hpp"
#include "stickybit/explain/error_shares.hpp"
#include "words.hpp"

namespace stickybit::detail {

/// The steps that a table of `most` rows shows, in order: all where they fit; else those with a name, of runs of one symbol the first,
/// the last and the one whose own rounding is worth most in the result; the last step and the deciding one always.
[[nodiscard]] std::vector<std::size_t> steps_that_matter(account const& a, error_shares const& shares, std::size_t most);

/// One row a step: name, formula, value, exact value, own error, error so far; 110 columns. "⋮" before a row: steps above it are not shown;
/// a last line says which. An error next to an exact 0 is no number of ulp and stands in brackets.
[[nodiscard]] std::string table_of(account const& a, std::vector<std::size_t> const& steps, ink const& pen);

}  // namespace stickybit::detail
