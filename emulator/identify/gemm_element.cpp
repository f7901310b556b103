#include "identify/gemm_element.hpp"

#include <algorithm>
#include <bit>

#include "stickybit/rounding/arithmetic.hpp"
#include "stickybit/rounding/host_arithmetic.hpp"

namespace stickybit::detail {
namespace {

constexpr std::int32_t no_exponent = -100000;  // of a zero: below every other, and shifted out
constexpr format_traits f32_traits = traits_of(format::f32), f16_traits = traits_of(format::f16);

template <format F>
decoded decoded_operand(std::uint32_t bits, operand_rounding how) {
  if constexpr (F == format::tf32) {
    const f32_code wide = f32_code::from_bits(bits);
    if (how == operand_rounding::nearest_even) return decode(convert<format::tf32>(wide));
    if (how == operand_rounding::nearest_away) return decode(convert<format::tf32>(wide, rounding::nearest_away));
  }
  return decode(code<F>::from_bits(typename code<F>::bits_type(bits)));
}

decoded decoded_as(format f, std::uint32_t bits, operand_rounding how) {
  if (f == format::bf16) return decoded_operand<format::bf16>(bits, how);
  if (f == format::f16) return decoded_operand<format::f16>(bits, how);
  return decoded_operand<format::tf32>(bits, how);
}

f32_code widened(format input, std::uint32_t bits) {
  if (input == format::bf16) return widen(bf16_code::from_bits(std::uint16_t(bits)));
  if (input == format::f16) return convert<format::f32>(f16_code::from_bits(std::uint16_t(bits)));
  return f32_code::from_bits(bits);
}

bool is_finite(decoded d) { return d.kind != number_class::nan && d.kind != number_class::infinite; }

}  // namespace

element_products::element_products(chain_unit const& by, format input, std::span<std::uint32_t const> a, std::span<std::uint32_t const> b) : unit_(by.unit) {
  if (unit_ == nullptr) {
    for (std::uint32_t bits : a) a_.push_back(widened(input, bits));
    for (std::uint32_t bits : b) b_.push_back(widened(input, bits));
    finite_ = host::is_ieee();
    return;
  }
  const bool plain = unit_->accumulator == accumulator_place::aligned && unit_->output_fraction_bits == f32_traits.fraction_bits();
  product_fraction_bits_ = 2 * traits_of(unit_->input).fraction_bits();
  // 22 bits of product below 2^25, and at most 32 of them, fit into 63 bits with room.
  finite_ = plain && unit_->alignment_fraction_bits >= f32_traits.fraction_bits() && unit_->alignment_fraction_bits <= 32;
  exponents_.reserve(a.size());
  significands_.reserve(a.size());
  for (std::size_t k = 0; k < a.size(); ++k) {
    const decoded x = decoded_as(unit_->input, a[k], by.operands), y = decoded_as(unit_->input, b[k], by.operands);
    finite_ &= is_finite(x) && is_finite(y);
    const auto magnitude = std::int32_t(x.significand * y.significand);
    exponents_.push_back(magnitude == 0 ? no_exponent : x.e + y.e);
    significands_.push_back(x.negative != y.negative ? -magnitude : magnitude);
  }
}

/// The sum rounded once to the unit's output.
bool element_products::pack(std::int64_t sum, int quantum, running& result) const {
  const bool half = unit_->output == format::f16;
  const auto magnitude = std::uint64_t(sum < 0 ? -sum : sum);
  if (magnitude == 0) {
    result = {no_exponent, 0, false};
    return true;
  }
  const int top = quantum + int(std::bit_width(magnitude)) - 1;
  format_traits const& out = half ? f16_traits : f32_traits;
  if (!half && top < out.e_min()) return false;
  const int lowest = std::max(top, out.e_min()) - out.fraction_bits(), drop = lowest - quantum;
  // drop < 64: the quantum lies at most F + 6 bits below the top, or the clamp's 2^-46 below FP16's smallest.
  const std::uint64_t kept = drop >= 0 ? round_shift(unit_->output_rounding, magnitude, drop, sum < 0) : magnitude << -drop;
  if (kept == 0) {
    result = {no_exponent, 0, false};
    return true;
  }
  const int exponent = std::max(lowest + int(std::bit_width(kept)) - 1, out.e_min());
  if (exponent > out.e_max()) return false;
  const int up = f32_traits.fraction_bits() - (exponent - lowest);  // negative by one where rounding reached the next power of two
  result = {exponent, std::uint32_t(up >= 0 ? kept << up : kept >> -up), sum < 0};
  return true;
}

bool element_products::step(std::int64_t begin, std::int64_t end, running& sum) const {
  std::int32_t top = std::max(unit_->min_alignment_exponent, sum.exponent);
  for (std::int64_t k = begin; k < end; ++k) top = std::max(top, exponents_[std::size_t(k)]);
  const int up = unit_->alignment_fraction_bits - product_fraction_bits_;
  std::int64_t total = 0;
  for (std::int64_t k = begin; k < end; ++k) {
    const std::int32_t signed_significand = significands_[std::size_t(k)], sign = signed_significand >> 31;
    const auto magnitude = std::int64_t((signed_significand ^ sign) - sign);
    const std::int32_t down = std::min(top - exponents_[std::size_t(k)], 63);
    const std::int64_t kept = (up >= 0 ? magnitude << up : magnitude >> -up) >> down;  // two cuts toward zero are one
    total += (kept ^ sign) - sign;
  }
  const std::int64_t c = (std::int64_t(sum.significand) << (unit_->alignment_fraction_bits - f32_traits.fraction_bits())) >> std::min(top - sum.exponent, 63);
  total += sum.negative ? -c : c;
  return pack(total, top - unit_->alignment_fraction_bits, sum);
}

bool element_products::fma_step(std::int64_t begin, std::int64_t end, f32_code& sum) const {
  for (std::int64_t k = begin; k < end; ++k) sum = host::fma(a_[std::size_t(k)], b_[std::size_t(k)], sum);
  return true;
}

std::optional<element_products::running> element_products::start(f32_code c) const {
  const decoded d = unit_->output == format::f16 ? decode(convert<format::f32>(convert<format::f16>(c))) : decode(c);
  if (!is_finite(d) || d.kind == number_class::subnormal) return std::nullopt;
  if (d.kind == number_class::zero) return running{no_exponent, 0, false};
  if (unit_->output == format::f16 && d.e < f16_traits.e_min())  // an FP16 subnormal has the exponent of the smallest normal
    return running{f16_traits.e_min(), d.significand >> (f16_traits.e_min() - d.e), d.negative};
  return running{d.e, d.significand, d.negative};
}

f32_code element_products::code_of(running sum) {
  if (sum.significand == 0) return f32_code::zero();
  const int up = f32_traits.fraction_bits() + 1 - int(std::bit_width(sum.significand));
  const std::uint32_t fraction = (sum.significand << up) & ((1u << f32_traits.fraction_bits()) - 1);
  return f32_code::from_bits((sum.negative ? 0x80000000u : 0u) | std::uint32_t(sum.exponent - up + f32_traits.bias()) << f32_traits.fraction_bits() | fraction);
}

std::optional<f32_code> element_products::chain(std::span<k_run const> runs, f32_code c) const {
  if (!finite_) return std::nullopt;
  if (unit_ == nullptr) {
    for (k_run run : runs) (void)fma_step(run.begin, run.end, c);
    return c;
  }
  std::optional<running> sum = start(c);
  if (!sum) return std::nullopt;
  for (k_run run : runs)
    for (std::int64_t k = run.begin; k < run.end; k += unit_->block_size)
      if (!step(k, std::min(k + unit_->block_size, run.end), *sum)) return std::nullopt;
  return runs.empty() ? c : code_of(*sum);
}

bool element_products::chain_ends(std::int64_t begin, std::int64_t step_k, std::span<f32_code> ends) const {
  if (!finite_) return false;
  const auto length = std::int64_t(unit_ == nullptr ? a_.size() : exponents_.size());
  f32_code fma_sum = f32_code::zero();
  running sum{no_exponent, 0, false};
  std::int64_t k = begin;
  for (f32_code& end : ends) {
    const std::int64_t to = std::min(k + step_k, length);
    if (unit_ == nullptr) (void)fma_step(k, to, fma_sum);
    else
      for (; k < to; k += unit_->block_size)
        if (!step(k, std::min(k + unit_->block_size, to), sum)) return false;
    k = to;
    end = unit_ == nullptr ? fma_sum : code_of(sum);
  }
  return true;
}

}  // namespace stickybit::detail
