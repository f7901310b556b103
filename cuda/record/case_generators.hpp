#pragma once
#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "inner_product_case.hpp"
#include "random_codes.hpp"

// Random inner products that are hard for a block FMA: each generator aims at one of its rules. "Product exponent" is the sum
// of the operands' exponents, e_a + e_b, not normalised: what takes part in the alignment.

namespace stickybit::gpu {

/// Everything within a few binades: sums round, and the cut at 2^(E−25) shows.
constexpr inner_product_case narrow_case(random_codes& random) {
  inner_product_case x;
  for (auto& a : x.a) a = random.bf16(-2, 2);
  for (auto& b : x.b) b = random.bf16(-2, 2);
  x.c = random.one_in(8) ? f32_code::zero(random.one_in(2)) : random.f32(-6, 6);
  return x;
}

/// Product exponents over 120 binades: most terms vanish whole.
constexpr inner_product_case wide_case(random_codes& random) {
  inner_product_case x;
  for (auto& a : x.a) a = random.bf16(-30, 30);
  for (auto& b : x.b) b = random.bf16(-30, 30);
  x.c = random.f32(-60, 60);
  return x;
}

/// Products k and k^mask cancel but for a last bit here and there, mask at random: what is left was far below E. With a mask
/// of 8 or more the partners are in different halves.
constexpr inner_product_case cancelling_case(random_codes& random) {
  inner_product_case x = narrow_case(random);
  const int mask = random.between(1, 15);
  for (int k = 0; k < 16; ++k) {
    const int partner = k ^ mask;
    if (partner < k) continue;
    const unsigned last_bit = random.one_in(4) ? 1 : 0;
    x.a[std::size_t(partner)] = bf16_code::from_bits(std::uint16_t(x.a[std::size_t(k)].negated().to_bits() ^ last_bit));
    x.b[std::size_t(partner)] = x.b[std::size_t(k)];
  }
  x.c = random.one_in(4) ? f32_code::zero() : random.f32(-40, 2);
  return x;
}

/// Products around the smallest normal FP32, from normal or from subnormal operands; c subnormal or just above.
constexpr inner_product_case subnormal_case(random_codes& random) {
  inner_product_case x;
  for (std::size_t k = 0; k < 16; ++k) {
    const int product_exponent = random.between(-150, -110);
    x.a[k] = random.bf16(-80, -60);
    x.b[k] = random.bf16(product_exponent + 70);
    if (random.one_in(4)) {
      x.a[k] = random.bf16_subnormal();
      x.b[k] = random.bf16(-20, 15);
    }
    if (random.one_in(2)) {
      const bf16_code a = x.a[k];
      x.a[k] = x.b[k];
      x.b[k] = a;
    }
  }
  x.c = random.one_in(4) ? random.f32(-126, -110) : random.one_in(8) ? f32_code::zero(random.one_in(2)) : random.f32_subnormal();
  return x;
}

/// Zeros of both signs, products that vanish below 2^-149, exact cancellation: which sign has a zero result? Zeros meet large
/// operands too, whose exponents must not count.
constexpr inner_product_case signed_zero_case(random_codes& random) {
  inner_product_case x;
  const int vanishing = random.between(0, 3);  // of 4 products
  for (std::size_t k = 0; k < 16; ++k) {
    const bool negative = !random.one_in(8);   // mostly negative products
    if (random.between(0, 3) < vanishing) {
      x.a[k] = bf16_power(negative, random.between(-90, -70));
      x.b[k] = bf16_power(false, random.between(-90, -70));
    } else {
      x.a[k] = bf16_code::zero(negative);
      x.b[k] = random.one_in(3) ? random.bf16(100, 127) : bf16_code::zero();
    }
  }
  switch (random.between(0, 4)) {
    case 0: x.c = f32_code::zero(true); break;
    case 1: x.c = f32_code::zero(false); break;
    case 2: x.c = f32_code::from_bits(unsigned(random.between(1, 3)) | f32_code::zero(random.one_in(2)).to_bits()); break;
    case 3: x.c = random.f32(-126, 20); break;
    case 4:  // c + Σ is exactly zero
      for (auto& a : x.a) a = bf16_code::zero(a.negative());
      x.a[3] = random.bf16(-40, 40);
      x.b[3] = bf16_power(false, random.between(-40, 40));
      x.c = widen(bf16_code::from_bits(std::uint16_t(x.a[3].negated().to_bits() + ((x.b[3].to_bits() >> 7) - 127U) * 128U)));
      break;
  }
  return x;
}

/// Up to four infinities, NaNs of any payload, zeros and largest numbers among ordinary operands.
constexpr inner_product_case special_case(random_codes& random) {
  inner_product_case x;
  for (auto& a : x.a) a = random.bf16(-10, 10);
  for (auto& b : x.b) b = random.bf16(-10, 10);
  x.c = random.f32(-20, 20);
  for (int left = random.between(0, 4); left > 0; --left) {
    const bool negative = random.one_in(2);
    bf16_code special = bf16_code::infinity(negative);
    switch (random.between(0, 9)) {
      case 0: special = bf16_code::from_bits(std::uint16_t(special.to_bits() | unsigned(random.between(1, 0x7f)))); break;
      case 1: case 2: special = bf16_code::zero(negative); break;
      case 3: special = bf16_code::from_bits(std::uint16_t(special.to_bits() - 1)); break;
      default: break;
    }
    const int place = random.between(0, 32);
    if (place == 32) x.c = f32_code::from_bits(widen(special).to_bits() | (special.is_nan() ? std::uint32_t(random.bits() & 0xffff) : 0));
    else (place < 16 ? x.a : x.b)[std::size_t(place % 16)] = special;
  }
  return x;
}

/// Any code anywhere.
constexpr inner_product_case all_bits_case(random_codes& random) {
  inner_product_case x;
  for (auto& a : x.a) a = bf16_code::from_bits(std::uint16_t(random.bits()));
  for (auto& b : x.b) b = bf16_code::from_bits(std::uint16_t(random.bits()));
  x.c = f32_code::from_bits(std::uint32_t(random.bits()));
  return x;
}

/// Products so small that E is at or near its lower limit, −133, where the last kept bit is 2^-158. Half of the cases: multiples
/// of 2^-149 of one sign, less one to three products about 2^-158: the result is one unit smaller if any bit of them is kept.
constexpr inner_product_case clamp_case(random_codes& random) {
  inner_product_case x;
  const auto product = [&](std::size_t k, bool power, bool negative, int exponent) {
    const int e_a = random.between(-90, -60), e_b = exponent - e_a;
    x.a[k] = power ? bf16_power(false, e_a) : random.bf16(e_a);
    x.b[k] = power ? bf16_power(false, e_b) : random.bf16(e_b);
    if ((x.a[k].negative() != x.b[k].negative()) != negative) x.a[k] = x.a[k].negated();
  };
  const bool decided_by_one_bit = random.one_in(2), negative = random.one_in(2);
  const int large = random.between(1, 4), small = random.between(1, 3), rotation = random.between(0, 15);
  for (int i = 0; i < 16; ++i) {
    const auto k = std::size_t(i + rotation) % 16;
    if (!decided_by_one_bit) product(k, false, random.one_in(2), random.between(-165, -126));
    else if (i < large) product(k, true, negative, random.between(-149, -135));
    else if (i < large + small) product(k, false, !negative, random.between(-162, -154));
    else x.a[k] = bf16_code::zero(random.one_in(2));
  }
  x.c = f32_code::zero(random.one_in(2));
  if (!decided_by_one_bit && random.one_in(4)) x.c = f32_code::from_bits(unsigned(random.between(1, 3)) | x.c.to_bits());
  return x;
}

/// c at every offset from −40 to 40 binades from the largest product.
constexpr inner_product_case c_offset_case(random_codes& random) {
  inner_product_case x;
  const int level = random.between(-40, 40);
  int largest = -1000;
  for (std::size_t k = 0; k < 16; ++k) {
    const int e_a = random.between(-20, 20), exponent = level - random.between(0, 6);
    x.a[k] = random.bf16(e_a);
    x.b[k] = random.bf16(exponent - e_a);
    largest = exponent > largest ? exponent : largest;
  }
  x.c = random.f32(largest + random.between(-40, 40));
  return x;
}

/// Sums on both sides of the largest FP32; products beyond it that may cancel.
constexpr inner_product_case overflow_case(random_codes& random) {
  inner_product_case x;
  const int level = random.between(122, 129), mixed_signs = random.between(1, 8);
  for (std::size_t k = 0; k < 16; ++k) {
    const int e_a = random.between(50, 70);
    x.a[k] = random.bf16(e_a);
    x.b[k] = random.bf16(level - random.between(0, 8) - e_a);
    if (!random.one_in(mixed_signs + 1) && x.a[k].negative() != x.b[k].negative()) x.a[k] = x.a[k].negated();
  }
  x.c = random.f32(118, 127);
  return x;
}

/// c next to a power of two, products from its last bits to seven binades below: carries, borrows, ties and the cut.
constexpr inner_product_case carry_case(random_codes& random) {
  inner_product_case x;
  const int e = random.between(-20, 20), power = random.between(0, 1), one_sign = random.between(1, 4);
  const bool negative = random.one_in(2);
  const int fraction = random.one_in(2) ? 0x7fffff - random.between(0, 3) : random.between(0, 3);
  x.c = f32_code::from_bits(unsigned(e + 127) << 23 | unsigned(fraction) | f32_code::zero(negative).to_bits());
  for (std::size_t k = 0; k < 16; ++k) {
    const int e_a = random.between(-20, 20), exponent = e - random.between(20, 30);
    x.a[k] = power != 0 ? bf16_power(random.one_in(2), e_a) : random.bf16(e_a);
    x.b[k] = power != 0 ? bf16_power(false, exponent - e_a) : random.bf16(exponent - e_a);
    if (!random.one_in(one_sign) && (x.a[k].negative() != x.b[k].negative()) != negative) x.a[k] = x.a[k].negated();
  }
  return x;
}

struct case_generator {
  std::string_view name;
  inner_product_case (*make)(random_codes&);
};

/// The place in this list is part of a case's seed: append only.
inline constexpr std::array case_generators{
    case_generator{"narrow", narrow_case},     case_generator{"wide", wide_case},               case_generator{"cancelling", cancelling_case},
    case_generator{"subnormal", subnormal_case}, case_generator{"signed_zero", signed_zero_case}, case_generator{"special", special_case},
    case_generator{"all_bits", all_bits_case}, case_generator{"clamp", clamp_case},             case_generator{"c_offset", c_offset_case},
    case_generator{"overflow", overflow_case}, case_generator{"carry", carry_case},
};

/// Case number `index` of case_generators[generator].
inline inner_product_case make_case(std::size_t generator, std::uint64_t seed, std::uint64_t index) {
  random_codes random(seed, generator, index);
  return case_generators[generator].make(random);
}

/// @throws std::invalid_argument naming the generators that there are
inline std::size_t generator_named(std::string_view name) {
  std::string known;
  for (std::size_t i = 0; i < case_generators.size(); ++i) {
    if (case_generators[i].name == name) return i;
    (known += " ") += case_generators[i].name;
  }
  throw std::invalid_argument("unknown generator '" + std::string(name) + "': expected all or one of" + known);
}

}  // namespace stickybit::gpu
