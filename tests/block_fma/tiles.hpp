#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "stickybit/machine/unit.hpp"
#include "support/generators.hpp"

// Rows of A and columns of B, one block of 16 products each, so that every (row, column) is a case and most are hard: the exponents
// of row and column at each k add up to what one plan asks for, so all pairs cancel, tie, overflow or lie at the quantum together.

namespace testing {

/// A 16-bit format.
struct operand_format {
  int fraction_bits, e_min, e_max;
  [[nodiscard]] constexpr int lowest() const noexcept { return e_min - fraction_bits; }  ///< exponent of the smallest subnormal
  [[nodiscard]] constexpr std::uint16_t infinity() const noexcept { return std::uint16_t((e_max - e_min + 2) << fraction_bits); }
  [[nodiscard]] constexpr std::uint32_t ones() const noexcept { return (std::uint32_t{1} << fraction_bits) - 1; }
};
constexpr operand_format operands_of(stickybit::format f) noexcept { return f == stickybit::format::bf16 ? operand_format{7, -126, 127} : operand_format{10, -14, 15}; }

/// ± 1.fraction × 2^e; subnormal below e_min (bits are cut), zero below the smallest, the largest number beyond e_max.
constexpr std::uint16_t operand_at(operand_format f, bool minus, int e, std::uint32_t fraction) noexcept {
  const std::uint32_t hidden = f.ones() + 1, sign = minus ? 0x8000 : 0;
  if (e > f.e_max) return std::uint16_t(sign | (f.infinity() - 1u));
  if (e < f.lowest()) return std::uint16_t(sign);
  if (e < f.e_min) return std::uint16_t(sign | ((hidden + fraction) >> (f.e_min - e)));
  return std::uint16_t(sign | (std::uint32_t(e - f.e_min + 1) * hidden + fraction));
}

enum class tile_kind : std::uint8_t { narrow, wide, at_the_quantum, largest_sums, carries, cancelling, half_ties, zeros, any_bits, specials, subnormal };
inline constexpr std::array<char const*, 11> tile_kinds{"narrow",     "wide",      "at the quantum", "largest sums", "carries",
                                                        "cancelling", "FP16 ties", "zeros", "any bits", "specials", "subnormal"};

/// Codes: a[rows][16], b[columns][16], c[rows][columns] (FP32).
struct tile {
  int rows, columns;
  std::vector<std::uint16_t> a, b;
  std::vector<std::uint32_t> c;
};

namespace detail {

/// The numbers of a unit that the hard places depend on.
struct tile_unit {
  operand_format input;
  int fraction_bits, min_exponent;
  bool half_output;
};

/// Exponents of the products of one block, and of its rows' operands.
struct tile_plan {
  tile_kind kind;
  int e;  ///< of the largest products; half_ties: of the result
  bool minus, one_sign;
  std::uint32_t slack;  ///< of largest_sums: below the largest fraction by less than this
  std::array<int, 16> product, row;
};

/// The largest exponent of a tile: at the ends of the fast range, at the smallest alignment exponent, at overflow, or anywhere.
constexpr int tile_exponent(random_bits& next, tile_unit const& u) noexcept {
  const int lowest_fast = u.fraction_bits - 126;
  if (u.input.e_max == 15) {
    switch (next.below(4)) {
      case 0: return next.between(-24, -16);
      case 1: return next.between(11, 18);
      default: return next.between(-30, 30);
    }
  }
  switch (next.below(8)) {
    case 0: return lowest_fast + next.between(-3, 3);
    case 1: return next.between(117, 123);
    case 2: return next.between(123, 132);
    case 3: return next.between(-165, lowest_fast);
    case 4: return u.min_exponent + next.between(-3, 3);
    default: return next.between(lowest_fast, 120);
  }
}

/// Where the products of one kind lie, given the rows' exponents if there are rows already.
constexpr void plan_products(random_bits& next, tile_unit const& u, tile_plan& p) noexcept {
  constexpr std::array<int, 8> carry_steps{0, 8, 16, 23, 24, 25, 26, 27};
  const int quantum = std::max(p.e, -14) - 10;  // half_ties: of FP16's last bit
  for (std::size_t k = 0; k < 16; ++k) {
    int& e = p.product[k];
    switch (p.kind) {
      case tile_kind::wide: e = p.e - next.between(0, 50); break;
      case tile_kind::at_the_quantum: e = next.one_in(3) ? p.e : p.e - u.fraction_bits + next.between(-5, 4); break;
      case tile_kind::largest_sums: e = p.e; break;
      case tile_kind::carries: e = p.e - carry_steps[next.below(8)]; break;
      case tile_kind::half_ties: e = k % 8 == 0 ? quantum - 1 : k % 8 == 1 ? quantum - next.between(2, 26) : next.between(quantum, quantum + 10); break;
      default: e = p.e - next.between(0, 4); break;
    }
    if (p.kind == tile_kind::cancelling && k % 2 == 1) e = p.product[k - 1];
  }
}
constexpr tile_plan plan_tile(random_bits& next, tile_unit const& u, tile_kind kind, int e) noexcept {
  tile_plan p{kind, e, next.one_in(2), !next.one_in(4), 1u << (next.below(4) + std::uint32_t(u.input.fraction_bits - 7)), {}, {}};
  plan_products(next, u, p);
  for (std::size_t k = 0; k < 16; ++k) {
    const int lowest = std::max(u.input.lowest(), p.product[k] - u.input.e_max), highest = std::min(u.input.e_max, p.product[k] - u.input.lowest());
    p.row[k] = lowest >= highest ? u.input.e_max : std::clamp(p.product[k] / 2 + next.between(-6, 6), lowest, highest);
    if (kind == tile_kind::subnormal) p.row[k] = u.input.e_min - next.between(0, u.input.fraction_bits + 1);
    if (kind == tile_kind::cancelling && k % 2 == 1) p.row[k] = p.row[k - 1];
  }
  return p;
}

/// One operand; `row`: of A, else of B, whose sign is + where all products shall have one sign.
constexpr std::uint16_t tile_operand(random_bits& next, tile_unit const& u, tile_plan const& p, std::size_t k, bool row) noexcept {
  const operand_format f = u.input;
  const int e = row ? p.row[k] : p.product[k] - p.row[k];
  const bool any_sign = next.one_in(2), planned = row && p.minus;
  switch (p.kind) {
    case tile_kind::any_bits: return std::uint16_t(next());
    case tile_kind::largest_sums: return operand_at(f, p.one_sign ? planned : any_sign && row, e, f.ones() - next.below(p.slack));
    case tile_kind::carries: return operand_at(f, p.one_sign ? planned : any_sign, e, next.one_in(3) ? f.ones() : 0);
    case tile_kind::half_ties:
      if (row && k % 8 != 0 && next.one_in(2)) return 0;
      if (!row && k % 8 == 1) return operand_at(f, any_sign, e, next.one_in(2) ? 0 : fraction_pattern(next, f.fraction_bits));
      return operand_at(f, any_sign, e, 0);
    case tile_kind::zeros:
      if (!next.one_in(4)) return any_sign ? 0x8000 : 0;
      return operand_at(f, next.one_in(2), e, fraction_pattern(next, f.fraction_bits));
    default: return operand_at(f, any_sign, e + (p.kind == tile_kind::narrow ? next.between(-1, 1) : 0), fraction_pattern(next, f.fraction_bits));
  }
}
constexpr void fill_operands(random_bits& next, tile_unit const& u, tile_plan const& p, bool row, std::uint16_t* to) noexcept {
  for (std::size_t k = 0; k < 16; ++k) to[k] = tile_operand(next, u, p, k, row);
  if (p.kind == tile_kind::cancelling)
    for (std::size_t k = 0; k < 16; k += 2) {
      if (row) to[k + 1] = std::uint16_t(to[k] ^ 0x8000);
      else to[k + 1] = std::uint16_t(to[k] + (next.one_in(8) ? next.below(2) : 0));
    }
  if (p.kind == tile_kind::specials && next.one_in(4)) {
    const std::uint16_t infinity = u.input.infinity();
    const std::array<std::uint16_t, 6> special{infinity, std::uint16_t(infinity | 0x8000), std::uint16_t(infinity + 1), 0xffff, 0, 0x8000};
    for (int i = next.between(0, 2); i >= 0; --i) to[next.below(8)] = special[next.below(6)];
  }
}

inline double number_of(operand_format f, std::uint16_t code) noexcept {
  const std::uint32_t magnitude = code & 0x7fff, field = magnitude >> f.fraction_bits, fraction = magnitude & f.ones();
  const double value = std::ldexp(double(field == 0 ? fraction : fraction + f.ones() + 1), int(field == 0 ? 1 : field) + f.e_min - 1 - f.fraction_bits);
  return (code & 0x8000) != 0 ? -value : value;
}

enum class c_kind : std::uint8_t { zero, at_any_offset, at_the_top, cancelling, anywhere, half, half_multiple };

/// @param products about their sum, as a number
inline std::uint32_t fill_c(random_bits& next, tile_unit const& u, tile_plan const& p, c_kind kind, double products) noexcept {
  constexpr std::array<std::uint32_t, 6> half_tails{0, 0x1000, 0xfff, 0x1001, 1, 0x1fff};
  const bool minus = next.one_in(2);
  switch (kind) {
    case c_kind::zero: return minus ? 0x80000000 : 0;
    case c_kind::at_any_offset: return f32_at(next, p.e + next.between(-u.fraction_bits - 18, 4));
    case c_kind::at_the_top: return code_at(p.minus, p.e + next.between(-1, 1), 0x7fffff - next.below(3), 23);
    case c_kind::cancelling: return std::bit_cast<std::uint32_t>(-float(products)) + (next.one_in(3) ? next.below(3) - 1 : 0);
    case c_kind::anywhere: return f32_anywhere(next);
    case c_kind::half: return code_at(minus, std::min(p.e, 17) + next.between(-14, 2), (fraction_pattern(next, 10) << 13) + half_tails[next.below(6)], 23);
    case c_kind::half_multiple: break;
  }
  const int quantum = std::max(p.e, -14) - 10, e = quantum + next.between(0, 11);  // a multiple of FP16's last bit at 2^p.e
  return code_at(minus, e, (next.one_in(2) ? 0x7fffffu : std::uint32_t(next()) & 0x7fffff) & ~(0x7fffffu >> std::min(e - quantum, 23)), 23);
}

}  // namespace detail

/// Rows and columns of one kind at one exponent; some columns take another kind, so that fast and rare ones meet in a vector.
/// @param block_size  products that c may cancel: the first of each row
inline void fill_tile(random_bits& next, stickybit::machine_unit const& unit, tile_kind kind, int block_size, tile& out) {
  using namespace detail;
  const tile_unit u{operands_of(unit.input), unit.alignment_fraction_bits, unit.min_alignment_exponent, unit.output == stickybit::format::f16};
  const int result = next.one_in(4) ? 15 : next.between(-18, 15);  // exponent of an FP16 result
  const tile_plan p = plan_tile(next, u, kind, kind == tile_kind::half_ties ? result : tile_exponent(next, u));
  const bool mixed = next.one_in(2);
  out.a.resize(std::size_t(out.rows) * 16);
  out.b.resize(std::size_t(out.columns) * 16);
  out.c.resize(std::size_t(out.rows * out.columns));
  for (int i = 0; i < out.rows; ++i) fill_operands(next, u, p, true, &out.a[std::size_t(i) * 16]);
  for (int j = 0; j < out.columns; ++j) {
    tile_plan q = p;
    if (mixed && next.one_in(4)) {
      q.kind = tile_kind(next.below(std::uint32_t(tile_kinds.size())));
      if (next.one_in(4)) q.e = tile_exponent(next, u);
      plan_products(next, u, q);
    }
    fill_operands(next, u, q, false, &out.b[std::size_t(j) * 16]);
  }

  std::vector<double> a(out.a.size()), b(out.b.size());
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = number_of(u.input, out.a[i]);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = number_of(u.input, out.b[i]);
  const auto any_kind = [&] { return c_kind(next.below(u.half_output ? 7 : 5)); };
  const c_kind usual = kind == tile_kind::half_ties ? c_kind::half_multiple : any_kind();
  for (std::size_t i = 0; i < std::size_t(out.rows); ++i)
    for (std::size_t j = 0; j < std::size_t(out.columns); ++j) {
      const c_kind here = next.one_in(8) ? any_kind() : usual;
      double products = 0;
      if (here == c_kind::cancelling)
        for (std::size_t k = 0; k < std::size_t(block_size); ++k) products += a[i * 16 + k] * b[j * 16 + k];
      out.c[i * std::size_t(out.columns) + j] = fill_c(next, u, p, here, products);
    }
}

}  // namespace testing
