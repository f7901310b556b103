#pragma once
#include <concepts>
#include <cstdint>
#include <type_traits>

#include "stickybit/format/bit_width.hpp"
#include "stickybit/format/code.hpp"
#include "stickybit/rounding/flags.hpp"
#include "stickybit/rounding/rounding.hpp"
#include "stickybit/rounding/stochastic.hpp"
#include "stickybit/trace/sink.hpp"

namespace stickybit {

/// Subnormal results: kept, or replaced by zero of the same sign (`.ftz`).
enum class subnormals : std::uint8_t { kept, flushed };

/// A result beyond the largest finite number: as IEEE 754 has it for the mode (toward_zero stops at the largest finite
/// number), or infinity in every mode, as tensor cores have it, or the largest finite number in every mode (`.satfinite`).
/// A format without infinity has NaN in its place, and E2M1, without NaN, its largest number.
/// @source OCP 8-bit Floating Point Specification 1.0 §5.2, table 3; OCP Microscaling Formats Specification 1.0 §5.3.3
enum class overflow : std::uint8_t { by_mode, to_infinity, saturate };

struct rounding_rule {
  rounding mode = rounding::nearest_even;
  subnormals subnormal = subnormals::kept;
  overflow beyond = overflow::by_mode;
  random_word random = {};  ///< of rounding::stochastic
};

/// Event: the one rounding of an operation.
struct rounded {
  format target;
  rounding_rule rule;
  bool negative;
  int exponent;               ///< the exact value is ± significand · 2^exponent (its lowest bit may stand for all lower ones)
  std::uint64_t significand;
  int drop;                   ///< low bits of significand cut off; ≤ 0 means the value fits
  tail cut;
  bool lsb;                   ///< last kept bit, before rounding
  bool grew;                  ///< the magnitude was rounded up
  bool flushed;               ///< a subnormal result became zero
  std::uint32_t bits;         ///< the packed code
  flags raised;
};

/// What stands for infinity in F: infinity, else NaN, else the largest number; that one always where the rule saturates.
template <format F>
[[nodiscard]] constexpr code<F> infinite_result(overflow beyond, bool negative) noexcept {
  if (beyond != overflow::saturate) {
    if constexpr (traits_of(F).has_infinity()) return code<F>::infinity(negative);
    else if constexpr (traits_of(F).has_nan()) return code<F>::nan();
  }
  return code<F>::largest(negative);
}

/// NaN; in E2M1, which has none, the largest number.  @source CUDA 13.0 cuda_fp4.hpp, __nv_cvt_double_to_fp4
template <format F>
[[nodiscard]] constexpr code<F> nan_result() noexcept {
  if constexpr (traits_of(F).has_nan()) return code<F>::nan();
  else return code<F>::largest();
}

namespace detail {

template <format F>
constexpr code<F> overflowed(rounding_rule rule, bool negative) noexcept {
  const bool inside = rule.beyond == overflow::by_mode && !overflows_to_infinity(rule.mode, negative);
  return inside ? code<F>::largest(negative) : infinite_result<F>(rule.beyond, negative);
}

/// round(significand / 2^drop), any drop, and what led to it.
struct cut_outcome {
  std::uint64_t result;
  tail cut;
  bool lsb;
  bool grew;
};
constexpr cut_outcome cut_off(rounding_rule rule, bool negative, std::uint64_t significand, int drop) noexcept {
  if (drop <= 0) return {significand << -drop, tail::zero, false, false};
  const tail cut = tail_of(significand, drop);
  const std::uint64_t kept = drop < 64 ? significand >> drop : 0;
  const bool lsb = (kept & 1) != 0;
  const bool grew = rule.mode == rounding::stochastic ? carries_out(significand, drop, rule.random) : rounds_up(rule.mode, cut, lsb, negative);
  return {kept + grew, cut, lsb, grew};
}

/// Is the value, rounded to p bits with an exponent of any size, below the smallest normal?  top: exponent of its leading bit
template <format F>
constexpr bool is_tiny(rounding_rule rule, bool negative, int exponent, std::uint64_t significand, int top) noexcept {
  constexpr format_traits t = traits_of(F);
  if (top != t.e_min() - 1) return top < t.e_min();
  return (cut_off(rule, negative, significand, top - t.fraction_bits() - exponent).result >> t.precision()) == 0;
}

}  // namespace detail

/// The one exit of every rounded result: ± significand · 2^exponent, rounded once to F and packed.
/// Significand 0 gives the zero of that sign (+0 where F has only one). A caller with more than 64 bits sets the lowest bit when
/// anything below it is not 0; it must leave at least two bits below F's precision, for stochastic rounding as many as are random.
/// Flushing is decided on the value rounded to p bits with an unbounded exponent, not on the IEEE result.
/// E8M0 has neither zero nor sign: everything from 0 to 2^-127 is 2^-127 (underflow, inexact), what is below 0 is NaN (invalid).
/// @source IEEE 754-2019 §4.3, §7.4; flushing: measured on an H200 (2^-126·(1 − 2^-46) by MUL.FTZ and FFMA.FTZ gives 00800000, 2^-126·(1 − 2^-24) gives 0);
///   E8M0: 0 as CUDA 13.0 cuda_fp8.hpp (which drops a sign), below 0 as ml_dtypes 0.6.0 (where 0 is NaN too); OCP leaves both open
template <format F, class Sink = null_sink>
constexpr code<F> round_pack(rounding_rule rule, bool negative, int exponent, std::uint64_t significand, Sink&& sink = {}) {
  constexpr format_traits t = traits_of(F);
  rounded event{F, rule, negative, exponent, significand, 0, tail::zero, false, false, false, 0, {}};
  const auto finish = [&](code<F> result) {
    event.bits = result.to_bits();
    sink(event);
    return result;
  };
  const auto cut_at = [&](int quantum_exponent) {  // round to a multiple of 2^quantum_exponent
    event.drop = quantum_exponent - exponent;
    const detail::cut_outcome c = detail::cut_off(rule, negative, significand, event.drop);
    event.cut = c.cut;
    event.lsb = c.lsb;
    event.grew = c.grew;
    event.raised.inexact = c.cut != tail::zero;
    return c.result;
  };
  const auto overflowed = [&] {
    event.raised = {.inexact = true, .overflow = true};
    return finish(detail::overflowed<F>(rule, negative));
  };

  const int top = exponent + bit_width_of(significand) - 1;  // exponent of the leading bit
  if constexpr (!t.has_zero) {
    if (negative && significand != 0) {
      event.raised.invalid = true;
      return finish(code<F>::nan());
    }
    if (significand == 0 || top < t.e_min()) {
      event.raised = {.inexact = true, .underflow = true};
      return finish(code<F>::from_magnitude(0));
    }
  } else {
    if (significand == 0) return finish(code<F>::zero(negative));
    if (top < t.e_min()) {
      if (rule.subnormal == subnormals::flushed) {
        (void)cut_at(top - t.fraction_bits());
        event.flushed = detail::is_tiny<F>(rule, negative, exponent, significand, top);
        if (event.flushed) event.raised = {.inexact = true, .underflow = true};
        return finish(event.flushed ? code<F>::zero(negative) : code<F>::from_magnitude(std::uint32_t{1} << t.fraction_bits(), negative));
      }
      // The quantum is that of the smallest normal; a carry into the hidden bit makes that number by itself.
      const std::uint64_t kept = cut_at(t.e_min() - t.fraction_bits());
      if constexpr (!std::same_as<std::remove_cvref_t<Sink>, null_sink>)
        event.raised.underflow = event.raised.inexact && detail::is_tiny<F>(rule, negative, exponent, significand, top);
      return finish(code<F>::from_magnitude(std::uint32_t(kept), negative));
    }
  }
  if (top > t.e_max()) return overflowed();
  const std::uint64_t kept = cut_at(top - t.fraction_bits());
  // Adding kept with its hidden bit to the biased exponent less one lets a carry out of the fraction raise the exponent.
  const std::uint64_t packed = (std::uint64_t(top + t.bias() - 1) << t.fraction_bits()) + kept;
  return packed > t.largest_magnitude() ? overflowed() : finish(code<F>::from_magnitude(std::uint32_t(packed), negative));
}

}  // namespace stickybit
