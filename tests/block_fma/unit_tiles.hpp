#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "stickybit/machine/unit.hpp"
#include "support/generators.hpp"

// Rows of A and columns of B for any unit, so that every (row, column) is a case and most are hard: the exponents of row and column at each k
// add up to what one plan asks for, so all pairs cancel, tie, overflow or lie at the quantum together. Formats and scales are the unit's.

namespace testing {

/// Codes: a[rows][length], b[columns][length], scales one for every scale_block begun, c[rows][columns] (FP32).
struct unit_tile {
  int rows, columns, length;
  std::vector<std::uint32_t> a, b;
  std::vector<std::uint8_t> scale_a, scale_b;
  std::vector<std::uint32_t> c;
};

enum class unit_kind : std::uint8_t { narrow, wide, at_the_quantum, largest_sums, carries, cancelling, ties, zeros, any_bits, specials, subnormal, one_sign };
inline constexpr std::array<char const*, 12> unit_kinds{"narrow",     "wide", "at the quantum", "largest sums", "carries",   "cancelling",
                                                        "ties",       "zeros", "any bits",      "specials",     "subnormal", "one sign"};

namespace detail {

/// ± 1.fraction × 2^e in the low bits of a code; subnormal below e_min (bits are cut), zero below the smallest, the largest number beyond.
constexpr std::uint32_t code_of(stickybit::format_traits const& t, bool minus, int e, std::uint32_t fraction) noexcept {
  const int bits = t.fraction_bits();
  const std::uint32_t hidden = 1u << bits, f = fraction & (hidden - 1);
  std::uint32_t magnitude = 0;
  if (e > t.e_max()) magnitude = t.largest_magnitude();
  else if (e >= t.e_min()) magnitude = std::min(t.largest_magnitude(), std::uint32_t(e - t.e_min() + 1) * hidden + f);
  else if (e >= t.e_min() - bits) magnitude = (hidden + f) >> (t.e_min() - e);
  if (magnitude == 0 && !t.has_negative_zero()) minus = false;
  return magnitude << t.padding_bits | (minus ? 1u << (t.width_bits - 1) : 0);
}
constexpr std::uint32_t sign_of(stickybit::format_traits const& t) noexcept { return 1u << (t.width_bits - 1); }

inline double number_at(stickybit::format_traits const& t, std::uint32_t code) noexcept {
  const std::uint32_t magnitude = (code & (sign_of(t) - 1)) >> t.padding_bits, hidden = 1u << t.fraction_bits();
  const std::uint32_t field = magnitude >> t.fraction_bits(), fraction = magnitude & (hidden - 1);
  const double value = std::ldexp(double(field == 0 ? fraction : fraction + hidden), int(field == 0 ? 1 : field) - t.bias() - t.fraction_bits());
  return (code & sign_of(t)) != 0 ? -value : value;
}

struct unit_plan {
  unit_kind kind;
  int e;  ///< of the largest products, without scales
  bool minus;
  std::vector<int> product, row;
};

class unit_tile_maker {
 public:
  unit_tile_maker(random_bits& next, stickybit::machine_unit const& unit)
      : next_(next), unit_(unit), a_(stickybit::traits_of(unit.input)), b_(stickybit::traits_of(unit.input_b)), low_(lowest(a_) + lowest(b_)), high_(a_.e_max() + b_.e_max()) {}

  void fill(unit_kind kind, unit_tile& out) {
    const unit_plan p = plan(kind, exponent(), out.length);
    const bool mixed = next_.one_in(2);
    out.a.resize(std::size_t(out.rows * out.length));
    out.b.resize(std::size_t(out.columns * out.length));
    for (int i = 0; i < out.rows; ++i) operands(p, true, &out.a[std::size_t(i * out.length)]);
    for (int j = 0; j < out.columns; ++j) {
      unit_plan q = p;
      if (mixed && next_.one_in(4)) {
        q.kind = unit_kind(next_.below(std::uint32_t(unit_kinds.size())));
        if (next_.one_in(4)) q.e = exponent();
        products(q);
      }
      operands(q, false, &out.b[std::size_t(j * out.length)]);
    }
    scales(out);
    accumulators(p, out);
  }

 private:
  static int lowest(stickybit::format_traits const& t) { return t.e_min() - t.fraction_bits(); }

  /// The largest exponent: at the ends of what products have, at the ends of the fast range and of the alignment, at overflow, or anywhere.
  int exponent() {
    const int lowest_fast = unit_.alignment_fraction_bits - 126;
    const auto clipped = [&](int e) { return std::clamp(e, low_, high_); };
    switch (next_.below(10)) {
      case 0: return clipped(lowest_fast + next_.between(-3, 3));
      case 1: return clipped(next_.between(117, 132));
      case 2: return clipped(unit_.min_alignment_exponent + next_.between(-3, 3));
      case 3: return high_ - next_.between(0, 3);
      case 4: return low_ + next_.between(0, 12);
      case 5: return clipped(next_.between(11, 18));
      default: return clipped(next_.between(-30, 30));
    }
  }
  void products(unit_plan& p) {
    constexpr std::array<int, 8> carry_steps{0, 8, 12, 13, 22, 23, 24, 25};
    for (std::size_t k = 0; k < p.product.size(); ++k) {
      int& e = p.product[k];
      switch (p.kind) {
        case unit_kind::wide: e = p.e - next_.between(0, 50); break;
        case unit_kind::at_the_quantum: e = next_.one_in(3) ? p.e : p.e - unit_.alignment_fraction_bits + next_.between(-5, 4); break;
        case unit_kind::largest_sums: e = p.e; break;
        case unit_kind::carries: e = p.e - carry_steps[next_.below(8)]; break;
        case unit_kind::ties: e = p.e - (next_.one_in(4) ? next_.between(9, 14) : next_.between(0, 10)); break;
        default: e = p.e - next_.between(0, 4); break;
      }
      if (p.kind == unit_kind::cancelling && k % 2 == 1) e = p.product[k - 1];
    }
  }
  unit_plan plan(unit_kind kind, int e, int length) {
    unit_plan p{kind, e, next_.one_in(2), std::vector<int>(std::size_t(length)), std::vector<int>(std::size_t(length))};
    products(p);
    for (std::size_t k = 0; k < p.row.size(); ++k) {
      const int from = std::max(lowest(a_), p.product[k] - b_.e_max()), to = std::min(a_.e_max(), p.product[k] - lowest(b_));
      p.row[k] = from >= to ? a_.e_max() : std::clamp(p.product[k] / 2 + next_.between(-6, 6), from, to);
      if (kind == unit_kind::subnormal) p.row[k] = a_.e_min() - next_.between(0, a_.fraction_bits() + 1);
      if (kind == unit_kind::cancelling && k % 2 == 1) p.row[k] = p.row[k - 1];
    }
    return p;
  }
  std::uint32_t operand(unit_plan const& p, std::size_t k, bool row) {
    stickybit::format_traits const& t = row ? a_ : b_;
    const int e = row ? p.row[k] : p.product[k] - p.row[k];
    const bool any = next_.one_in(2);
    const std::uint32_t ones = (1u << t.fraction_bits()) - 1;
    switch (p.kind) {
      case unit_kind::any_bits: return std::uint32_t(next_()) & (sign_of(t) | (sign_of(t) - 1));
      case unit_kind::largest_sums: return code_of(t, row ? p.minus : false, e, ones - next_.below(next_.one_in(2) ? 1 : 3));
      case unit_kind::one_sign: return code_of(t, row ? p.minus : false, e, fraction_pattern(next_, t.fraction_bits()));
      case unit_kind::carries: return code_of(t, any, e, next_.one_in(3) ? ones : 0);
      case unit_kind::ties: return next_.one_in(4) ? 0 : code_of(t, any, e, next_.one_in(2) ? 0 : fraction_pattern(next_, t.fraction_bits()));
      case unit_kind::zeros: return next_.one_in(6) ? code_of(t, any, e, fraction_pattern(next_, t.fraction_bits())) : code_of(t, any, lowest(t) - 1, 0);
      default: return code_of(t, any, e + (p.kind == unit_kind::narrow ? next_.between(-1, 1) : 0), fraction_pattern(next_, t.fraction_bits()));
    }
  }
  void operands(unit_plan const& p, bool row, std::uint32_t* to) {
    stickybit::format_traits const& t = row ? a_ : b_;
    const std::size_t length = p.product.size();
    for (std::size_t k = 0; k < length; ++k) to[k] = operand(p, k, row);
    if (p.kind == unit_kind::cancelling)
      for (std::size_t k = 0; k + 1 < length; k += 2) to[k + 1] = row ? to[k] ^ sign_of(t) : to[k] ^ (next_.one_in(8) ? 1u << t.padding_bits : 0);
    if (p.kind == unit_kind::specials && next_.one_in(4))
      for (int i = next_.between(0, 2); i >= 0; --i) to[next_.below(std::uint32_t(length))] = special(t);
    if (t.padding_bits > 0 && next_.one_in(4))
      for (std::size_t k = 0; k < length; ++k) to[k] |= std::uint32_t(next_()) & ((1u << t.padding_bits) - 1);
  }
  /// Infinity or NaN where there are any, else a zero or the largest number.
  std::uint32_t special(stickybit::format_traits const& t) {
    const std::uint32_t sign = next_.one_in(2) ? sign_of(t) : 0;
    const std::uint32_t beyond = std::min(t.largest_magnitude() + 1, (sign_of(t) - 1) >> t.padding_bits);
    switch (next_.below(4)) {
      case 0: return sign | beyond << t.padding_bits;
      case 1: return t.has_negative_zero() ? sign : sign_of(t);
      case 2: return sign | (sign_of(t) - 1);
      default: return sign | t.largest_magnitude() << t.padding_bits;
    }
  }
  void scales(unit_tile& out) {
    if (unit_.scale_block == 0) return;
    const int count = (out.length + unit_.scale_block - 1) / unit_.scale_block;
    const bool far = next_.one_in(4), nan = next_.one_in(8);
    const int one = unit_.scale == stickybit::format::e8m0 ? 127 : 0x38, spread = far ? (one == 127 ? 120 : 50) : (one == 127 ? 3 : 12);
    const auto fill = [&](std::vector<std::uint8_t>& to, int lines) {
      to.resize(std::size_t(lines * count));
      for (std::uint8_t& s : to) {
        s = std::uint8_t(one + next_.between(-spread, spread));
        if (next_.one_in(16)) s = std::uint8_t(next_.below(256));
        if (!nan && (s == 0xff || (one != 127 && s == 0x7f))) s = std::uint8_t(one);
      }
    };
    fill(out.scale_a, out.rows);
    fill(out.scale_b, out.columns);
  }
  void accumulators(unit_plan const& p, unit_tile& out) {
    std::vector<double> a(out.a.size()), b(out.b.size());
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = number_at(a_, out.a[i]);
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = number_at(b_, out.b[i]);
    const auto length = std::size_t(out.length), width = std::size_t(out.columns);
    const std::uint32_t usual = next_.below(7);
    out.c.resize(std::size_t(out.rows) * width);
    for (std::size_t i = 0; i < out.c.size(); ++i) {
      const std::uint32_t kind = next_.one_in(8) ? next_.below(7) : usual;
      double sum = 0;
      if (kind == 3)
        for (std::size_t k = 0; k < length; ++k) sum += a[i / width * length + k] * b[i % width * length + k];
      out.c[i] = accumulator(p, kind, sum);
    }
  }
  std::uint32_t accumulator(unit_plan const& p, std::uint32_t kind, double products) {
    constexpr std::array<std::uint32_t, 6> half_tails{0, 0x1000, 0xfff, 0x1001, 1, 0x1fff};
    const bool minus = next_.one_in(2);
    switch (kind) {
      case 0: return minus ? 0x80000000 : 0;
      case 1: return f32_at(next_, p.e + next_.between(-unit_.alignment_fraction_bits - 18, 6));
      case 2: return code_at(p.minus, p.e + next_.between(-1, 3), 0x7fffff - next_.below(3), 23);
      case 3: return std::bit_cast<std::uint32_t>(-float(products)) + (next_.one_in(3) ? next_.below(3) - 1 : 0);
      case 4: return f32_anywhere(next_);
      case 5: return code_at(minus, std::min(p.e, 17) + next_.between(-14, 2), (fraction_pattern(next_, 10) << 13) + half_tails[next_.below(6)], 23);
      default: return f32_at(next_, next_.between(-150, 127));
    }
  }

  random_bits& next_;
  stickybit::machine_unit const& unit_;
  stickybit::format_traits a_, b_;
  int low_, high_;
};

}  // namespace detail

/// @pre out.rows, out.columns and out.length are set
inline void fill_unit_tile(random_bits& next, stickybit::machine_unit const& unit, unit_kind kind, unit_tile& out) { detail::unit_tile_maker(next, unit).fill(kind, out); }

}  // namespace testing
