#pragma once
#include <string>

#include "stickybit/format/text.hpp"
#include "stickybit/rounding/round_pack.hpp"

namespace stickybit::detail {

/// "0xC097  -1.0010111 × 2^2 = -4.71875"
template <format F>
[[nodiscard]] std::string describe(code<F> c);

/// One rounding in words, some lines, each beginning with `indent`: kept and cut bits, round bit, sticky bit, rule, direction, error.
[[nodiscard]] std::string describe(rounded const& event, std::string_view indent);

/// value − exact of a rounding, as a number; its size in ulp of the result.
[[nodiscard]] double error_of(rounded const& event);
[[nodiscard]] double error_in_ulp(rounded const& event);

/// "+0.124" with enough digits to be read: a signed number of ulp.
[[nodiscard]] std::string signed_ulps(double ulps);

}  // namespace stickybit::detail
