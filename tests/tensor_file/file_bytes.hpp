#pragma once
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stickybit/tensor_file/file_error.hpp"
#include "stickybit/tensor_file/tensor_file.hpp"
#include "support/catch.hpp"

namespace stickybit {

inline std::vector<std::byte> as_bytes(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// 8 bytes of length, whatever follows.
inline std::string length_field(std::uint64_t length) {
  std::string field;
  for (int i = 0; i < 8; ++i) field += static_cast<char>(length >> (8 * i) & 0xff);
  return field;
}

/// A file with this JSON and so many data bytes: 0, 1, 2, ...
inline std::string file_text(std::string_view json, std::size_t data_bytes = 0) {
  std::string text = length_field(json.size());
  text += json;
  for (std::size_t i = 0; i < data_bytes; ++i) text += static_cast<char>(i & 0xff);
  return text;
}

inline tensor_file parse_text(std::string_view text) { return tensor_file::parse(as_bytes(text), "t.safetensors"); }

/// The message of the file_error that `action` throws; anything else fails the test.
template <class Action>
std::string error_of(Action&& action) {
  try {
    action();
  } catch (file_error const& e) {
    return e.what();
  }
  FAIL("no file_error");
  return {};
}

inline std::string parse_error(std::string_view text) {
  return error_of([&] { (void)parse_text(text); });
}

inline std::string read_text(std::filesystem::path const& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

inline void write_text(std::filesystem::path const& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace stickybit
