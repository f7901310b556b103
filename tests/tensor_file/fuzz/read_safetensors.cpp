// Any bytes are a file_error with one short line, or a file that writing and reading leaves as it is.
// Any other exception, an abort or a sanitizer's report is a finding.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stickybit/tensor_file/tensor_file.hpp"

using namespace stickybit;

namespace {

void check(bool holds) {
  if (!holds) std::abort();
}

void check_message(std::string_view message) {
  check(message.size() < 1200);
  check(std::ranges::none_of(message, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }));
}

std::optional<tensor_file> parse(std::span<std::byte const> bytes) {
  try {
    return tensor_file::parse(bytes, "input");
  } catch (file_error const& e) {
    check_message(e.what());
    return std::nullopt;
  }
}

/// What can be written: all but the tensors that were left unread.
tensor_file readable_part(tensor_file const& file) {
  tensor_file part;
  part.metadata = file.metadata;
  for (auto const& [name, value] : file.tensors()) part.add(name, value);
  return part;
}

void check_bytes(std::span<std::byte const> bytes) {
  const auto file = parse(bytes);
  if (!file) return;
  const tensor_file written = readable_part(*file);
  const std::vector<std::byte> first = written.to_bytes();
  const auto again = parse(first);
  check(again.has_value() && *again == written);
  check(again->to_bytes() == first);
}

/// The input as JSON, a line feed and data. With the length filled in, mutations reach the grammar and the layout.
std::vector<std::byte> with_length(std::span<std::byte const> input) {
  const auto line_feed = std::ranges::find(input, std::byte{'\n'});
  const auto json_bytes = static_cast<std::uint64_t>(line_feed - input.begin());
  std::vector<std::byte> bytes;
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<std::byte>(json_bytes >> (8 * i) & 0xff));
  bytes.insert(bytes.end(), input.begin(), line_feed);
  if (line_feed != input.end()) bytes.insert(bytes.end(), line_feed + 1, input.end());
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  check_bytes(input);
  check_bytes(with_length(input));
  return 0;
}
