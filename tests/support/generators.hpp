#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

// Operands from exponent band × significand pattern, as raw codes. Each generator is a function of a seeded stream: the same
// seed gives the same cases on every host.

namespace testing {

/// SplitMix64.  @source Steele, Lea, Flood, OOPSLA 2014
class random_bits {
 public:
  explicit constexpr random_bits(std::uint64_t seed) noexcept : state_(seed) {}
  constexpr std::uint64_t operator()() noexcept {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  /// 0 … count − 1
  constexpr std::uint32_t below(std::uint32_t count) noexcept { return std::uint32_t(((*this)() >> 32) * count >> 32); }
  /// low … high, both included
  constexpr int between(int low, int high) noexcept { return low + int(below(std::uint32_t(high - low + 1))); }
  constexpr bool one_in(std::uint32_t count) noexcept { return below(count) == 0; }

 private:
  std::uint64_t state_;
};

/// Fractions that lie at the borders of rounding: all zeros, all ones, one bit, and next to them; else anything.
constexpr std::uint32_t fraction_pattern(random_bits& next, int width) noexcept {
  const std::uint32_t mask = (std::uint32_t{1} << width) - 1, anything = std::uint32_t(next()) & mask;
  switch (next.below(10)) {
    case 0: return 0;
    case 1: return mask;
    case 2: return next.below(4);
    case 3: return mask - next.below(4);
    case 4: return std::uint32_t{1} << next.below(std::uint32_t(width));
    case 5: return (std::uint32_t{1} << next.below(std::uint32_t(width))) - 1;
    case 6: return mask & ~((std::uint32_t{1} << next.below(std::uint32_t(width))) - 1);
    case 7: return (std::uint32_t{1} << (width - 1)) - 2 + next.below(4);
    default: return anything;
  }
}

/// The code ± 1.fraction × 2^e of a format with 8 exponent bits; subnormal below 2^-126, zero below the smallest, largest above 2^127.
constexpr std::uint32_t code_at(bool minus, int e, std::uint32_t fraction, int fraction_width) noexcept {
  const std::uint32_t hidden = std::uint32_t{1} << fraction_width, sign = minus ? hidden << 8 : 0;
  if (e < -126 - fraction_width) return sign;
  if (e < -126) return sign + ((hidden + fraction) >> (-126 - e));
  if (e > 127) return sign + 255 * hidden - 1;
  return sign + std::uint32_t(e + 127) * hidden + fraction;
}
constexpr std::uint16_t bf16_at(random_bits& next, int e) noexcept {
  const std::uint32_t fraction = fraction_pattern(next, 7);
  return std::uint16_t(code_at(next.one_in(2), e, fraction, 7));
}
constexpr std::uint32_t f32_at(random_bits& next, int e) noexcept {
  const std::uint32_t fraction = fraction_pattern(next, 23);
  return code_at(next.one_in(2), e, fraction, 23);
}

/// Any FP32 code, thick at the borders: subnormals, the smallest and largest exponents, those near 1, specials.
constexpr std::uint32_t f32_anywhere(random_bits& next) noexcept {
  constexpr std::array<std::uint32_t, 12> special{0,          0x80000000, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc12345,
                                                  0x7f800001, 0x7fffffff, 0x00000001, 0x007fffff, 0x00800000, 0x7f7fffff};
  switch (next.below(8)) {
    case 0: return f32_at(next, next.between(-150, -120));
    case 1: return f32_at(next, next.between(120, 127));
    case 2:
    case 3: return f32_at(next, next.between(-4, 4));
    case 4: return f32_at(next, next.between(-75, -55));  // squares near the smallest normal
    case 5: return special[next.below(12)] ^ (next.one_in(2) ? 0x80000000u : 0);
    case 6: return std::uint32_t(next());
    default: return f32_at(next, next.between(-150, 127));
  }
}

/// Operands of one block of 16 products.
struct block_case {
  std::array<std::uint16_t, 16> a, b;
  std::uint32_t c;
};

namespace detail {

/// Operands whose exponents add up to e (as far as BF16 reaches).
constexpr void product_at(random_bits& next, block_case& out, std::size_t k, int e) noexcept {
  const int lowest = std::max(-133, e - 127), highest = std::min(127, e + 133);
  const int middle = std::clamp(e / 2 + next.between(-6, 6), lowest, highest);
  out.a[k] = bf16_at(next, middle);
  out.b[k] = bf16_at(next, e - middle);
}
constexpr void products_at(random_bits& next, block_case& out, int lowest, int highest) noexcept {
  for (std::size_t k = 0; k < 16; ++k) product_at(next, out, k, next.between(lowest, highest));
}

constexpr void narrow(random_bits& next, block_case& out) noexcept {
  products_at(next, out, -4, 4);
  out.c = f32_at(next, next.between(-4, 6));
}
constexpr void wide(random_bits& next, block_case& out) noexcept {
  for (std::size_t k = 0; k < 16; ++k) {
    out.a[k] = bf16_at(next, next.between(-60, 60));
    out.b[k] = bf16_at(next, next.between(-60, 60));
  }
  out.c = f32_at(next, next.between(-120, 120));
}
constexpr void cancelling(random_bits& next, block_case& out) noexcept {
  const int e = next.between(-40, 40);
  products_at(next, out, e - 3, e + 3);
  for (std::size_t k = 0; k + 1 < 16; k += 2)
    if (!next.one_in(4)) {
      out.a[k + 1] = std::uint16_t(out.a[k] ^ 0x8000);
      out.b[k + 1] = std::uint16_t(out.b[k] + (next.one_in(3) ? next.below(3) : 0));
    }
  out.c = next.one_in(2) ? 0 : f32_at(next, e + next.between(-30, 3));
  if (next.one_in(2)) {
    std::swap(out.a[1], out.a[15]);
    std::swap(out.b[1], out.b[15]);
  }
}
constexpr void subnormal(random_bits& next, block_case& out) noexcept {
  for (std::size_t k = 0; k < 16; ++k) {
    out.a[k] = bf16_at(next, next.between(-134, -124));
    out.b[k] = bf16_at(next, next.between(-45, 6));
    if (next.one_in(2)) std::swap(out.a[k], out.b[k]);
  }
  out.c = f32_at(next, next.between(-150, -118));
}
constexpr void signed_zero(random_bits& next, block_case& out) noexcept {
  const int e = next.between(-170, 20);
  for (std::size_t k = 0; k < 16; ++k) {
    product_at(next, out, k, e + next.between(-12, 2));
    if (!next.one_in(4)) (next.one_in(2) ? out.a : out.b)[k] = next.one_in(2) ? 0x8000 : 0;
    if (next.one_in(2)) (next.one_in(2) ? out.a : out.b)[k] = next.one_in(2) ? 0x8000 : 0;
  }
  out.c = next.one_in(2) ? (next.one_in(2) ? 0x80000000 : 0) : f32_at(next, e + next.between(-12, 2));
}
constexpr void specials(random_bits& next, block_case& out) noexcept {
  constexpr std::array<std::uint16_t, 8> special{0x7f80, 0xff80, 0x7f80, 0x7fc0, 0xffc1, 0x7f81, 0, 0x8000};
  narrow(next, out);
  for (int i = next.between(0, 2); i >= 0; --i) (next.one_in(2) ? out.a : out.b)[next.below(16)] = special[next.below(8)];
  if (next.one_in(3)) out.c = std::uint32_t{special[next.below(8)]} << 16;
}
constexpr void all_bit_patterns(random_bits& next, block_case& out) noexcept {
  for (std::size_t k = 0; k < 16; ++k) {
    out.a[k] = std::uint16_t(next());
    out.b[k] = std::uint16_t(next());
  }
  out.c = std::uint32_t(next());
}
/// Sums of few units of 2^-149 with terms that the smallest alignment exponent keeps or drops.
constexpr void clamp_region(random_bits& next, block_case& out) noexcept {
  const int top = next.between(-165, -122);
  products_at(next, out, top - 12, top);
  out.c = next.one_in(3) ? 0 : f32_at(next, next.between(-150, -124));
  if (next.one_in(3)) return;
  const auto few = std::size_t(next.between(1, 4));
  for (std::size_t k = few; k < 16; ++k) out.a[k] = 0;
  if (next.one_in(2)) return;
  const bool minus = next.one_in(2);
  for (std::size_t k = 0; k < few; ++k) {
    out.a[k] = std::uint16_t(code_at(minus != (k == 0), -80, 0, 7));
    out.b[k] = k == 0 ? std::uint16_t(code_at(false, next.between(-149, -147) + 80, 0, 7))
                      : std::uint16_t(code_at(false, next.between(-163, -150) + 80, next.one_in(2) ? 0 : next.below(128), 7));
  }
  out.c = next.one_in(2) ? 0 : 0x80000000;
}
constexpr void c_at_every_offset(random_bits& next, block_case& out) noexcept {
  const int e = next.between(-60, 60);
  products_at(next, out, e - 3, e);
  out.c = f32_at(next, e + next.between(-45, 45));
}
constexpr void near_overflow(random_bits& next, block_case& out) noexcept {
  products_at(next, out, next.one_in(2) ? 100 : 123, next.one_in(3) ? 140 : 127);
  const bool one_sign = next.one_in(2);
  for (std::size_t k = 0; k < 16; ++k) {
    if (one_sign) {
      out.a[k] &= 0x7fff;
      out.b[k] &= 0x7fff;
    }
    if (next.one_in(3)) out.a[k] = 0;
  }
  out.c = f32_at(next, next.between(100, 127));
}
constexpr void carries(random_bits& next, block_case& out) noexcept {
  constexpr std::array<int, 8> below{0, 8, 16, 23, 24, 25, 26, 27};
  const int e = next.between(-20, 20);
  const bool minus = next.one_in(2), one_sign = next.one_in(2);
  for (std::size_t k = 0; k < 16; ++k) {
    const int step = below[next.below(8)];
    out.a[k] = std::uint16_t(code_at(one_sign ? minus : next.one_in(2), e - step, next.one_in(2) ? 127 : 0, 7));
    out.b[k] = std::uint16_t(code_at(false, 0, next.one_in(3) ? 127 : 0, 7));
  }
  out.c = code_at(minus, e + next.between(-1, 2), 0x7fffff - next.below(3), 23);
}
constexpr void at_the_quantum(random_bits& next, block_case& out) noexcept {
  const int e = next.between(-60, 60);
  for (std::size_t k = 0; k < 16; ++k) {
    product_at(next, out, k, next.one_in(3) ? e : e - next.between(22, 34));
    if (!next.one_in(4)) out.a[k] = 0;
  }
  out.c = next.one_in(2) ? 0 : f32_at(next, e - next.between(-2, 50));
}
/// The largest exponent at the ends of the range in which the fast form works by itself, 2^-90 and 2^120.
constexpr void ends_of_fast_range(random_bits& next, block_case& out) noexcept {
  const int e = next.one_in(2) ? next.between(-95, -85) : next.between(116, 122);
  products_at(next, out, e - 30, e - 1);
  product_at(next, out, next.below(16), e);
  out.c = next.one_in(4) ? 0 : f32_at(next, e + next.between(-28, 1));
}

}  // namespace detail

struct block_generator {
  char const* name;
  void (*fill)(random_bits&, block_case&) noexcept;
};
inline constexpr std::array block_generators{
    block_generator{"narrow", detail::narrow},
    block_generator{"wide", detail::wide},
    block_generator{"cancelling", detail::cancelling},
    block_generator{"subnormal", detail::subnormal},
    block_generator{"signed zero", detail::signed_zero},
    block_generator{"specials", detail::specials},
    block_generator{"all bit patterns", detail::all_bit_patterns},
    block_generator{"clamp region", detail::clamp_region},
    block_generator{"c at every offset", detail::c_at_every_offset},
    block_generator{"near overflow", detail::near_overflow},
    block_generator{"carries", detail::carries},
    block_generator{"at the quantum", detail::at_the_quantum},
    block_generator{"ends of the fast range", detail::ends_of_fast_range},
};

}  // namespace testing
