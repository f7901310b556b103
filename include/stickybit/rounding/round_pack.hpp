#pragma once
#include <cstdint>

#include "stickybit/format/bit_width.hpp"
#include "stickybit/format/code.hpp"
#include "stickybit/rounding/rounding.hpp"
#include "stickybit/trace/sink.hpp"

namespace stickybit {

/// Subnormal results: kept, or replaced by zero of the same sign (`.ftz`).
enum class subnormals : std::uint8_t { kept, flushed };

/// A result beyond the largest finite number: as IEEE 754 has it for the mode (toward_zero stops at the largest finite
/// number), or infinity in every mode, as tensor cores have it.
enum class overflow : std::uint8_t { by_mode, to_infinity };

struct rounding_rule {
  rounding mode = rounding::nearest_even;
  subnormals subnormal = subnormals::kept;
  overflow beyond = overflow::by_mode;
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
};

namespace detail {
template <format F>
constexpr code<F> overflowed(rounding_rule rule, bool negative) noexcept {
  const bool away = rule.beyond == overflow::to_infinity || rounds_up(rule.mode, tail::above_half, true, negative);
  const auto infinity = code<F>::infinity(negative);
  return away ? infinity : code<F>::from_bits(typename code<F>::bits_type(infinity.to_bits() - 1));
}
}  // namespace detail

/// The one exit of every rounded result: ± significand · 2^exponent, rounded once to F and packed.
/// Significand 0 gives the zero of that sign. A caller with more than 64 bits sets the lowest bit when anything below it is not 0;
/// it must leave at least two bits below F's precision.
/// Flushing is decided on the value rounded to p bits with an unbounded exponent, not on the IEEE result.
/// @source IEEE 754-2019 §4.3, §7.4; flushing: measured on an H200 (2^-126·(1 − 2^-46) by MUL.FTZ and FFMA.FTZ gives 00800000, 2^-126·(1 − 2^-24) gives 0)
template <format F, class Sink = null_sink>
constexpr code<F> round_pack(rounding_rule rule, bool negative, int exponent, std::uint64_t significand, Sink&& sink = {}) {
  using bits_type = typename code<F>::bits_type;
  constexpr format_traits t = traits_of(F);
  rounded event{F, rule, negative, exponent, significand, 0, tail::zero, false, false, false, 0};
  const auto finish = [&](code<F> result) {
    event.bits = result.to_bits();
    sink(event);
    return result;
  };
  if (significand == 0) return finish(code<F>::zero(negative));

  const int top = exponent + bit_width_of(significand) - 1;  // exponent of the leading bit
  const auto cut_at = [&](int quantum_exponent) {              // round to a multiple of 2^quantum_exponent
    event.drop = quantum_exponent - exponent;
    if (event.drop <= 0) return significand << -event.drop;
    event.cut = tail_of(significand, event.drop);
    const std::uint64_t kept = event.drop < 64 ? significand >> event.drop : 0;
    event.lsb = (kept & 1) != 0;
    event.grew = rounds_up(rule.mode, event.cut, event.lsb, negative);
    return kept + event.grew;
  };

  if (top < t.e_min()) {
    if (rule.subnormal == subnormals::flushed) {
      const std::uint64_t unbounded = cut_at(top - t.fraction_bits());
      event.flushed = !(top == t.e_min() - 1 && (unbounded >> t.precision()) != 0);
      return finish(event.flushed ? code<F>::zero(negative)
                                  : code<F>::from_bits(bits_type((bits_type{1} << t.fraction_bits()) | code<F>::zero(negative).to_bits())));
    }
    // The quantum is that of the smallest normal; a carry into the hidden bit makes that number by itself.
    const std::uint64_t kept = cut_at(t.e_min() - t.fraction_bits());
    return finish(code<F>::from_bits(bits_type(kept | code<F>::zero(negative).to_bits())));
  }
  if (top > t.e_max()) return finish(detail::overflowed<F>(rule, negative));
  const std::uint64_t kept = cut_at(top - t.fraction_bits());
  // Adding kept with its hidden bit to the biased exponent less one lets a carry out of the fraction raise the exponent.
  const std::uint64_t packed = (std::uint64_t(top + t.bias() - 1) << t.fraction_bits()) + kept;
  if (packed >= code<F>::exponent_mask) return finish(detail::overflowed<F>(rule, negative));
  return finish(code<F>::from_bits(bits_type(packed | code<F>::zero(negative).to_bits())));
}

}  // namespace stickybit
