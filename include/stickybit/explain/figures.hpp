#pragma once
#include <optional>
#include <string>
#include <vector>

#include "stickybit/explain/account.hpp"
#include "stickybit/explain/error_shares.hpp"
#include "stickybit/figure/scene.hpp"

// The pictures of an account. Each is drawn from the steps' own events; where there is nothing to draw there is no picture.

namespace stickybit {

/// The rounding of one step on the number line; none where it was not rounded (a choice, a function, a NaN).
[[nodiscard]] std::optional<figure::scene> rounding_picture(account const& a, std::size_t step);

/// One tensor-core step with its bits aligned; none for other steps.
[[nodiscard]] std::optional<figure::scene> block_picture(account const& a, std::size_t step);
/// The tensor-core step whose rounding has the largest share of the result's error; where none has any, the last one.
[[nodiscard]] std::optional<std::size_t> block_to_show(account const& a, error_shares const& shares);

/// The parts of the result's error by kind of rounding, and their sum.
/// @param name_of  of a group's symbol
[[nodiscard]] std::optional<figure::scene> shares_picture(std::vector<error_group> const& groups, error_shares const& shares, std::string (*name_of)(std::string_view symbol, std::string_view tensor),
                                                          std::string_view tensor);

/// One of these by name: rounding (of the last step), block, shares, error, row; none for another name.
[[nodiscard]] std::optional<figure::scene> picture_named(account const& a, std::string_view picture, std::string (*name_of)(std::string_view symbol, std::string_view tensor), std::string_view tensor);

/// What a group of steps is called where no tensor is told of: its symbol.
[[nodiscard]] std::string name_of_group(std::string_view symbol, std::string_view tensor);

/// The result's error as it comes about: the shares of the steps so far, summed in the order in which they are made.
[[nodiscard]] std::optional<figure::scene> error_picture(account const& a, error_shares const& shares);

/// The blocks of one softmax row, and what became of one element of O; none where the account has no blocks.
[[nodiscard]] std::optional<figure::scene> row_picture(account const& a);

}  // namespace stickybit
