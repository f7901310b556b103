#include "unit_forms.hpp"

#include <cmath>
#include <numeric>
#include <span>

#include "stickybit/block_fma/block_fma.hpp"
#include "stickybit/block_fma/evaluate.hpp"

namespace stickybit::detail {
namespace {

bool has_fast_output(machine_unit const& u) {
  const int lowest = lowest_fast_exponent(u.alignment_fraction_bits);
  if (u.output == format::f16) return u.output_rounding == rounding::nearest_even && u.min_alignment_exponent >= lowest && u.min_alignment_exponent <= highest_fast_exponent;
  return u.output == format::f32 && u.output_rounding == rounding::toward_zero && u.min_alignment_exponent <= lowest && u.output_fraction_bits >= 1;
}

/// Are products of two operands exact in FP32 with 22 bits? Every format of at most 11 significand bits.
bool is_narrow(format f) { return is_operand_format(f) && traits_of(f).precision() <= 11; }

bool is_for_blocks(machine_unit const& u) {
  const int n = u.block_size, f = u.alignment_fraction_bits;
  const bool block = n == 4 || n == 8 || n == 16 || n == 32;
  // Sums of 16 products must fit into 31 bits.
  const bool sums = f >= 8 && f <= 27 && std::int64_t{n < 16 ? n : 16} << f <= std::int64_t{1} << 29;
  // A product below 2^-126 may count once it is scaled, so there must be none.
  const bool small = traits_of(u.input).exponent_bits <= 5 && traits_of(u.input_b).exponent_bits <= 5;
  const bool scales = u.scale_block == 0 || (n == 32 && small && u.scale == format::e8m0 && u.scale_block % n == 0 && k_chunk % u.scale_block == 0 && u.output == format::f32);
  const bool order = u.order == product_order::ascending || (u.order == product_order::pairs && n == 16 && u.scale_block == 0);
  const bool place = u.accumulator == accumulator_place::aligned || (k_chunk % u.instruction_k == 0 && u.scale_block == 0);
  const bool result = u.output == format::f16 || u.output_fraction_bits >= 23 || (n >= 16 && u.order == product_order::ascending && u.scale_block == 0);
  const auto converted = [](format f) { return f == format::e4m3fn || f == format::e5m2; };  // whose exponents in FP16 the loop is given
  const bool operands = !u.converts_to_f16 || (converted(u.input) && converted(u.input_b));
  return u.has_usual_rules() && operands && block && sums && scales && order && place && result && !u.flushes_subnormals && has_fast_output(u) && is_narrow(u.input) && is_narrow(u.input_b);
}

bool is_for_groups(machine_unit const& u) {
  const bool scales = (u.scale_block == 16 || u.scale_block == 32 || u.scale_block == 64) && (u.scale == format::e8m0 || u.scale == format::e4m3fn);
  const bool numbers = u.alignment_fraction_bits >= 8 && u.alignment_fraction_bits <= 36 && u.min_alignment_exponent >= -200 && u.min_alignment_exponent <= 0;
  const bool output = u.output == format::f32 && u.output_rounding == rounding::toward_zero && u.output_fraction_bits >= 23;  // subnormal results have fewer bits than the mask keeps
  return u.has_usual_rules() && u.input == format::e2m1 && u.input_b == format::e2m1 && u.block_size == 64 && u.group_size == 16 && scales && numbers && output && !u.flushes_subnormals;
}

bool is_for_tree(machine_unit const& u) {
  return u.has_usual_rules() && (u.block_size == 2 || u.block_size == 4) && u.output == format::f32 && u.flushes_subnormals && u.scale_block == 0 && u.accumulator == accumulator_place::aligned &&
         u.order == product_order::ascending && is_narrow(u.input) && u.input == u.input_b;
}

std::uint32_t kept_bits_of(machine_unit const& u) { return u.output_fraction_bits >= 23 ? 0xffffffff : ~((1u << (23 - u.output_fraction_bits)) - 1); }

template <format In>
f32_code typed_block(machine_unit const& unit, block_codes const& x, f32_code c) {
  std::array<code<In>, max_block_size> a{}, b{};
  const auto n = std::size_t(unit.block_size);
  for (std::size_t k = 0; k < n; ++k) {
    a[k] = code<In>::from_bits(typename code<In>::bits_type(x.a[k]));
    b[k] = code<In>::from_bits(typename code<In>::bits_type(x.b[k]));
  }
  return block_fma<In>(unit, std::span<code<In> const>(a).first(n), std::span<code<In> const>(b).first(n), c);
}

}  // namespace

fast_form fast_form_of(machine_unit const& u) {
  if (u.arithmetic == block_arithmetic::aligned_sum && is_for_blocks(u)) return fast_form::blocks;
  if (u.arithmetic == block_arithmetic::grouped_sum && is_for_groups(u)) return fast_form::groups;
  if (u.arithmetic == block_arithmetic::rounded_tree && is_for_tree(u)) return fast_form::tree;
  return fast_form::none;
}

fast_unit numbers_for_blocks(machine_unit const& u) {
  return {u.block_size, u.alignment_fraction_bits, u.output == format::f16, u.min_alignment_exponent, kept_bits_of(u), u.order == product_order::pairs, u.scale_block};
}
group_unit numbers_for_groups(machine_unit const& u) { return {u.alignment_fraction_bits, u.min_alignment_exponent, u.scale_block, kept_bits_of(u)}; }
tree_unit numbers_for_tree(machine_unit const& u) { return {u.block_size, std::ldexp(1.0f, traits_of(u.input).e_min())}; }

std::int64_t step_of_k(machine_unit const& u) {
  const std::int64_t step = std::lcm(std::int64_t{16}, std::int64_t{has_whole_instructions(u) ? u.instruction_k : u.block_size});
  return u.scale_block > 0 ? std::lcm(step, std::int64_t{u.scale_block}) : step;
}

std::uint64_t code_mask(format f) noexcept {
  const format_traits t = traits_of(f);
  const std::uint64_t width = t.width_bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << t.width_bits) - 1;
  return width & ~((std::uint64_t{1} << t.padding_bits) - 1);
}

std::int16_t e2m1_halves(std::uint32_t bits) noexcept {
  constexpr std::array<std::int16_t, 8> halves{0, 1, 2, 3, 4, 6, 8, 12};
  const std::int16_t magnitude = halves[bits & 7];
  return (bits & 8) != 0 ? std::int16_t(-magnitude) : magnitude;
}

std::int16_t exponent_in_f16(std::uint32_t e4m3, std::int16_t otherwise) noexcept {
  const std::uint32_t magnitude = e4m3 & 0x7f;
  return magnitude == 0 || magnitude >= 8 ? otherwise : std::int16_t(bit_width_of(magnitude) - 10);
}

scale_number scale_number_of(format f, std::uint32_t bits) noexcept {
  const decoded d = decode_bits(f, bits);
  if (d.kind == number_class::nan || d.kind == number_class::infinite) return {exponent_of_special, 0};
  if (d.significand == 0) return {exponent_of_zero, 0};
  return {std::int16_t(d.e), std::ldexp(double(d.significand), d.e - traits_of(f).fraction_bits())};
}
std::uint32_t scale_one(format f) noexcept {
  const format_traits t = traits_of(f);
  return std::uint32_t(t.bias()) << t.fraction_bits() << t.padding_bits;
}

machine_unit block_unit(machine_unit const& unit) {
  machine_unit one = unit;
  one.instruction_k = unit.block_size;
  one.accumulator = accumulator_place::aligned;
  if (unit.order == product_order::pairs) one.order = product_order::ascending;
  return one;
}

f32_code defined_block_of(machine_unit const& unit, block_codes const& x, f32_code c) {
  const bool plain = unit.arithmetic == block_arithmetic::aligned_sum && unit.scale_block == 0 && unit.input == unit.input_b;
  if (plain && unit.input == format::bf16) return typed_block<format::bf16>(unit, x, c);
  if (plain && unit.input == format::f16) return typed_block<format::f16>(unit, x, c);
  const auto n = std::size_t(unit.block_size), scales = unit.scale_block == 0 ? 0 : (n + std::size_t(unit.scale_block) - 1) / std::size_t(unit.scale_block);
  const auto first = [](std::array<std::uint64_t, 64> const& all, std::size_t count) { return std::span<std::uint64_t const>(all).first(count); };
  return f32_code::from_bits(std::uint32_t(evaluate(unit, {first(x.a, n), first(x.b, n), first(x.scale_a, scales), first(x.scale_b, scales), c.to_bits()})));
}

}  // namespace stickybit::detail
