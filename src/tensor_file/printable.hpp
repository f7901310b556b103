#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace stickybit::detail {

/// Position of the first byte that begins no well-formed UTF-8 sequence; npos where there is none.
/// @source Unicode 15.0 table 3-7
[[nodiscard]] std::size_t find_invalid_utf8(std::string_view text) noexcept;

/// The text on one line: characters that control a terminal, break a line or turn its direction are written \u{HEX}, bytes
/// that are not UTF-8 \xHH. Cut with `...` so that it has at most max_bytes, at least 16. Printable text that fits stays as it is.
[[nodiscard]] std::string printable(std::string_view text, std::size_t max_bytes);

/// The same, but what is cut is the beginning: for a path, whose end says most.
[[nodiscard]] std::string printable_tail(std::string_view text, std::size_t max_bytes);

}  // namespace stickybit::detail
