#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace stickybit::figure::detail {

inline constexpr char32_t replacement = 0xFFFD;

/// The character at `at`, which moves past it; `replacement` for a byte that begins no valid UTF-8.
/// @source Unicode 15, table 3-7
constexpr char32_t next_character(std::string_view words, std::size_t& at) noexcept {
  const auto byte = [&](std::size_t i) { return i < words.size() ? std::uint8_t(words[i]) : std::uint8_t(0); };
  const std::uint8_t first = byte(at);
  if (first < 0x80) return at += 1, first;
  const int length = first >= 0xC2 && first <= 0xDF ? 2 : first >= 0xE0 && first <= 0xEF ? 3 : first >= 0xF0 && first <= 0xF4 ? 4 : 0;
  char32_t c = length == 2 ? first & 0x1F : length == 3 ? first & 0x0F : first & 0x07;
  for (int i = 1; i < length; ++i) {
    if ((byte(at + std::size_t(i)) & 0xC0) != 0x80) return at += 1, replacement;
    c = c << 6 | (byte(at + std::size_t(i)) & 0x3F);
  }
  const bool overlong = (length == 3 && c < 0x800) || (length == 4 && c < 0x10000);
  if (length == 0 || overlong || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) return at += 1, replacement;
  at += std::size_t(length);
  return c;
}

}  // namespace stickybit::figure::detail
