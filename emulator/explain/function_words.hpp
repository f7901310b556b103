#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "stickybit/explain/account.hpp"
#include "words.hpp"

namespace stickybit::detail {

/// The significand that a MUFU event gives before it is packed: the sum of its terms, its low bits cut.
[[nodiscard]] std::int64_t kept_of(interpolated const& e) noexcept;

/// An elementary function: range reduction, segment, the three terms, rounding constant and truncation of MUFU; of the functions
/// made of several operations each inner result.
[[nodiscard]] std::vector<std::string> function_lines(account const& a, std::size_t i, step_events const& events, ink const& pen);

}  // namespace stickybit::detail
