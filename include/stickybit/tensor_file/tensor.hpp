#pragma once
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "stickybit/format/code.hpp"
#include "stickybit/tensor_file/dtype.hpp"
#include "stickybit/tensor_file/shape.hpp"

namespace stickybit {

/// What the elements of a tensor can be taken as: the codes of its format, or unsigned integers of its width.
template <class Element>
concept tensor_element = std::same_as<Element, bf16_code> || std::same_as<Element, f32_code> ||
                         std::same_as<Element, std::uint8_t> || std::same_as<Element, std::uint16_t> ||
                         std::same_as<Element, std::uint32_t>;

template <tensor_element Element>
[[nodiscard]] constexpr bool is_element_of(dtype type) noexcept {
  if constexpr (std::same_as<Element, bf16_code>) return type == dtype::bf16;
  if constexpr (std::same_as<Element, f32_code>) return type == dtype::f32;
  return sizeof(Element) == size_bytes(type);
}

/// Elements in row-major order, the last dimension fastest, each little-endian as in a file.
/// A tensor that is in a tensor_file has size_bytes(type) bytes an element, and a shape that has an element_count.
struct tensor {
  dtype type = dtype::f32;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;

  [[nodiscard]] std::size_t rank() const noexcept { return shape.size(); }

  /// @throws std::invalid_argument where the shape has none.
  [[nodiscard]] std::int64_t element_count() const;

  /// The elements, copied out of the bytes.
  /// @throws std::invalid_argument where an Element cannot hold this type, or the bytes are not a whole number of elements.
  template <tensor_element Element>
  [[nodiscard]] std::vector<Element> elements() const;

  friend bool operator==(tensor const&, tensor const&) = default;
};

/// The tensor of these elements.
/// @throws std::invalid_argument where an Element cannot hold `type`, or their number is not that of the shape.
template <tensor_element Element>
[[nodiscard]] tensor make_tensor(dtype type, std::vector<std::int64_t> shape, std::span<Element const> elements);

namespace detail {

/// @throws std::invalid_argument
void check_elements(tensor const& t, bool element_fits, std::size_t element_bytes);
void check_count(tensor const& t, std::size_t found);

// Elements and bytes are copied into each other whole.
static_assert(std::endian::native == std::endian::little, "tensors are little-endian, as safetensors files are");

}  // namespace detail

template <tensor_element Element>
std::vector<Element> tensor::elements() const {
  detail::check_elements(*this, is_element_of<Element>(type), sizeof(Element));
  std::vector<Element> copied(bytes.size() / sizeof(Element));
  if (!copied.empty()) std::memcpy(copied.data(), bytes.data(), bytes.size());
  return copied;
}

template <tensor_element Element>
tensor make_tensor(dtype type, std::vector<std::int64_t> shape, std::span<Element const> elements) {
  tensor made{type, std::move(shape), {}};
  detail::check_elements(made, is_element_of<Element>(type), sizeof(Element));
  detail::check_count(made, elements.size());
  const auto bytes = std::as_bytes(elements);
  made.bytes.assign(bytes.begin(), bytes.end());
  return made;
}

}  // namespace stickybit
