#pragma once
#include <cstring>
#include <span>
#include <vector>

#include "unit_cases.hpp"

namespace stickybit::gpu {

/// FP32 to FP16 where nothing is lost, the inverse of widen_f16.  @pre wide = widen_f16(some code)
[[nodiscard]] constexpr std::uint64_t narrow_to_f16(std::uint64_t wide) noexcept {
  constexpr case_format f16 = f16_format, f32 = f32_format;  // for nvcc, as in widen_f16()
  const bool negative = f32.is_negative(wide);
  if (!f32.is_finite(wide)) return f16.code(negative, std::uint64_t{0x1f} << 10 | (wide >> 13 & 0x3ff));
  if (f32.is_zero(wide)) return f16.code(negative, 0);
  return f16.number(negative, f32.exponent_of(wide), wide >> 13);
}

/// Cases of one size as the GPU reads them: rows of operands without gaps, little-endian; c and the results in 64 bits each, as
/// codes of the unit's own output format.
struct packed_cases {
  std::size_t count = 0;
  int size = 0;       ///< products of a case
  int row_bytes = 0;  ///< of one case's a, and of its b
  bool half_output = false;
  std::vector<std::byte> a, b;
  std::vector<std::uint64_t> c;

  packed_cases() = default;
  packed_cases(case_shape const& shape, std::size_t count, int size)
      : count(count), size(size), row_bytes(size * shape.a.storage_bytes()), half_output(shape.output == f16_format),
        a(count * std::size_t(row_bytes)), b(a.size()), c(count) {}

  /// @pre x has `size` products of the shape's formats, which are equally wide
  void put(std::size_t i, unit_case const& x) noexcept {
    const auto width = std::size_t(row_bytes / size);
    for (std::size_t k = 0; k < std::size_t(size); ++k) {
      std::memcpy(a.data() + i * std::size_t(row_bytes) + k * width, &x.a[k], width);
      std::memcpy(b.data() + i * std::size_t(row_bytes) + k * width, &x.b[k], width);
    }
    c[i] = half_output ? narrow_to_f16(x.c) : x.c;
  }
  [[nodiscard]] unit_case at(std::size_t i) const noexcept {
    const auto width = std::size_t(row_bytes / size);
    unit_case x;
    x.size = size;
    for (std::size_t k = 0; k < std::size_t(size); ++k) {
      std::memcpy(&x.a[k], a.data() + i * std::size_t(row_bytes) + k * width, width);
      std::memcpy(&x.b[k], b.data() + i * std::size_t(row_bytes) + k * width, width);
    }
    x.c = half_output ? widen_f16(c[i]) : c[i];
    return x;
  }
  /// A hardware result as evaluate() gives it: an FP32 code also of FP16. FP16's one NaN, 7fff, becomes FP32's, 7fffffff.
  [[nodiscard]] std::uint64_t result_code(std::uint64_t raw) const noexcept {
    return !half_output ? raw : raw == 0x7fff ? 0x7fffffff : widen_f16(raw);
  }
};

}  // namespace stickybit::gpu
