#pragma once
#include <optional>
#include <string_view>

#include "stickybit/tensor_file/dtype.hpp"

namespace stickybit::detail {

/// An element type that a safetensors file can name.
struct stored_type {
  std::string_view name;
  unsigned width_bits = 0;
  /// Nothing where tensors of this type are left unread.
  std::optional<dtype> readable;
};

/// Nothing where the format knows no such type.
[[nodiscard]] std::optional<stored_type> find_stored_type(std::string_view name) noexcept;

}  // namespace stickybit::detail
