#pragma once
#include "case_maker.hpp"

// The generators of unit_cases.hpp that were there first, for any unit: each aims at one rule of a block FMA.

namespace stickybit::gpu::generators {

/// Everything within a few binades: sums round, and the cut at 2^(E−F) shows.
constexpr void narrow(case_maker& m) {
  for (int k = 0; k < m.size(); ++k) m.put(k, m.random.between(-4, 4));
  m.random.one_in(8) ? m.put_c_zero() : m.put_c_at(m.random.between(-6, 6));
}

/// Product exponents over all that the formats have, up to 120 binades: most terms vanish whole.
constexpr void wide(case_maker& m) {
  const int low = m.clip(-60), high = m.clip(60);
  for (int k = 0; k < m.size(); ++k) m.put(k, m.random.between(low, high));
  m.put_c_at(m.random.between(std::max(-60, m.output_quantum()), std::min(60, m.shape.output.e_max())));
}

/// Products k and k^mask cancel but for a last bit here and there, mask at random: what is left was far below E. The partners
/// lie in different blocks, halves, pairs, by the mask.
constexpr void cancelling(case_maker& m) {
  narrow(m);
  const int mask = m.random.between(1, m.shape.k - 1);
  for (int k = 0; k < m.size(); ++k) {
    if ((k ^ mask) < k || (k ^ mask) >= m.size()) continue;
    m.put_negated(k ^ mask, k);
    if (m.random.one_in(4)) m.x.a[std::size_t(k ^ mask)] ^= std::uint64_t{1} << m.shape.a.padding_bits;
  }
  m.random.one_in(4) ? m.put_c_zero() : m.put_c_at(m.random.between(-40, 2));
}

/// Products around the smallest normal output or the smallest products that there are, from normal or subnormal operands.
constexpr void subnormal(case_maker& m) {
  const int floor = m.clip(m.shape.output.e_min());
  for (int k = 0; k < m.size(); ++k) {
    m.put(k, m.random.between(floor - 24, floor + 16));
    if (!m.random.one_in(4)) continue;
    const bool in_a = m.random.one_in(2);
    const auto subnormal_of = [&](case_format f) {
      const std::uint64_t magnitude = 1 + m.random.bits() % (f.hidden_bit() - 1);
      return f.code(m.random.one_in(2), magnitude);
    };
    const auto any_of = [&](case_format f) {
      const std::uint64_t fraction = m.random.bits();
      const int e = m.random.between(-20, 15);
      return f.number(m.random.one_in(2), e, fraction);
    };
    const std::uint64_t b = in_a ? any_of(m.shape.b) : subnormal_of(m.shape.b);
    m.set(k, in_a ? subnormal_of(m.shape.a) : any_of(m.shape.a), b);
  }
  if (m.random.one_in(4)) m.put_c_at(m.random.between(floor, floor + 16));
  else m.random.one_in(8) ? m.put_c_zero() : m.put_c_subnormal();
}

/// c := one of the three least numbers of the output.
constexpr void put_c_least(case_maker& m) {
  const auto magnitude = std::uint64_t(m.random.between(1, 3));
  m.put_c(m.shape.output.code(m.random.one_in(2), magnitude));
}

/// Zeros of both signs, products that vanish below the least output, exact cancellation: which sign has a zero result? Zeros
/// meet large operands too, whose exponents must not count.
constexpr void signed_zero(case_maker& m) {
  const int vanishing = m.random.between(0, 3);  // of 4 products
  for (int k = 0; k < m.size(); ++k) {
    const bool negative = !m.random.one_in(8);  // mostly negative products
    if (m.random.between(0, 3) < vanishing) m.put(k, m.output_quantum() - m.random.between(1, 30), significands::powers, negative);
    else if (m.random.one_in(3)) m.put_zero(k, true);
    else m.set(k, m.shape.a.code(negative, 0), m.shape.b.code(false, 0));
  }
  switch (m.random.between(0, 4)) {
    case 0: m.put_c(m.shape.output.code(true, 0)); break;
    case 1: m.put_c(m.shape.output.code(false, 0)); break;
    case 2: put_c_least(m); break;
    case 3: m.put_c_at(m.random.between(std::max(-40, m.shape.output.e_min()), std::min(20, m.shape.output.e_max()))); break;
    case 4: {  // c + Σ is exactly zero, where the output has the product
      for (int k = 0; k < m.size(); ++k) m.put_zero(k);
      const int e = std::clamp(m.random.between(-40, 30), m.clip(m.output_quantum()), m.clip(m.shape.output.e_max()));
      const bool negative = m.random.one_in(2);
      m.put(m.random.between(0, m.size() - 1), e, significands::powers, negative);
      m.put_c(!negative, e, 0);
      break;
    }
  }
}

/// An infinity, a NaN of any payload, a zero or the largest number.
constexpr std::uint64_t special_code(case_maker& m, case_format f) {
  const bool negative = m.random.one_in(2);
  switch (m.random.between(0, 9)) {
    case 0:
      if (f.specials != case_specials::none) return f.code(negative, f.all_ones() - (f.specials == case_specials::ieee ? m.random.bits() % (f.hidden_bit() - 1) : 0));
      break;
    case 1: case 2: return f.code(negative, 0);
    case 3: return f.code(negative, f.largest());
    default: break;
  }
  return f.infinity(negative);
}

/// Up to four special codes among ordinary operands.
constexpr void special(case_maker& m) {
  for (int k = 0; k < m.size(); ++k) m.put(k, m.random.between(-20, 20));
  m.put_c_at(m.random.between(-20, 15));
  for (int left = m.random.between(0, 4); left > 0; --left) {
    const int place = m.random.between(0, 2 * m.size());
    if (place == 2 * m.size()) m.put_c(special_code(m, m.shape.output));
    else if (place < m.size()) m.x.a[std::size_t(place)] = special_code(m, m.shape.a);
    else m.x.b[std::size_t(place - m.size())] = special_code(m, m.shape.b);
  }
}

/// Any code anywhere; in half of the cases no NaN and no infinity, of which many operands almost always hold some.
constexpr void all_bits(case_maker& m) {
  const bool finite = m.random.one_in(2);
  const auto any = [&](case_format f) { return finite ? m.any_finite(f) : m.random.bits() & f.code_mask(); };
  for (int k = 0; k < m.size(); ++k) {
    const std::uint64_t b = any(m.shape.b);
    m.set(k, any(m.shape.a), b);
  }
  m.put_c(any(m.shape.output));
}

/// Products so small that E is at or near its lower limit. Half of the cases: multiples of half the least output, of one sign,
/// less or plus one to three products about the last kept bit, 2^(limit − F): the result shows if any bit of them is kept.
constexpr void clamp(case_maker& m) {
  const bool decided_by_one_bit = m.random.one_in(2), negative = m.random.one_in(2), opposed = m.random.one_in(2);
  const int large = m.random.between(1, 4), small = m.random.between(1, 3), rotation = m.random.between(0, m.size() - 1);
  const int last_kept = m.shape.min_exponent - m.shape.fraction_bits;
  for (int i = 0; i < m.size(); ++i) {
    const int k = (i + rotation) % m.size();
    if (!decided_by_one_bit) m.put(k, m.random.between(last_kept - 7, m.shape.min_exponent + 7));
    else if (i < large) m.put(k, m.output_quantum() + m.random.between(-1, 13), significands::powers, negative);
    else if (i < large + small) m.put(k, last_kept + m.random.between(-4, 4), significands::any, negative != opposed);
    else m.put_zero(k);
  }
  m.put_c_zero();
  if (m.random.one_in(4)) put_c_least(m);
}

/// c at an offset from −40 to 40 binades from the largest product.
constexpr void c_offset(case_maker& m) {
  const int level = m.clip(m.random.between(-40, 40));
  int largest = -4000;
  for (int k = 0; k < m.size(); ++k) {
    const int e = m.clip(level - m.random.between(0, 6));
    m.put(k, e);
    largest = std::max(largest, e);
  }
  m.put_c_at(largest + m.random.between(-40, 40));
}

/// Sums on both sides of the largest output; products beyond it that may cancel.
constexpr void overflow(case_maker& m) {
  const int level = m.clip(m.shape.output.e_max() + m.random.between(-5, 2)), mixed_signs = m.random.between(1, 8);
  const bool negative = m.random.one_in(2);
  for (int k = 0; k < m.size(); ++k) {
    const bool product_negative = m.random.one_in(mixed_signs + 1) ? m.random.one_in(2) : negative;
    m.put(k, level - m.random.between(0, 8), significands::any, product_negative);
  }
  const std::uint64_t fraction = m.random.bits();
  const int e = m.shape.output.e_max() - m.random.between(0, 9);
  m.put_c(m.random.one_in(2) ? negative : m.random.one_in(2), e, fraction);
  if (m.random.one_in(4)) m.put_c(m.shape.output.code(negative, m.shape.output.largest() - std::uint64_t(m.random.between(0, 1))));
}

/// c next to a power of two, products from its last bits to seven binades below: carries, borrows, ties and the cut.
constexpr void carry(case_maker& m) {
  const int e = m.random.between(std::max(-20, m.shape.output.e_min()), std::min(20, m.shape.output.e_max() - 1));
  const int one_sign = m.random.between(1, 4), last = m.shape.output.fraction_bits;
  const bool negative = m.random.one_in(2), powers = m.random.one_in(2);
  m.put_c(negative, e, std::uint64_t(m.random.one_in(2) ? -1 - m.random.between(0, 3) : m.random.between(0, 3)));
  for (int k = 0; k < m.size(); ++k) {
    const bool product_negative = m.random.one_in(one_sign) ? m.random.one_in(2) : negative;
    m.put(k, e - m.random.between(last - 3, last + 7), powers ? significands::powers : significands::any, product_negative);
  }
}

}  // namespace stickybit::gpu::generators
