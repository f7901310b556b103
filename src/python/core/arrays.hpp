#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "stickybit/block_fma/code_array.hpp"
#include "stickybit/format/code.hpp"
#include "stickybit/tensor_file/tensor.hpp"

// Codes in and out of Python: always as contiguous NumPy arrays of unsigned integers. Which dtype, shape or device a caller may give is settled in
// stickybit/_arrays.py, where messages name the argument.

namespace stickybit::python {

namespace nb = nanobind;

template <class T>
using array_of = nb::ndarray<T const, nb::c_contig, nb::device::cpu>;
using any_array = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

template <class T>
std::span<T const> span_of(array_of<T> const& a) {
  return {a.data(), a.size()};
}

/// A code is a standard-layout class whose one member is its bits.
template <class Code, class T>
std::vector<Code> codes_of(array_of<T> const& a) {
  static_assert(sizeof(Code) == sizeof(T));
  std::vector<Code> codes(a.size());
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = Code::from_bits(a.data()[i]);
  return codes;
}

inline code_array codes_of(any_array const& a) {
  switch (a.itemsize()) {
    case 1: return {static_cast<std::uint8_t const*>(a.data()), a.size()};
    case 2: return {static_cast<std::uint16_t const*>(a.data()), a.size()};
    case 4: return {static_cast<std::uint32_t const*>(a.data()), a.size()};
    default: return {static_cast<std::uint64_t const*>(a.data()), a.size()};
  }
}

/// A NumPy array that owns the vector.
template <class T, class Element>
nb::object numpy_of(std::vector<Element>&& elements, std::vector<std::size_t> const& shape) {
  static_assert(sizeof(T) == sizeof(Element) && std::is_trivially_copyable_v<Element>);
  auto* kept = new std::vector<Element>(std::move(elements));
  nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<Element>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T>(reinterpret_cast<T*>(kept->data()), shape.size(), shape.data(), owner));
}
template <class T, class Element>
nb::object numpy_of(std::vector<Element>&& elements) {
  const std::size_t size = elements.size();
  return numpy_of<T>(std::move(elements), std::vector<std::size_t>{size});
}

inline std::vector<std::size_t> sizes_of(std::vector<std::int64_t> const& shape) { return {shape.begin(), shape.end()}; }

template <class Array>
std::vector<std::size_t> shape_of(Array const& a) {
  std::vector<std::size_t> shape(a.ndim());
  for (std::size_t i = 0; i < shape.size(); ++i) shape[i] = a.shape(i);
  return shape;
}

}  // namespace stickybit::python
