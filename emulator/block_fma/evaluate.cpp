#include "stickybit/block_fma/evaluate.hpp"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>

#include "stickybit/format/with_format.hpp"
#include "stickybit/rounding/ieee_environment.hpp"

namespace stickybit {
namespace {

using detail::block_term;
using detail::special_state;

/// One scale, as an exponent and a significand: significand · 2^(exponent − fraction_bits).
struct scale_factor {
  int exponent = 0;
  std::uint64_t significand = 1;
  int fraction_bits = 0;
};

scale_factor scale_of(machine_unit const& unit, std::uint64_t code, special_state& special) {
  decoded d = decode_bits(unit.scale, std::uint32_t(code));
  if (d.kind == number_class::nan) special.nan = true;
  return {d.e, d.significand, traits_of(unit.scale).fraction_bits()};
}

block_term product_at(machine_unit const& unit, inner_product_operands const& x, std::size_t k, special_state& special) {
  const int scale_bits = traits_of(unit.input).fraction_bits() + traits_of(unit.input_b).fraction_bits();
  const auto operand = [&](format f, std::uint64_t code) {
    auto bits = std::uint32_t(code);
    if (f == format::tf32 && unit.tf32_rounding != rounding::toward_zero) bits = convert<format::tf32>(f32_code::from_bits(bits), unit.tf32_rounding).to_bits();
    return detail::operand_of(unit, decode_bits(f, bits), traits_of(f).fraction_bits());
  };
  return detail::product_term(operand(unit.input, x.a[k]), operand(unit.input_b, x.b[k]), scale_bits, special);
}

/// A product times its two scales, whose significands are 1.
block_term scaled_product_at(machine_unit const& unit, inner_product_operands const& x, std::size_t k, special_state& special) {
  const std::size_t at = k / std::size_t(unit.scale_block);
  block_term t = product_at(unit, x, k, special);
  t.exponent += scale_of(unit, x.scale_a[at], special).exponent + scale_of(unit, x.scale_b[at], special).exponent;
  return t;
}

/// A group's products added exactly, times its scales: the exponent is that of the scales alone.
block_term scaled_group(machine_unit const& unit, inner_product_operands const& x, std::size_t first, special_state& special) {
  std::int64_t sum = 0;  // in units of 2^-scale_bits
  int scale_bits = 0;
  for (std::size_t k = first; k < first + std::size_t(unit.group_size) && k < x.a.size(); ++k) {
    const block_term t = product_at(unit, x, k, special);
    const auto magnitude = std::int64_t(t.significand << t.exponent);  // E2M1: exponents 0 to 4
    sum += t.negative ? -magnitude : magnitude;
    scale_bits = t.scale_bits;
  }
  const std::size_t at = first / std::size_t(unit.scale_block);
  const scale_factor a = scale_of(unit, x.scale_a[at], special), b = scale_of(unit, x.scale_b[at], special);
  const std::uint64_t magnitude = sum < 0 ? std::uint64_t(-sum) : std::uint64_t(sum);
  return {sum < 0, a.exponent + b.exponent, scale_bits + a.fraction_bits + b.fraction_bits, magnitude * a.significand * b.significand};
}

f32_code sum_of_groups(machine_unit const& unit, inner_product_operands const& x, f32_code c) {
  const auto length = std::size_t(unit.block_size), group = std::size_t(unit.group_size);
  for (std::size_t first = 0; first < x.a.size(); first += length) {
    std::array<block_term, max_block_size> terms{};
    special_state special;
    std::size_t count = 0;
    for (std::size_t k = first; k < first + length && k < x.a.size(); k += group) terms[count++] = scaled_group(unit, x, k, special);
    c = detail::aligned_sum(unit, std::span<block_term const>(terms).first(count), special, c, null_sink{});
  }
  return c;
}

/// An FMA as FP64 tensor cores do it: IEEE's, and of NaN operands b's, else c's, else a's, made quiet, sign and payload kept; where no operand is
/// NaN, 0 times infinity and infinities of both signs give fff8000000000000.
/// @source measured on an H200: cuda/probe/log/probes.txt
double tensor_fma(double a, double b, double c) {
  constexpr std::uint64_t quiet = std::uint64_t{1} << 51, invalid = 0xfff8000000000000;
  for (double operand : {b, c, a})
    if (std::isnan(operand)) return std::bit_cast<double>(std::bit_cast<std::uint64_t>(operand) | quiet);
  const double result = std::fma(a, b, c);
  return std::isnan(result) ? std::bit_cast<double>(invalid) : result;
}

std::uint64_t fma_chain(inner_product_operands const& x) {
  const host::ieee_environment ieee;
  double sum = std::bit_cast<double>(x.c);
  for (std::size_t k = 0; k < x.a.size(); ++k) sum = tensor_fma(std::bit_cast<double>(x.a[k]), std::bit_cast<double>(x.b[k]), sum);
  return std::bit_cast<std::uint64_t>(sum);
}

void check(machine_unit const& unit, inner_product_operands const& x) {
  if (x.a.size() != x.b.size()) throw shape_error(fmt::format("{}: a has {} elements, b {}: expected as many", unit.name, x.a.size(), x.b.size()));
  const auto per_scale = std::size_t(unit.scale_block);
  const std::size_t scales = per_scale == 0 ? 0 : (x.a.size() + per_scale - 1) / per_scale;
  if (x.scale_a.size() != scales || x.scale_b.size() != scales)
    throw shape_error(fmt::format("{}: {} and {} scales for {} products: expected {} of each", unit.name, x.scale_a.size(), x.scale_b.size(), x.a.size(), scales));
}

/// decode() of every code of a format of at most 8 bits.
template <format F>
constexpr std::array<decoded, 256> decoded_codes = [] {
  std::array<decoded, 256> all{};
  for (std::uint32_t bits = 0; bits < 256; ++bits) all[bits] = decode(code<F>::from_bits(std::uint8_t(bits)));
  return all;
}();

}  // namespace

decoded decode_bits(format f, std::uint32_t bits) noexcept {
  return with_format(f, [bits]<format F>() {
    if constexpr (traits_of(F).width_bits <= 8) return decoded_codes<F>[bits & 0xff];
    else return decode(code_from<F>(bits));
  });
}

std::uint64_t evaluate(machine_unit const& unit, inner_product_operands const& x) {
  check(unit, x);
  if (unit.arithmetic == block_arithmetic::fma_chain) return fma_chain(x);
  const f32_code c = f32_code::from_bits(std::uint32_t(x.c));
  if (unit.arithmetic == block_arithmetic::grouped_sum) return sum_of_groups(unit, x, c).to_bits();
  detail::require_blocks(unit);
  const bool scaled = unit.is_scaled();
  const auto product = [&](std::size_t k, special_state& special) { return scaled ? scaled_product_at(unit, x, k, special) : product_at(unit, x, k, special); };
  return detail::chain_of_instructions(unit, x.a.size(), product, c, null_sink{}).to_bits();
}

}  // namespace stickybit
