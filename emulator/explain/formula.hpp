#pragma once
#include <cstddef>
#include <string>

#include "stickybit/explain/account.hpp"

// A step as a formula: over names, or over numbers.

namespace stickybit::detail {

/// "m[2]": a name short enough to stand in a formula; "t12" for an unnamed step.
[[nodiscard]] std::string short_label(account const& a, std::size_t i);

/// "fma(S[17], L, -rn(m[2]·L))": unnamed steps on the way are written out, rn( ) around what is rounded, while the text stays within
/// `width` columns; beyond that they are t12.
[[nodiscard]] std::string formula_of(account const& a, std::size_t i, std::size_t width = 60);

/// "fma(-3.25, 0.180336878, 12.5)"
[[nodiscard]] std::string formula_in_numbers(account const& a, std::size_t i);

/// Nine significant digits: enough to tell any two FP32 numbers apart.
[[nodiscard]] std::string number(double value);
/// All digits that a double has, and "…" where there is more.
[[nodiscard]] std::string number(double_double value);

/// How many columns a text takes on a terminal: its characters, not its bytes.
[[nodiscard]] std::size_t columns_of(std::string_view text) noexcept;

/// A chain of a tensor core that ends with step i: its blocks from first to last, back to a step that has a name or is no block.
[[nodiscard]] std::vector<std::size_t> chain_of(account const& a, std::size_t i);
/// Does an operand pair of a block count, or is it filling: +0 times +0?
[[nodiscard]] std::size_t products_in(account const& a, std::size_t block);

}  // namespace stickybit::detail
