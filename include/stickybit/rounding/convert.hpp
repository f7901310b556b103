#pragma once
#include <cstdint>

#include "stickybit/format/decode.hpp"
#include "stickybit/rounding/round_pack.hpp"

namespace stickybit {

/// Any format to any other, one rounding. Infinity stays; where the rule saturates, or the target has none, infinite_result() says
/// (overflow, inexact). NaN becomes nan_result(). Both are invalid in E8M0 below zero, NaN in E2M1. Subnormal operands are numbers
/// like any other (cvt.rn.bf16x2.f32 keeps them: measured on an H200); subnormal results are what rule.subnormal says.
/// @checked  FP32 to each narrower format in every deterministic mode, all 2^32 codes, against exact thresholds
template <format To, format From, class Sink = null_sink>
[[nodiscard]] constexpr code<To> convert(code<From> c, rounding_rule rule, Sink&& sink = {}) {
  constexpr format_traits to = traits_of(To);
  const decoded d = decode(c);
  if (d.kind == number_class::nan) return detail::finish_special(nan_result<To>(), {.invalid = !to.has_nan()}, sink);
  if (d.kind == number_class::infinite) {
    if (!to.is_signed && d.negative) return detail::finish_special(nan_result<To>(), {.invalid = true}, sink);
    const auto result = infinite_result<To>(rule.beyond, d.negative);
    const bool lost = !result.is_infinite();
    return detail::finish_special(result, {.inexact = lost, .overflow = lost}, sink);
  }
  return round_pack<To>(rule, d.negative, d.e - traits_of(From).fraction_bits(), d.significand, sink);
}

template <format To, format From, class Sink = null_sink>
[[nodiscard]] constexpr code<To> convert(code<From> c, rounding mode = rounding::nearest_even, Sink&& sink = {}) {
  return convert<To>(c, rounding_rule{.mode = mode}, sink);
}

}  // namespace stickybit
