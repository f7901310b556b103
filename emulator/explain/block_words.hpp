#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "stickybit/explain/account.hpp"
#include "words.hpp"

namespace stickybit::detail {

/// What a tensor core's block does with its terms, by its rules: one line.
[[nodiscard]] std::string unit_rule(machine_unit const& unit);

/// A term's magnitude with its sign, and what of it was lost, as numbers.
[[nodiscard]] double value_of(term_aligned const& t);
[[nodiscard]] double lost_of(term_aligned const& t);

/// One block: each term's exponent, shift, quanta and lost bits, the sum, its rounding. At most `most_terms` terms, those that lose most first.
[[nodiscard]] std::vector<std::string> block_lines(account const& a, std::size_t i, step_events const& events, ink const& pen, std::size_t most_terms);

/// Half a sentence: what the alignment lost, and what the rounding of the sum.
[[nodiscard]] std::string block_reason(step_events const& events);

}  // namespace stickybit::detail
