#pragma once
#include <string_view>

#include "stickybit/identify/validate.hpp"

namespace stickybit::detail {

[[nodiscard]] std::vector<verdict> validate_attention(tensor_file const& file, validate_options const& options);
[[nodiscard]] std::vector<verdict> validate_gemm(tensor_file const& file, validate_options const& options);
[[nodiscard]] std::vector<verdict> validate_inner_products(tensor_file const& file, validate_options const& options);

/// The verdict on a captured tensor; "captured" and "emulated" are the words in `first`.
[[nodiscard]] verdict judge(std::string name, tensor const& captured, tensor const& emulated, bool nan_bits);
[[nodiscard]] verdict skipped(std::string name, std::string reason);

}  // namespace stickybit::detail
