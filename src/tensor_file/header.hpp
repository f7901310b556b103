#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "stored_type.hpp"

namespace stickybit::detail {

inline constexpr std::string_view metadata_key = "__metadata__";

/// The length of the JSON, in bytes before it.
inline constexpr std::size_t length_field_bytes = 8;
/// Longest JSON that is read or written.  @source huggingface/safetensors 000a16f safetensors/src/tensor.rs:7
inline constexpr std::uint64_t max_header_bytes = 100'000'000;

struct header_entry {
  std::string name;
  stored_type type;
  std::vector<std::int64_t> shape;
  /// Where the data begins and ends, counted from the first byte after the header.
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct file_header {
  std::map<std::string, std::string> metadata;
  std::vector<header_entry> entries;
};

/// The header's JSON, its grammar checked: what each entry says is not yet compared with its shape or with the file.
/// Needs memory in proportion to the JSON, and no stack for its nesting.  @throws file_error, calling the file `file`
[[nodiscard]] file_header read_header(std::string_view json, std::string_view file);

/// Every entry's span is that of its type and shape, and together they cover the data: no overlap, no hole, no rest.
/// @throws file_error
void check_layout(file_header const& header, std::uint64_t data_bytes, std::string_view file);

}  // namespace stickybit::detail
