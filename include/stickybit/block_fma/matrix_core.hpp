#pragma once
#include <array>
#include <cstdint>
#include <span>

#include "stickybit/block_fma/block_terms.hpp"
#include "stickybit/machine/unit.hpp"
#include "stickybit/rounding/arithmetic.hpp"
#include "stickybit/rounding/round_pack.hpp"

// AMD's matrix cores (MFMA). Nothing here was run by us: the rules are two published models'.
// @source MMA-Sim (c785138 simulator/amd.py, 735c9b7 mmasim/arithmetic/), MATLAB-tensor-core before d12a5b3 models/MI300MC.m

namespace stickybit::detail {

/// An exact sum of terms whose bits lie in 2^-384 .. 2^384: two's complement over twelve words.
class wide_sum {
 public:
  /// @pre t.significand < 2^48, its lowest bit at 2^-384 or above, |value| < 2^380
  constexpr void add(block_term const& t) noexcept {
    if (t.significand == 0) return;
    const int low = t.exponent - t.scale_bits + zero_at;
    const auto word = std::size_t(low / 64);
    const int shift = low % 64;
    const std::uint64_t parts[2] = {t.significand << shift, shift == 0 ? 0 : t.significand >> (64 - shift)};
    std::uint64_t carry = t.negative;
    for (std::size_t i = 0; i < words_.size(); ++i) {
      const std::uint64_t part = i >= word && i < word + 2 ? parts[i - word] : 0, addend = t.negative ? ~part : part;
      const std::uint64_t partial = words_[i] + addend, total = partial + carry;
      carry = std::uint64_t(partial < addend) | std::uint64_t(total < carry);
      words_[i] = total;
    }
  }
  [[nodiscard]] constexpr bool negative() const noexcept { return words_.back() >> 63 != 0; }
  /// The sum rounded once, to nearest even; a zero is +0.
  [[nodiscard]] constexpr f32_code rounded() const noexcept {
    std::array<std::uint64_t, 12> magnitude = words_;
    if (negative()) {
      std::uint64_t carry = 1;
      for (std::uint64_t& w : magnitude) {
        w = ~w + carry;
        carry = carry != 0 && w == 0;
      }
    }
    std::size_t top = magnitude.size();
    while (top > 0 && magnitude[top - 1] == 0) --top;
    if (top == 0) return f32_code::zero();
    // The leading 64 bits, and a mark for whatever lies below.
    const int lead = bit_width_of(magnitude[top - 1]);
    std::uint64_t leading = magnitude[top - 1] << (64 - lead), below = 0;
    if (top > 1) {
      leading |= lead == 64 ? 0 : magnitude[top - 2] >> lead;
      below = lead == 64 ? magnitude[top - 2] : magnitude[top - 2] << (64 - lead);
    }
    for (std::size_t i = 0; i + 2 < top; ++i) below |= magnitude[i];
    return round_pack<format::f32>({}, negative(), int(top) * 64 - 64 + lead - 64 - zero_at, leading | std::uint64_t(below != 0));
  }

 private:
  static constexpr int zero_at = 384;
  std::array<std::uint64_t, 12> words_{};
};

/// CDNA1: products and c are added exactly and rounded once, to nearest even.
constexpr f32_code exact_sum(machine_unit const&, std::span<block_term const> products, special_state special, f32_code c) {
  const block_term accumulator = accumulator_term<format::f32>(c, special);
  if (special.any()) return special.result();
  wide_sum sum;
  for (block_term const& t : products) sum.add(t);
  sum.add(accumulator);
  return sum.rounded();
}

/// CDNA2: every product is rounded to FP32, then sums of two, of two sums, and c plus that. Subnormal operands and c count as +0;
/// whatever is below 2^-126 becomes the zero of its sign.
constexpr f32_code rounded_tree(machine_unit const& unit, std::span<block_term const> products, special_state special, f32_code c) {
  const subnormals rule = unit.flushes_subnormals ? subnormals::flushed : subnormals::kept;
  const auto flushed = [&](f32_code x) { return unit.flushes_subnormals && x.is_subnormal() ? f32_code::zero(x.negative()) : x; };
  const auto sum = [&](f32_code x, f32_code y) { return flushed(add(x, y, subnormals::kept)); };
  if (special.any()) return sum(c, special.result());
  std::array<f32_code, max_block_size> level{};
  std::size_t count = products.size();
  for (std::size_t k = 0; k < count; ++k) level[k] = round_pack<format::f32>({.subnormal = rule}, products[k].negative, products[k].exponent - products[k].scale_bits, products[k].significand);
  for (; count > 1; count /= 2)
    for (std::size_t i = 0; i < count / 2; ++i) level[i] = sum(level[2 * i], level[2 * i + 1]);
  const bool drops_c = unit.flushes_subnormals && c.is_subnormal();
  return sum(drops_c ? f32_code::zero() : c, level[0]);
}

/// Magnitudes cut toward zero at 2^quantum_exponent and added.
struct stage_sum {
  std::int64_t sum = 0;
  int exponent = 0;  ///< E, the largest among the terms; of no meaning when there are none
  bool empty = true;
};
constexpr stage_sum cut_and_add(std::span<block_term const> products, std::size_t first, std::size_t step, int fraction_bits) {
  stage_sum s;
  for (std::size_t k = first; k < products.size(); k += step)
    if (products[k].significand != 0 && (s.empty || products[k].exponent > s.exponent)) {
      s.exponent = products[k].exponent;
      s.empty = false;
    }
  for (std::size_t k = first; k < products.size() && !s.empty; k += step) {
    block_term const& t = products[k];
    const int shift = t.exponent - t.scale_bits - (s.exponent - fraction_bits);
    const std::uint64_t kept = shift >= 0 ? t.significand << shift : -shift < 64 ? t.significand >> -shift : 0;
    s.sum += t.negative ? -std::int64_t(kept) : std::int64_t(kept);
  }
  return s;
}

/// value · 2^-shift toward −∞, or times 2^-shift where that is negative.
constexpr std::int64_t floor_shift(std::int64_t value, int shift) noexcept {
  if (shift <= 0) return std::int64_t(std::uint64_t(value) << -shift);
  return shift > 63 ? (value < 0 ? -1 : 0) : value >> shift;
}

/// CDNA3: products cut toward zero at 2^(E−F), E the largest exponent among them, and added (even and odd k apart, then both toward −∞ at
/// 2^(E−F), for FP8); that sum toward −∞ at 2^(E'−sum_fraction_bits) and c at 2^(E'−F), E' the larger exponent, are added and rounded to nearest even.
/// c = 0 has the exponent −126. With FP8, a c more than F + 1 below E' is dropped.
constexpr f32_code two_stage_sum(machine_unit const& unit, std::span<block_term const> products, special_state special, f32_code c) {
  const int f = unit.alignment_fraction_bits, f_sum = unit.sum_fraction_bits;
  for (block_term const& t : products) {
    const int top = t.significand == 0 ? -1000 : t.exponent - t.scale_bits + bit_width_of(t.significand) - 1;
    if (top >= 128) special.see_infinity(t.negative);
  }
  const block_term accumulator = accumulator_term<format::f32>(c, special);
  if (special.any()) return special.result();
  const bool apart = unit.order == product_order::even_odd;
  stage_sum s = cut_and_add(products, 0, apart ? 2 : 1, f);
  if (apart) {
    const stage_sum odd = cut_and_add(products, 1, 2, f);
    const int e = s.empty || (!odd.empty && odd.exponent > s.exponent) ? odd.exponent : s.exponent;
    s = {(s.empty ? 0 : floor_shift(s.sum, e - s.exponent)) + (odd.empty ? 0 : floor_shift(odd.sum, e - odd.exponent)), e, s.empty && odd.empty};
  }
  const int e = s.empty || accumulator.exponent > s.exponent ? accumulator.exponent : s.exponent;
  const std::int64_t sum = s.empty ? 0 : floor_shift(s.sum, (e - s.exponent) - (f_sum - f));
  const std::int64_t significand = accumulator.negative ? -std::int64_t(accumulator.significand) : std::int64_t(accumulator.significand);
  const bool dropped = apart && e - accumulator.exponent > f + 1;
  const std::int64_t cut = dropped ? 0 : floor_shift(significand, (e - accumulator.exponent) - (f - accumulator.scale_bits));
  const std::int64_t total = sum + floor_shift(cut, f - f_sum);
  const f32_code result = round_pack<format::f32>({}, total < 0, e - f_sum, total < 0 ? std::uint64_t(-total) : std::uint64_t(total));
  return result.is_zero() ? f32_code::zero() : result;
}

}  // namespace stickybit::detail
