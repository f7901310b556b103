#include "printable.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <utility>

namespace stickybit::detail {

namespace {

/// The sequence at the beginning of some text; length 0 where it is ill-formed.
struct utf8_sequence {
  std::uint32_t code_point;
  std::size_t length;
};

constexpr unsigned char byte_at(std::string_view text, std::size_t i) noexcept { return static_cast<unsigned char>(text[i]); }

/// @pre text is not empty
utf8_sequence first_sequence(std::string_view text) noexcept {
  const unsigned char lead = byte_at(text, 0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 0;
  if (length == 0 || lead >= 0xf8 || text.size() < length) return {lead, 0};
  std::uint32_t code_point = lead & (0x7fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte_at(text, i) & 0xc0) != 0x80) return {lead, 0};
    code_point = code_point << 6 | (byte_at(text, i) & 0x3fu);
  }
  constexpr std::array<std::uint32_t, 5> smallest{0, 0, 0x80, 0x800, 0x10000};
  const bool overlong = code_point < smallest[length];
  const bool surrogate = code_point >= 0xd800 && code_point <= 0xdfff;
  if (overlong || surrogate || code_point > 0x10ffff) return {lead, 0};
  return {code_point, length};
}

/// @source Unicode 15.0: Cc, line and paragraph separators, Bidi_Control, zero-width and byte-order marks
constexpr bool is_unprintable(std::uint32_t c) noexcept {
  constexpr std::array<std::pair<std::uint32_t, std::uint32_t>, 7> ranges{{
      {0x00, 0x1f}, {0x7f, 0x9f}, {0x61c, 0x61c}, {0x200b, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x2069}, {0xfeff, 0xfeff}}};
  for (auto const& [first, last] : ranges)
    if (c >= first && c <= last) return true;
  return false;
}

constexpr std::string_view cut_mark = "...";

}  // namespace

std::size_t find_invalid_utf8(std::string_view text) noexcept {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = first_sequence(text.substr(i)).length;
    if (length == 0) return i;
    i += length;
  }
  return std::string_view::npos;
}

std::string printable(std::string_view text, std::size_t max_bytes) {
  std::string line;
  std::size_t cut = 0;  // the longest end of a whole character that leaves room for the mark
  for (std::size_t i = 0; i < text.size();) {
    const auto [code_point, length] = first_sequence(text.substr(i));
    if (length == 0) line += fmt::format("\\x{:02x}", code_point);
    else if (is_unprintable(code_point)) line += fmt::format("\\u{{{:x}}}", code_point);
    else line += text.substr(i, length);
    if (line.size() > max_bytes) return line.substr(0, cut).append(cut_mark);
    if (line.size() + cut_mark.size() <= max_bytes) cut = line.size();
    i += length == 0 ? 1 : length;
  }
  return line;
}

std::string printable_tail(std::string_view text, std::size_t max_bytes) {
  std::string line = printable(text, text.size() * 8 + 16);
  if (line.size() <= max_bytes) return line;
  std::size_t begin = line.size() - (max_bytes - cut_mark.size());
  while ((byte_at(line, begin) & 0xc0) == 0x80) ++begin;
  return std::string(cut_mark) + line.substr(begin);
}

}  // namespace stickybit::detail
