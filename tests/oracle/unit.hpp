#pragma once
#include <algorithm>
#include <vector>

#include "oracle/arithmetic.hpp"
#include "oracle/block.hpp"
#include "oracle/formats.hpp"

// Any matrix unit on rational numbers, written from the words of its rules: nothing here shifts or masks.

namespace oracle {

enum class summation { aligned, grouped, exact, tree, two_stage };

struct unit_rules {
  number_format a, b;
  summation how = summation::aligned;
  int block = 16, blocks = 1;   ///< products of a block, blocks of an instruction
  bool pairs = false;           ///< k mod 4 of 0 and 1 in the first block, of 2 and 3 in the second
  bool even_odd = false;        ///< two_stage: even and odd k apart
  bool accumulator_last = false;
  int fraction_bits = 25, sum_bits = 0, smallest_exponent = -133;
  direction output = direction::zero;
  int result_fraction_bits = 23;
  bool half = false;            ///< results and c are FP16
  int scale_block = 0, group = 0;
  number_format scale = e8m0_format;
  bool flush = false;
  bool converts = false;        ///< operands become FP16 before they are multiplied
};

struct unit_case {
  std::vector<std::uint32_t> a, b, scale_a, scale_b;  ///< codes without padding
  std::uint32_t c;                                    ///< FP32
};

namespace detail {

/// A number on its way into a sum. `exponent` is that of the alignment, not of the value.
struct unit_term {
  rational value;
  int exponent;
};

struct specials {
  bool nan = false, plus = false, minus = false;
  [[nodiscard]] bool any() const { return nan || plus || minus; }
  [[nodiscard]] std::uint32_t code() const { return nan || (plus && minus) ? canonical_nan : minus ? 0xff800000 : 0x7f800000; }
};

inline rational power(int e) { return times_pow2<rational>(1, e); }
inline rational floor_to(rational const& x, int e) {
  const rational cut = cut_down(x < 0 ? rational(-x) : x, e);
  return x >= 0 ? cut : (cut == -x ? x : rational(-cut - power(e)));
}
inline rational to_zero(rational const& x, int e) {
  const rational cut = cut_down(x < 0 ? rational(-x) : x, e);
  return x < 0 ? rational(-cut) : cut;
}

inline std::uint32_t widened_half(std::uint32_t h) {
  const std::uint32_t minus = h / 0x8000 * 0x80000000, magnitude = h % 0x8000;
  if (magnitude > 0x7c00) return canonical_nan;
  if (magnitude == 0x7c00) return minus + 0x7f800000;
  if (magnitude == 0) return minus;
  const rational value = times_pow2<rational>(f16_format.whole(magnitude), f16_format.weight(magnitude));
  return round_to<rational>(f32, {}, minus != 0, value);
}
inline std::uint32_t to_half(std::uint32_t c) { return widened_half(convert({5, 10}, c, direction::nearest_even)); }

/// The sum as the unit's result, as an FP32 code; a zero is +0.
inline std::uint32_t packed(unit_rules const& r, rational const& sum) {
  const rational magnitude = sum < 0 ? rational(-sum) : sum;
  const rounding_rules rule{.toward = r.output, .always_to_infinity = true};
  if (magnitude == 0) return 0;
  std::uint32_t code;
  if (r.half) code = widened_half(round_to<rational>(shape{5, 10}, rule, sum < 0, magnitude));
  else code = round_to<rational>(shape{8, r.result_fraction_bits}, rule, sum < 0, magnitude) << (23 - r.result_fraction_bits);
  return code % 0x80000000 == 0 ? 0 : code;
}

inline parts flushed(unit_rules const& r, parts p, int fraction_width) {
  if (r.flush && p.whole < (std::uint64_t{1} << fraction_width)) p.whole = 0;
  return p;
}

/// Product k with its scales. @post value 0 where something is special, and `seen` says what
inline unit_term product(unit_rules const& r, unit_case const& x, std::size_t k, specials& seen) {
  if (k >= x.a.size()) return {0, 0};
  const parts p = flushed(r, operand_of(r.a, x.a[k]), r.a.fraction_width), q = flushed(r, operand_of(r.b, x.b[k]), r.b.fraction_width);
  const bool minus = p.minus != q.minus;
  const auto exponent_in_f16 = [](parts const& o) { return o.whole == 0 ? o.exponent : std::max(-14, floor_log2(times_pow2<rational>(o.whole, o.weight))); };
  int exponent = r.converts ? exponent_in_f16(p) + exponent_in_f16(q) : p.exponent + q.exponent, weight = p.weight + q.weight;
  if (p.nan || q.nan || (p.infinite && q.zero()) || (p.zero() && q.infinite)) seen.nan = true;
  else if (p.infinite || q.infinite) (minus ? seen.minus : seen.plus) = true;
  if (r.scale_block != 0 && r.how != summation::grouped)
    for (auto const* scales : {&x.scale_a, &x.scale_b}) {
      const parts s = operand_of(r.scale, (*scales)[k / std::size_t(r.scale_block)]);
      seen.nan |= s.nan;
      exponent += s.exponent;
      weight += s.exponent;
    }
  if (p.nan || q.nan || p.infinite || q.infinite) return {0, 0};
  const rational value = times_pow2<rational>(std::uint64_t{p.whole} * q.whole, weight);
  return {minus ? rational(-value) : value, exponent};
}

inline unit_term accumulator(unit_rules const& r, std::uint32_t c, specials& seen) {
  const std::uint32_t code = r.half ? to_half(c) : c;
  parts p = take_apart(f32, code);
  if (p.nan) seen.nan = true;
  else if (p.infinite) (p.minus ? seen.minus : seen.plus) = true;
  if (p.nan || p.infinite) return {0, -126};
  const rational value = times_pow2<rational>(p.whole, p.weight);
  int exponent = p.exponent;
  if (r.half && p.whole != 0) exponent = std::max(p.exponent, -14);
  return {p.minus ? rational(-value) : value, exponent};
}

inline std::uint32_t aligned(unit_rules const& r, std::vector<unit_term> terms, std::uint32_t c, specials seen) {
  terms.push_back(accumulator(r, c, seen));
  if (seen.any()) return seen.code();
  int largest = r.smallest_exponent;
  for (unit_term const& t : terms)
    if (t.value != 0) largest = std::max(largest, t.exponent);
  rational sum = 0;
  for (unit_term const& t : terms) sum += to_zero(t.value, largest - r.fraction_bits);
  return packed(r, sum);
}

inline std::uint32_t tree(unit_rules const& r, std::vector<unit_term> const& terms, std::uint32_t c, specials seen) {
  const auto flush = [&](std::uint32_t code) { return r.flush && code % 0x80000000 < 0x00800000 ? code / 0x80000000 * 0x80000000 : code; };
  if (seen.any()) return flush(add<rational>(c, seen.code(), false));
  std::vector<std::uint32_t> level;
  for (unit_term const& t : terms) level.push_back(flush(round_to<rational>(f32, {}, t.value < 0, t.value < 0 ? rational(-t.value) : t.value)));
  while (level.size() > 1) {
    std::vector<std::uint32_t> next;
    for (std::size_t i = 0; i < level.size(); i += 2) next.push_back(flush(add<rational>(level[i], level[i + 1], false)));
    level = next;
  }
  if (r.flush && c % 0x80000000 < 0x00800000 && c % 0x80000000 != 0) c = 0;
  return flush(add<rational>(c, level[0], false));
}

/// Terms cut toward zero at their largest exponent less F and added; `exponent` is −1000 when there are none.
inline unit_term stage(unit_rules const& r, std::vector<unit_term> const& terms, std::size_t first, std::size_t step) {
  unit_term s{0, -1000};
  for (std::size_t i = first; i < terms.size(); i += step)
    if (terms[i].value != 0) s.exponent = std::max(s.exponent, terms[i].exponent);
  for (std::size_t i = first; i < terms.size(); i += step)
    if (terms[i].value != 0) s.value += to_zero(terms[i].value, s.exponent - r.fraction_bits);
  return s;
}

inline std::uint32_t two_stage(unit_rules const& r, std::vector<unit_term> const& terms, std::uint32_t c, specials seen) {
  for (unit_term const& t : terms)
    if (t.value >= power(128) || t.value <= -power(128)) (t.value < 0 ? seen.minus : seen.plus) = true;
  const unit_term z = accumulator(r, c, seen);
  if (seen.any()) return seen.code();
  unit_term s = stage(r, terms, 0, r.even_odd ? 2 : 1);
  if (r.even_odd) {
    const unit_term odd = stage(r, terms, 1, 2);
    const int e = std::max(s.exponent, odd.exponent);
    s = {floor_to(s.value, e - r.fraction_bits) + floor_to(odd.value, e - r.fraction_bits), e};
  }
  const int e = std::max(s.exponent, z.exponent);
  const bool dropped = r.even_odd && e - z.exponent > r.fraction_bits + 1;
  return packed(r, floor_to(s.value, e - r.sum_bits) + (dropped ? rational(0) : floor_to(z.value, e - r.fraction_bits)));
}

/// The exact sum of a group's products times its scales.
inline unit_term scaled_group(unit_rules const& r, unit_case const& x, std::size_t first, specials& seen) {
  unit_term t{0, 0};
  for (std::size_t k = first; k < first + std::size_t(r.group); ++k) t.value += product(r, x, k, seen).value;
  const std::size_t at = first / std::size_t(r.scale_block);
  for (auto const* scales : {&x.scale_a, &x.scale_b}) {
    std::uint32_t code = (*scales)[at];
    if (r.scale.sign != 0) code %= r.scale.sign;  // the sign of a scale is ignored
    const parts s = operand_of(r.scale, code);
    seen.nan |= s.nan;
    t.value *= times_pow2<rational>(s.whole, s.weight);
    t.exponent += s.exponent;
  }
  return t;
}

inline std::uint32_t unit_block(unit_rules const& r, std::vector<unit_term> const& terms, std::uint32_t c, specials seen) {
  switch (r.how) {
    case summation::aligned:
    case summation::grouped: return aligned(r, terms, c, seen);
    case summation::tree: return tree(r, terms, c, seen);
    case summation::two_stage: return two_stage(r, terms, c, seen);
    case summation::exact: break;
  }
  const unit_term z = accumulator(r, c, seen);
  if (seen.any()) return seen.code();
  rational sum = z.value;
  for (unit_term const& t : terms) sum += t.value;
  return packed(r, sum);
}

}  // namespace detail

/// c + Σ a·b over any length on the unit: whole instructions, the last one filled with +0. Blocks that would hold nothing else are left
/// out, unless c is added last: a further block of zeros would make −0 of c into +0.
inline std::uint32_t inner_product(unit_rules const& r, unit_case const& x) {
  const auto n = std::size_t(r.block), length = n * std::size_t(r.blocks);
  std::uint32_t c = x.c;
  for (std::size_t first = 0; first < x.a.size(); first += length) {
    std::uint32_t sum = r.accumulator_last ? 0 : c;
    for (std::size_t block = 0; block < std::size_t(r.blocks); ++block) {
      std::vector<detail::unit_term> terms;
      detail::specials seen;
      if (!r.accumulator_last && !r.pairs && first + block * n >= x.a.size()) continue;
      for (std::size_t k = 0; k < length; ++k) {
        const bool here = r.pairs ? k % 4 / 2 == block : k / n == block;
        if (!here) continue;
        if (r.how != summation::grouped) terms.push_back(detail::product(r, x, first + k, seen));
        else if (k % std::size_t(r.group) == 0 && first + k < x.a.size()) terms.push_back(detail::scaled_group(r, x, first + k, seen));
      }
      sum = detail::unit_block(r, terms, sum, seen);
    }
    if (!r.accumulator_last) c = sum;
    else if (!r.half) c = add<rational>(sum, c, false);
    else {
      // Two numbers of FP16: their sum has at most 41 bits, so one rounding of the exact sum.
      detail::specials seen;
      const rational total = detail::accumulator(r, sum, seen).value + detail::accumulator(r, c, seen).value;
      const bool both_minus = sum == 0x80000000 && detail::to_half(c) == 0x80000000;
      if (seen.any()) c = seen.code();
      else if (total == 0) c = both_minus ? 0x80000000 : 0;
      else c = detail::widened_half(round_to<rational>(shape{5, 10}, {}, total < 0, total < 0 ? rational(-total) : total));
    }
  }
  return c;
}

}  // namespace oracle
