#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace stickybit::detail {

/// Bytes that can be read anywhere: a file, or memory.
struct byte_source {
  std::uint64_t size = 0;
  /// Fills `into` with the bytes from `offset` on, which all lie below size, or throws file_error.
  std::function<void(std::uint64_t offset, std::span<std::byte> into)> read;
};

}  // namespace stickybit::detail
