#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "stickybit/explain/account.hpp"

// An account in words. Whatever is said of a step comes from the events that carrying it out again sends, so the words are
// about the arithmetic that gave the bits.

namespace stickybit {

enum class detail_level : std::uint8_t {
  paragraph,   ///< a few sentences: result, exact value, error, the rounding that decided
  screen,      ///< at most 45 lines of 110 columns: the steps that matter, the deciding one bit by bit
  everything,  ///< every step bit by bit
};

/// ansi: kept bits bold, cut bits dim red, errors coloured by their sign, which is always written too.
enum class text_style : std::uint8_t { plain, ansi };

/// "S[17]", "m after block 2", "partial sum 3"; empty for no name.
[[nodiscard]] std::string text_of(quantity q);
/// What a symbol stands for, in one line; empty for one that is unknown.
[[nodiscard]] std::string_view meaning_of(std::string_view symbol) noexcept;
/// The same of one quantity: "score of key 17: q·k, not scaled".
[[nodiscard]] std::string meaning_of(quantity q);
/// text_of its name, or "t12": an unnamed step by its index.
[[nodiscard]] std::string label_of(account const& a, std::size_t i);

/// The whole account, its last step being the result. Ends with a newline.
/// @throws std::invalid_argument for an account without steps
[[nodiscard]] std::string tell(account const& a, detail_level level, text_style style = text_style::plain);

/// One step in full: operands with codes and binary values, what its arithmetic did bit by bit, the exact value, the error.
/// @param most_terms  of a tensor core's block: how many of its terms are listed, those that lose most first
[[nodiscard]] std::string tell_step(account const& a, std::size_t i, text_style style = text_style::plain, std::size_t most_terms = 64);

}  // namespace stickybit
