#include "stickybit/tensor_file/tensor_file.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "header.hpp"
#include "printable.hpp"

namespace stickybit {

namespace {

bool matches(std::span<std::int64_t const> shape, std::span<std::int64_t const> pattern) {
  return std::ranges::equal(shape, pattern, [](std::int64_t size, std::int64_t wanted) { return wanted == any_size || size == wanted; });
}

std::string type_and(std::string_view type_name, std::string_view shape) {
  return fmt::format("{} {}", type_name, detail::printable(shape, 120));
}

std::string type_and_shape(tensor const& t) { return type_and(name_of(t.type), shape_text(t.shape)); }

}  // namespace

void tensor_file::add(std::string name, tensor value) {
  if (name.empty()) throw file_error(name_, "a tensor name that is not empty", "''");
  if (name == detail::metadata_key) throw file_error(name_, name, "another name for a tensor", "the key of the metadata");
  if (detail::find_invalid_utf8(name) != std::string::npos) throw file_error(name_, name, "a name in UTF-8", "other bytes");
  if (index_.contains(name)) throw file_error(name_, name, "a new name", "it taken");
  const auto count = element_count(value.shape);
  if (!count) throw file_error(name_, name, "sizes >= 0 with a product below 2^63", shape_text(value.shape));
  // Compared in elements: the product with an element's size could overflow.
  const std::size_t size = size_bytes(value.type);
  if (value.bytes.size() % size != 0 || value.bytes.size() / size != static_cast<std::uint64_t>(*count))
    throw file_error(name_, name, fmt::format("{} elements of {} bytes for {}", *count, size, type_and_shape(value)),
                     fmt::format("{} bytes", value.bytes.size()));
  index_.emplace(name, tensors_.size());
  tensors_.push_back({std::move(name), std::move(value)});
}

tensor const* tensor_file::find(std::string_view name) const noexcept {
  const auto found = index_.find(name);
  return found == index_.end() || found->second == left_unread ? nullptr : &tensors_[found->second].value;
}

tensor const& tensor_file::require(std::string_view name, dtype type) const {
  tensor const& t = require_present(name, name_of(type));
  if (t.type != type) throw file_error(name_, name, name_of(type), type_and_shape(t));
  return t;
}

tensor const& tensor_file::require(std::string_view name, dtype type, std::vector<std::int64_t> const& shape) const {
  const std::string expected = type_and(name_of(type), shape_pattern_text(shape));
  tensor const& t = require_present(name, expected);
  if (t.type != type || !matches(t.shape, shape)) throw file_error(name_, name, expected, type_and_shape(t));
  return t;
}

tensor const& tensor_file::require_present(std::string_view name, std::string_view expected) const {
  if (tensor const* t = find(name)) return *t;
  for (auto const& u : unread_)
    if (u.name == name) throw file_error(name_, name, expected, type_and(u.type_name, shape_text(u.shape)));
  std::string held;
  for (auto const& [other, value] : tensors_) held += (held.empty() ? "" : ", ") + detail::printable(other, 40);
  throw file_error(name_, name, expected, held.empty() ? "a file without tensors" : "only " + held);
}

}  // namespace stickybit
