#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "header.hpp"
#include "printable.hpp"
#include "stickybit/tensor_file/file_error.hpp"
#include "stickybit/tensor_file/shape.hpp"

namespace stickybit::detail {

namespace {

std::string type_and_shape(header_entry const& e) { return fmt::format("{} {}", e.type.name, printable(shape_text(e.shape), 80)); }

/// Bytes of the entry's data, by its type and shape.
std::uint64_t data_bytes_of(header_entry const& e, std::string_view file) {
  const auto count = element_count(e.shape);
  if (!count || *count > std::numeric_limits<std::int64_t>::max() / e.type.width_bits)
    throw file_error(file, e.name, "a size below 2^63 bits", type_and_shape(e));
  const std::uint64_t bits = static_cast<std::uint64_t>(*count) * e.type.width_bits;
  if (bits % 8 != 0) throw file_error(file, e.name, "whole bytes", fmt::format("{} bits for {}", bits, type_and_shape(e)));
  return bits / 8;
}

void check_span(header_entry const& e, std::uint64_t data_bytes, std::string_view file) {
  const auto offsets = [&] { return fmt::format("[{}, {}]", e.begin, e.end); };
  if (e.begin > e.end) throw file_error(file, e.name, "data_offsets that do not decrease", offsets());
  if (e.end > data_bytes)
    throw file_error(file, e.name, fmt::format("data_offsets within the {} bytes of data", data_bytes), offsets());
  const std::uint64_t bytes = data_bytes_of(e, file);
  if (e.end - e.begin != bytes)
    throw file_error(file, e.name, fmt::format("data_offsets that span {} bytes for {}", bytes, type_and_shape(e)),
                     fmt::format("{}: {} bytes", offsets(), e.end - e.begin));
}

}  // namespace

void check_layout(file_header const& header, std::uint64_t data_bytes, std::string_view file) {
  std::vector<header_entry const*> in_place;
  in_place.reserve(header.entries.size());
  for (auto const& e : header.entries) {
    check_span(e, data_bytes, file);
    in_place.push_back(&e);
  }
  // An empty tensor goes before the one that begins where it stands.
  std::ranges::stable_sort(in_place, {}, [](header_entry const* e) { return std::tuple(e->begin, e->end); });
  std::uint64_t covered = 0;
  std::string_view last;
  for (auto const* e : in_place) {
    if (e->begin != covered)
      throw file_error(file, e->name,
                       fmt::format("its data at {}, {}", covered,
                                   last.empty() ? "the beginning" : fmt::format("the end of tensor '{}'", printable(last, 60))),
                       fmt::format("it at {}: {}", e->begin, e->begin < covered ? "they overlap" : "a hole"));
    covered = e->end;
    last = e->name;
  }
  if (covered != data_bytes)
    throw file_error(file, fmt::format("{} bytes of data, as the header says", covered), fmt::format("{}", data_bytes));
}

}  // namespace stickybit::detail
