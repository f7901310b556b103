#pragma once
#include <string>

#include "stickybit/exact/double_double.hpp"
#include "stickybit/format/code.hpp"
#include "stickybit/reports/report.hpp"

// How a report's example becomes an account: each result beside the exact value.

namespace stickybit::detail {

/// Fifteen digits.
[[nodiscard]] std::string text_of(double_double exact);
[[nodiscard]] std::string text_of(double exact);

/// A code of BF16, FP16, TF32 or FP32 beside the exact value.
/// An exact value within 2^-70 of an FP32 number, relative, is taken for that number: double-double sums end so.
template <format F>
[[nodiscard]] report_result judged(std::string who, code<F> c, double_double exact);

/// A code whose worth cannot be told by its distance: NaN, infinities, conventions.
template <format F>
[[nodiscard]] report_result stated(std::string who, code<F> c, accuracy a);

/// A number that is no code; close when it is within `tolerance` of the exact one.
[[nodiscard]] report_result measured(std::string who, double value, double exact, double tolerance, std::string_view unit = {});

}  // namespace stickybit::detail
