#pragma once
#include "plain_generators.hpp"

// Generators of unit_cases.hpp whose cases separate a rule from its neighbours: one binade, one bit or one place off.

namespace stickybit::gpu::generators {

/// c at every offset from −60 to 60 binades from the largest product, one after the other.
constexpr void c_sweep(case_maker& m) {
  const int offset = int(m.index % 121) - 60;
  const int level = m.clip(m.random.between(-30, 30) - offset / 2);
  const int terms = m.random.between(1, m.size()), rotation = m.random.between(0, m.size() - 1);
  for (int i = 0; i < m.size(); ++i) {
    const int k = (i + rotation) % m.size();
    i == 0 ? m.put(k, level) : i < terms ? m.put(k, level - m.random.between(0, 30)) : m.put_zero(k);
  }
  m.put_c_at(level + offset);
}

/// Products at E that cancel exactly, in pairs, and others `depth` binades below, depth 0..30 one after the other; or nothing else.
constexpr void cancel_depth(case_maker& m) {
  const int depth = int(m.index % 32), pairs = m.random.between(1, std::max(1, m.shape.k / 4));
  const int level = std::max(m.roomy_level(), m.clip(m.lowest_product() + depth));
  const int stride = m.random.between(0, m.size() / 2 - 1) * 2 + 1, start = m.random.between(0, m.size() - 1);  // odd: every k once
  const auto place = [&](int i) { return (start + i * stride) % m.size(); };
  for (int i = 0; i < m.size(); ++i) {
    if (i < 2 * pairs && i % 2 == 0) {
      const significands kind = m.random.one_in(3) ? significands::all_ones : significands::any;
      m.put(place(i), level - m.random.between(0, 2), kind);
    } else if (i < 2 * pairs) m.put_negated(place(i), place(i - 1));
    else if (depth < 31 && m.random.one_in(2)) m.put(place(i), level - depth - m.random.between(0, 2));
    else m.put_zero(place(i));
  }
  m.put_c_zero();
  if (m.random.one_in(3)) m.put_c_at(level - std::min(depth, 30));
}

/// Several instructions, each result the next one's c: sums that round, cancel with what came before, vanish or overflow.
constexpr void chained(case_maker& m) {
  const int kind = m.random.between(0, 4);
  if (kind == 0) return wide(m);
  if (kind == 1) return overflow(m);
  narrow(m);
  if (kind == 2) return;
  for (int k = m.shape.k; k < m.size(); ++k) {  // what the instruction before gave, taken back but for last bits
    m.put_negated(k, k - m.shape.k);
    if (m.random.one_in(kind == 3 ? 4 : 16)) m.x.a[std::size_t(k)] ^= std::uint64_t{1} << m.shape.a.padding_bits;
  }
}

/// Sums at and next to half an ulp of the output: c and products of half an ulp, plus or minus what is far below. FP16 results:
/// ties at 2^-25 too, and 65504 + 16.
constexpr void output_tie(case_maker& m) {
  case_format const& out = m.shape.output;
  const int low = std::max(out.e_lowest(), m.lowest_product() + m.shape.output_fraction_bits + 1), high = std::min(out.e_max(), m.highest_product());
  int e = m.random.between(std::max(low, -30), std::max(low, std::min(high, 30)));
  std::uint64_t fraction = m.random.bits() << (out.fraction_bits - m.shape.output_fraction_bits);
  if (m.random.one_in(8)) e = out.e_max();
  if (m.random.one_in(4)) fraction = ~std::uint64_t{0} << (out.fraction_bits - m.shape.output_fraction_bits);
  const bool negative = m.random.one_in(2);
  const int half_ulp = std::max(e, out.e_min()) - m.shape.output_fraction_bits - 1;
  const int rotation = m.random.between(0, m.size() - 1), halves = m.random.between(1, 3), below = m.random.between(0, 3);
  for (int i = 0; i < m.size(); ++i) {
    const int k = (i + rotation) % m.size();
    if (i < halves) m.put(k, half_ulp, significands::powers, i == 0 ? m.random.one_in(4) != negative : m.random.one_in(2));
    else if (i < halves + below) {
      const significands kind = m.random.one_in(2) ? significands::powers : significands::any;
      m.put(k, half_ulp - m.random.between(1, 24), kind);
    } else m.put_zero(k);
  }
  m.put_c(negative, e, fraction);
  if (m.random.one_in(8)) m.put_c_zero();
}

/// c with low bits that a shorter result cannot keep, few products or none.
constexpr void low_bits(case_maker& m) {
  const int e = m.random.between(std::max(-20, m.shape.output.e_min()), std::min(15, m.shape.output.e_max()));
  const std::uint64_t c_fraction = m.random.one_in(4) ? ~std::uint64_t{0} << m.random.between(0, m.shape.output.fraction_bits) : m.random.bits();
  m.put_c(m.random.one_in(2), e, c_fraction);
  if (m.random.one_in(8)) m.put_c_subnormal();
  const int terms = m.random.between(0, 3), rotation = m.random.between(0, m.size() - 1);
  for (int i = 0; i < m.size(); ++i) {
    const int k = (i + rotation) % m.size();
    i < terms ? m.put(k, e + m.random.between(-28, 28)) : m.put_zero(k, m.random.one_in(4));
  }
}

/// The largest product has a significand of 2 or more, or just below; others lie at the cut. If E counted the normalised
/// exponent, they would be cut one bit higher.
constexpr void unnormalised(case_maker& m) {
  const int level = m.roomy_level(), rotation = m.random.between(0, m.size() - 1), large = m.random.between(1, 2);
  constexpr std::array kinds{significands::all_ones, significands::above_two, significands::below_two, significands::powers};
  const significands kind = kinds[std::size_t(m.random.between(0, 3))];
  for (int i = 0; i < m.size(); ++i) {
    const int k = (i + rotation) % m.size();
    if (i == 0) m.put(k, level, kind);
    else if (i < large) m.put_negated(k, rotation % m.size());
    else {
      const significands of = m.random.one_in(2) ? significands::any : significands::above_two;
      m.put(k, level - m.shape.fraction_bits + m.random.between(-2, 4), of);
    }
  }
  m.random.one_in(2) ? m.put_c_zero() : m.put_c_at(level + m.random.between(-m.shape.fraction_bits - 2, 1));
}

/// 2^E in place i, taken back in place j or by c, and terms of one or two quanta 2^(E−F), and just less, in every other place:
/// the result counts those that were not aligned with 2^E. Separates F, blocks of any size and any order of the products.
constexpr void quantum_edge(case_maker& m) {
  const int level = m.roomy_level(), i = int(m.index % std::uint64_t(m.size())), j = (i + m.random.between(1, m.size() - 1)) % m.size();
  const bool negative = m.random.one_in(2), by_c = m.random.one_in(4), small_negative = m.random.one_in(2);
  const int density = m.random.between(1, 4), spread = m.random.between(0, 2);
  for (int k = 0; k < m.size(); ++k) {
    if (k == i) m.put(k, level, significands::powers, negative);
    else if (k == j && !by_c) m.put_negated(k, i);
    else if (m.random.one_in(density)) {
      const bool term_negative = m.random.one_in(8) ? m.random.one_in(2) : small_negative;
      const significands kind = m.random.one_in(3) ? significands::below_two : significands::powers;
      m.put(k, level - m.shape.fraction_bits + m.random.between(-1 - spread, spread), kind, term_negative);
    } else m.put_zero(k);
  }
  if (j < i && !by_c) m.put_negated(j, i);
  m.put_c_zero();
  if (by_c) m.put_c(!negative, level, 0);
  else if (m.random.one_in(4)) m.put_c_at(level - m.shape.fraction_bits + m.random.between(-1, 1));
}

/// Sums that are subnormal in the output, or zero, or just normal.
constexpr void subnormal_output(case_maker& m) {
  const int terms = m.random.between(1, m.size()), rotation = m.random.between(0, m.size() - 1), top = m.shape.output.e_min() - m.random.between(0, m.shape.output.fraction_bits);
  for (int i = 0; i < m.size(); ++i) {
    const int k = (i + rotation) % m.size();
    i < terms ? m.put(k, m.random.between(m.output_quantum() - 3, top)) : m.put_zero(k);
  }
  m.random.one_in(3) ? m.put_c_zero() : m.put_c_subnormal();
}

/// One or two causes of a NaN or an infinity, each alone among ordinary operands: every kind, in every place.
constexpr void nan_kinds(case_maker& m) {
  for (int k = 0; k < m.size(); ++k) m.put(k, m.random.between(-6, 6));
  m.put_c_at(m.random.between(-6, 6));
  for (int left = m.random.between(1, 2); left > 0; --left) {
    const auto k = std::size_t(m.random.between(0, m.size() - 1));
    const bool in_a = m.random.one_in(2), negative = m.random.one_in(2);
    case_format const& f = in_a ? m.shape.a : m.shape.b;
    auto& here = in_a ? m.x.a[k] : m.x.b[k];
    auto& other = in_a ? m.x.b[k] : m.x.a[k];
    const auto nan_of = [&](case_format g, int payload_bits) {
      if (g.specials == case_specials::none) return g.code(negative, g.largest());
      return g.specials == case_specials::ieee ? g.infinity(negative) | (g.padding_mask() + 1) << m.random.between(0, payload_bits - 1) : g.code(negative, g.all_ones());
    };
    switch (m.random.between(0, 7)) {
      case 0: case 1: here = nan_of(f, f.fraction_bits); break;
      case 2: m.put_c(nan_of(m.shape.output, m.shape.output.fraction_bits)); break;
      case 3: here = f.infinity(negative), other = 0; break;
      case 4: case 5: here = f.infinity(negative); break;
      case 6: m.put_c(m.shape.output.infinity(negative)); break;
      case 7: m.put(int(k), m.highest_product(), significands::all_ones, negative); break;  // beyond the output, if anything is
    }
  }
}

/// One product alone, of any codes, and c zero or near it: what one product is.
constexpr void lone(case_maker& m) {
  const int only = m.random.between(0, m.size() - 1);
  for (int k = 0; k < m.size(); ++k) m.put_zero(k);
  const std::uint64_t b = m.random.bits() & m.shape.b.code_mask();
  m.set(only, m.random.bits() & m.shape.a.code_mask(), b);
  m.put_c_zero();
  if (m.random.one_in(2)) m.put_c(m.random.bits() & m.shape.output.code_mask());
}

/// E at its lower limit and one power of two at the last bit kept there, or next to it: it decides a tie, or takes a unit from a
/// sum of least outputs.
constexpr void clamp_edge(case_maker& m) {
  const int last_kept = m.shape.min_exponent - m.shape.fraction_bits, quantum = m.output_quantum(), rotation = m.random.between(0, m.size() - 1);
  const bool negative = m.random.one_in(2), tie = m.random.one_in(2);
  const int multiples = m.random.between(tie ? 0 : 1, 2);
  for (int i = 0; i < m.size(); ++i) {
    const int k = (i + rotation) % m.size();
    if (i == 0) {
      const bool term_negative = tie ? m.random.one_in(2) : !negative;
      m.put(k, last_kept + m.random.between(-1, 1), significands::powers, term_negative);
    } else if (i == 1 && tie) m.put(k, quantum - 1, significands::powers, negative);
    else if (i < 2 + multiples && (i > 1 || !tie)) m.put(k, m.random.between(quantum, std::max(quantum, std::min(m.shape.min_exponent, quantum + 14))), significands::powers, negative);
    else m.put_zero(k);
  }
  m.put_c_zero();
}

/// A subnormal times a large number, taken back by another product, and terms where the cut would be: at which exponent does a
/// subnormal operand stand, that of the smallest normal number or that of its leading bit?
constexpr void subnormal_level(case_maker& m) {
  const int i = m.random.between(0, m.size() - 1), j = (i + m.random.between(1, m.size() - 1)) % m.size();
  const bool in_a = m.random.one_in(2);
  case_format const &small = in_a ? m.shape.a : m.shape.b, &large = in_a ? m.shape.b : m.shape.a;
  const int room = m.shape.fraction_bits + 2 + m.lowest_product();  // the least E that leaves room below
  const int e_large = m.random.between(std::clamp(room - small.e_min(), large.e_min(), large.e_max()), large.e_max());
  const std::uint64_t magnitude = 1 + m.random.bits() % (small.hidden_bit() - 1), subnormal = small.code(m.random.one_in(2), magnitude);
  const std::uint64_t fraction = m.random.bits(), other = large.number(m.random.one_in(2), e_large, fraction);
  const int cut = small.e_min() + e_large - m.shape.fraction_bits;
  for (int k = 0; k < m.size(); ++k) m.random.one_in(3) ? m.put(k, cut + m.random.between(-5, 2)) : m.put_zero(k);
  in_a ? m.set(i, subnormal, other) : m.set(i, other, subnormal);
  m.put_negated(j, i);
  m.put_c_zero();
}

}  // namespace stickybit::gpu::generators
