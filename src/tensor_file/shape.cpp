#include "stickybit/tensor_file/shape.hpp"

#include <limits>

namespace stickybit {

std::optional<std::int64_t> element_count(std::span<std::int64_t const> shape) noexcept {
  std::int64_t product = 1;
  bool empty = false;
  for (const std::int64_t size : shape) {
    if (size < 0) return std::nullopt;
    if (size == 0) {
      empty = true;
      continue;
    }
    if (product > std::numeric_limits<std::int64_t>::max() / size) return std::nullopt;
    product *= size;
  }
  return empty ? 0 : product;
}

namespace {

std::string list_text(std::span<std::int64_t const> sizes, bool is_pattern) {
  std::string text = "[";
  for (const std::int64_t size : sizes) {
    if (text.size() > 1) text += ", ";
    text += is_pattern && size == any_size ? "*" : std::to_string(size);
  }
  return text + "]";
}

}  // namespace

std::string shape_text(std::span<std::int64_t const> shape) { return list_text(shape, false); }
std::string shape_pattern_text(std::span<std::int64_t const> pattern) { return list_text(pattern, true); }

}  // namespace stickybit
