#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace stickybit {

/// The element types that a tensor can have here. Everything about one is its line in traits_of().
enum class dtype : std::uint8_t { bf16, f16, f32, f8_e4m3, f8_e5m2 };

inline constexpr std::array all_dtypes{dtype::bf16, dtype::f16, dtype::f32, dtype::f8_e4m3, dtype::f8_e5m2};

struct dtype_traits {
  /// As safetensors spells it.
  std::string_view name;
  std::size_t size_bytes;
};

[[nodiscard]] constexpr dtype_traits traits_of(dtype type) noexcept {
  switch (type) {
    case dtype::bf16: return {.name = "BF16", .size_bytes = 2};
    case dtype::f16: return {.name = "F16", .size_bytes = 2};
    case dtype::f32: return {.name = "F32", .size_bytes = 4};
    case dtype::f8_e4m3: return {.name = "F8_E4M3", .size_bytes = 1};
    case dtype::f8_e5m2: return {.name = "F8_E5M2", .size_bytes = 1};
  }
  return {};
}

[[nodiscard]] constexpr std::string_view name_of(dtype type) noexcept { return traits_of(type).name; }
[[nodiscard]] constexpr std::size_t size_bytes(dtype type) noexcept { return traits_of(type).size_bytes; }

}  // namespace stickybit
