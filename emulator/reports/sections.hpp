#pragma once
#include <span>

#include "stickybit/reports/report.hpp"

namespace stickybit::detail {

/// The reports of one subject; each is one file here.
[[nodiscard]] std::span<public_report const> attention_output_reports() noexcept;
[[nodiscard]] std::span<public_report const> attention_weight_reports() noexcept;
[[nodiscard]] std::span<public_report const> gradient_reports() noexcept;
[[nodiscard]] std::span<public_report const> mask_reports() noexcept;
[[nodiscard]] std::span<public_report const> sum_reports() noexcept;
[[nodiscard]] std::span<public_report const> tensor_core_reports() noexcept;
[[nodiscard]] std::span<public_report const> conversion_reports() noexcept;
[[nodiscard]] std::span<public_report const> exponential_reports() noexcept;

}  // namespace stickybit::detail
