#include "stickybit/tensor_file/tensor.hpp"

#include <fmt/format.h>

namespace stickybit {

std::int64_t tensor::element_count() const {
  const auto count = stickybit::element_count(shape);
  if (!count) throw std::invalid_argument(fmt::format("expected sizes >= 0 with a product below 2^63, found {}", shape_text(shape)));
  return *count;
}

namespace detail {

void check_elements(tensor const& t, bool element_fits, std::size_t element_bytes) {
  if (!element_fits)
    throw std::invalid_argument(
        fmt::format("expected elements of type {}, found another type of {} bytes", name_of(t.type), element_bytes));
  if (t.bytes.size() % element_bytes != 0)
    throw std::invalid_argument(
        fmt::format("expected a multiple of {} bytes for {}, found {}", element_bytes, name_of(t.type), t.bytes.size()));
}

void check_count(tensor const& t, std::size_t found) {
  const std::int64_t count = t.element_count();
  if (found != static_cast<std::uint64_t>(count))
    throw std::invalid_argument(fmt::format("expected {} elements for shape {}, found {}", count, shape_text(t.shape), found));
}

}  // namespace detail

}  // namespace stickybit
