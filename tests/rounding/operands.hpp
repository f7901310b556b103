#pragma once
#include <array>
#include <cstdint>

#include "support/generators.hpp"

// Triples of FP32 operands for a·b + c, a + c, a·b: bands of exponent differences × significand patterns.
namespace testing {

struct operands {
  std::uint32_t a, b, c;
};

namespace detail {

inline operands anywhere(random_bits& next) { return {f32_anywhere(next), f32_anywhere(next), f32_anywhere(next)}; }

/// c within 55 binades of a and of a·b.
inline operands every_difference(random_bits& next) {
  const int e = next.between(-60, 60), f = next.between(-50, 50);
  return {f32_at(next, e), f32_at(next, f), f32_at(next, (next.one_in(2) ? e : e + f) + next.between(-55, 55))};
}
/// c next to −a, or next to −a·b as FP32 and host double see it.
inline operands cancelling(random_bits& next) {
  const int e = next.between(-60, 60);
  const std::uint32_t a = f32_at(next, e), nearby = next.below(5) - 2;
  if (next.one_in(2)) return {a, 0x3f800000 + nearby, (a ^ 0x80000000) + next.below(5) - 2};
  const std::uint32_t b = f32_at(next, next.between(-60, 60));
  // The leading bits of the product of the significands, and its exponent.
  const std::uint64_t product = std::uint64_t{(a & 0x7fffff) | 0x800000} * ((b & 0x7fffff) | 0x800000);
  const int carry = int(product >> 47), exponent = int(a >> 23 & 0xff) + int(b >> 23 & 0xff) - 127 + carry;
  if (exponent < 1 || exponent > 254) return {a, b, a ^ 0x80000000};
  const auto fraction = std::uint32_t(product >> (23 + carry)) & 0x7fffff;
  return {a, b, ((a ^ b ^ 0x80000000) & 0x80000000) + (std::uint32_t(exponent) << 23 | fraction) + nearby};
}
/// Products near the smallest normal, where flushing decides; c zero, tiny or subnormal.
inline operands at_the_smallest_normal(random_bits& next) {
  const int e = next.between(-100, -26);
  const std::uint32_t a = f32_at(next, e), b = f32_at(next, next.between(-128, -125) - e);
  switch (next.below(4)) {
    case 0: return {a, b, 0};
    case 1: return {a, b, f32_at(next, next.between(-151, -125))};
    case 2: return {f32_at(next, next.between(-151, -124)), 0x3f800000, f32_at(next, next.between(-151, -124))};
    default: return {0x3f800000 - next.below(4), 0x00800000 + next.below(4), next.one_in(2) ? 0x80000000u : f32_at(next, next.between(-151, -140))};
  }
}
/// Products of subnormals, far below anything FP32 holds, beside numbers it does.
inline operands far_below(random_bits& next) {
  return {f32_at(next, next.between(-150, -120)), f32_at(next, next.between(-150, -90)), f32_at(next, next.one_in(2) ? next.between(-150, -120) : next.between(-30, 30))};
}
inline operands near_overflow(random_bits& next) {
  const int e = next.between(1, 127);
  return {f32_at(next, e), f32_at(next, next.between(125, 128) - e), f32_at(next, next.between(100, 127))};
}
inline operands all_bit_patterns(random_bits& next) { return {std::uint32_t(next()), std::uint32_t(next()), std::uint32_t(next())}; }

}  // namespace detail

struct operand_generator {
  char const* name;
  operands (*make)(random_bits&);
};
inline constexpr std::array operand_generators{
    operand_generator{"anywhere", detail::anywhere},
    operand_generator{"every exponent difference", detail::every_difference},
    operand_generator{"cancelling", detail::cancelling},
    operand_generator{"at the smallest normal", detail::at_the_smallest_normal},
    operand_generator{"far below", detail::far_below},
    operand_generator{"near overflow", detail::near_overflow},
    operand_generator{"all bit patterns", detail::all_bit_patterns},
};

}  // namespace testing
