#include "stored_type.hpp"

#include <array>
#include <utility>

namespace stickybit::detail {

namespace {

/// The types of the format that are no dtype here, with their widths in bits.
/// @source huggingface/safetensors, enum Dtype of safetensors/src/tensor.rs: 000a16f up to F64, later versions for the rest
constexpr std::array<std::pair<std::string_view, unsigned>, 17> unreadable{{
    {"BOOL", 8},    {"U8", 8},      {"I8", 8},       {"U16", 16},          {"I16", 16},         {"U32", 32},
    {"I32", 32},    {"U64", 64},    {"I64", 64},     {"F64", 64},          {"C64", 64},         {"F4", 4},
    {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F8_E8M0", 8},  {"F8_E4M3FNUZ", 8},   {"F8_E5M2FNUZ", 8},
}};

}  // namespace

std::optional<stored_type> find_stored_type(std::string_view name) noexcept {
  for (const dtype type : all_dtypes)
    if (name == name_of(type)) return stored_type{name_of(type), static_cast<unsigned>(8 * size_bytes(type)), type};
  for (auto const& [known, width_bits] : unreadable)
    if (name == known) return stored_type{known, width_bits, std::nullopt};
  return std::nullopt;
}

}  // namespace stickybit::detail
