#include "stickybit/bias/compare.hpp"

#include <fmt/format.h>

#include <bit>
#include <stdexcept>

#include "stickybit/format/text.hpp"
#include "stickybit/tensor_file/shape.hpp"

namespace stickybit {
namespace {

/// What comparing needs of an element type: every one is sign and magnitude, and its NaN are the largest magnitudes.
struct code_order {
  std::uint32_t sign_bit;
  std::uint32_t largest_number;  ///< magnitude; infinity where there is one

  [[nodiscard]] bool is_nan(std::uint32_t bits) const noexcept { return (bits & ~sign_bit) > largest_number; }
  [[nodiscard]] std::int64_t place(std::uint32_t bits) const noexcept {
    const std::int64_t magnitude = bits & ~sign_bit;
    return (bits & sign_bit) != 0 ? -magnitude : magnitude;
  }
};

code_order order_of(dtype type) {
  switch (type) {
    case dtype::bf16: return {0x8000, 0x7f80};
    case dtype::f16: return {0x8000, 0x7c00};
    case dtype::f32: return {0x80000000, 0x7f800000};
    case dtype::f8_e4m3: return {0x80, 0x7e};
    case dtype::f8_e5m2: return {0x80, 0x7c};
  }
  return {};
}

std::int64_t bucket_of(std::int64_t distance) {
  const auto magnitude = std::uint64_t(distance < 0 ? -distance : distance);
  const auto bucket = std::int64_t(magnitude <= 8 ? magnitude : std::bit_floor(magnitude));
  return distance < 0 ? -bucket : bucket;
}

template <class Element>
comparison compare_elements(tensor const& left, tensor const& right, code_order order, bool nan_bits) {
  const auto l = left.elements<Element>(), r = right.elements<Element>();
  comparison result;
  result.total = std::int64_t(l.size());
  for (std::size_t i = 0; i < l.size(); ++i) {
    if (l[i] == r[i]) continue;
    const bool left_nan = order.is_nan(l[i]), right_nan = order.is_nan(r[i]);
    if (left_nan && right_nan && !nan_bits) continue;
    ++result.mismatches;
    if (!result.first) result.first = {std::int64_t(i), l[i], r[i]};
    if (left_nan != right_nan) ++result.nan_against_number;
    if (left_nan || right_nan) continue;
    const std::int64_t distance = order.place(l[i]) - order.place(r[i]);
    ++result.ulp_histogram[bucket_of(distance)];
    result.left_larger += distance > 0;
    result.right_larger += distance < 0;
  }
  return result;
}

}  // namespace

comparison compare(tensor const& left, tensor const& right, bool nan_bits) {
  if (left.type != right.type || left.shape != right.shape)
    throw std::invalid_argument(fmt::format("cannot compare {} {} with {} {}: expected one type and shape", name_of(left.type), shape_text(left.shape),
                                            name_of(right.type), shape_text(right.shape)));
  const code_order order = order_of(left.type);
  switch (size_bytes(left.type)) {
    case 1: return compare_elements<std::uint8_t>(left, right, order, nan_bits);
    case 2: return compare_elements<std::uint16_t>(left, right, order, nan_bits);
    default: return compare_elements<std::uint32_t>(left, right, order, nan_bits);
  }
}

std::string position_text(std::vector<std::int64_t> const& shape, std::int64_t index) {
  std::vector<std::int64_t> position(shape.size());
  for (std::size_t i = shape.size(); i-- > 0;) {
    position[i] = index % shape[i];
    index /= shape[i];
  }
  return shape_text(position);
}

std::string code_text(dtype type, std::uint32_t bits) {
  if (type == dtype::bf16) {
    const auto c = bf16_code::from_bits(std::uint16_t(bits));
    return fmt::format("{} ({})", hex_code(c), decimal(c));
  }
  if (type == dtype::f32) {
    const auto c = f32_code::from_bits(bits);
    return fmt::format("{} ({})", hex_code(c), decimal(c));
  }
  return fmt::format("0x{:0{}X}", bits, size_bytes(type) * 2);
}

}  // namespace stickybit
