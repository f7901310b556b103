#pragma once
#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "stickybit/machine/machine.hpp"

// How the machine files write their units down.

namespace stickybit::detail {

/// What the tensor cores of one NVIDIA generation share.
struct generation {
  int fraction_bits;  ///< F
  int clamp_f32;      ///< smallest alignment exponent with FP32 results
  int clamp_f16;      ///< with FP16 results
};

/// An instruction's length: whole blocks.
struct instruction_shape {
  std::string_view name;
  int block_size;
  int k = block_size;
};

/// FP32 results are cut, FP16 results rounded to nearest even; c is a term.
constexpr machine_unit nvidia_unit(generation const& g, std::string_view name, instruction_shape shape, format input, format output, std::span<fact const> facts) {
  const bool half = output == format::f16;
  return {.name = name,
          .instruction = shape.name,
          .input = input,
          .output = output,
          .block_size = shape.block_size,
          .alignment_fraction_bits = g.fraction_bits,
          .min_alignment_exponent = half ? g.clamp_f16 : g.clamp_f32,
          .output_rounding = half ? rounding::nearest_even : rounding::toward_zero,
          .accumulator = accumulator_place::aligned,
          .facts = facts,
          .instruction_k = shape.k};
}

/// FP8 with a data path of its own: 13 fraction bits in the alignment and in an FP32 result.
constexpr machine_unit narrow_unit(machine_unit unit) {
  unit.alignment_fraction_bits = 13;
  if (unit.output == format::f32) unit.output_fraction_bits = 13;
  return unit;
}

/// FP8 by the FP16 unit: two blocks of 16 from 0, pairs of k, c added last.
constexpr machine_unit converted_unit(machine_unit unit) {
  unit.block_size = unit.instruction_k / 2;
  unit.order = product_order::pairs;
  unit.accumulator = accumulator_place::added_last;
  unit.converts_to_f16 = true;
  return unit;
}

/// An E8M0 scale of A and one of B for every 32 products.
constexpr machine_unit scaled_unit(machine_unit unit) {
  unit.scale_block = 32;
  return unit;
}

/// FP4 with scales: 64 products in groups of 16.
constexpr machine_unit fp4_unit(std::string_view name, std::string_view instruction, int scale_block, format scale, std::span<fact const> facts) {
  machine_unit unit = nvidia_unit({35, -133, -21}, name, {instruction, 64}, format::e2m1, format::f32, facts);
  unit.arithmetic = block_arithmetic::grouped_sum;
  unit.scale_block = scale_block;
  unit.scale = scale;
  unit.group_size = 16;
  return unit;
}

/// FP64: an IEEE FMA a product. The numbers of the alignment mean nothing.
constexpr machine_unit fp64_unit(std::string_view name, std::string_view instruction, std::span<fact const> facts) {
  machine_unit unit = nvidia_unit({52, -1022, -1022}, name, {instruction, 1}, format::f64, format::f64, facts);
  unit.output_rounding = rounding::nearest_even;
  unit.output_fraction_bits = 52;
  unit.arithmetic = block_arithmetic::fma_chain;
  return unit;
}

/// Formats of A and B, and their name in a unit's.
struct input_pair {
  std::string_view name;
  format a, b;
};

inline constexpr std::array fp8_pairs{
    input_pair{"e4m3", format::e4m3fn, format::e4m3fn},
    input_pair{"e5m2", format::e5m2, format::e5m2},
    input_pair{"e4m3xe5m2", format::e4m3fn, format::e5m2},
    input_pair{"e5m2xe4m3", format::e5m2, format::e4m3fn},
};

/// Every pair of FP8, FP6 and FP4, the FP8 pairs first.
inline constexpr std::array f8f6f4_pairs{
    fp8_pairs[0],
    fp8_pairs[1],
    fp8_pairs[2],
    fp8_pairs[3],
    input_pair{"e3m2", format::e3m2, format::e3m2},
    input_pair{"e2m3", format::e2m3, format::e2m3},
    input_pair{"e2m1", format::e2m1, format::e2m1},
    input_pair{"e4m3xe3m2", format::e4m3fn, format::e3m2},
    input_pair{"e4m3xe2m3", format::e4m3fn, format::e2m3},
    input_pair{"e4m3xe2m1", format::e4m3fn, format::e2m1},
    input_pair{"e5m2xe3m2", format::e5m2, format::e3m2},
    input_pair{"e5m2xe2m3", format::e5m2, format::e2m3},
    input_pair{"e5m2xe2m1", format::e5m2, format::e2m1},
    input_pair{"e3m2xe4m3", format::e3m2, format::e4m3fn},
    input_pair{"e3m2xe5m2", format::e3m2, format::e5m2},
    input_pair{"e3m2xe2m3", format::e3m2, format::e2m3},
    input_pair{"e3m2xe2m1", format::e3m2, format::e2m1},
    input_pair{"e2m3xe4m3", format::e2m3, format::e4m3fn},
    input_pair{"e2m3xe5m2", format::e2m3, format::e5m2},
    input_pair{"e2m3xe3m2", format::e2m3, format::e3m2},
    input_pair{"e2m3xe2m1", format::e2m3, format::e2m1},
    input_pair{"e2m1xe4m3", format::e2m1, format::e4m3fn},
    input_pair{"e2m1xe5m2", format::e2m1, format::e5m2},
    input_pair{"e2m1xe3m2", format::e2m1, format::e3m2},
    input_pair{"e2m1xe2m3", format::e2m1, format::e2m3},
};

/// Text that is put together before the program runs.
class fixed_name {
 public:
  constexpr fixed_name() = default;
  constexpr fixed_name(std::string_view first, std::string_view second, std::string_view third) {
    for (std::string_view part : {first, second, third})
      for (char c : part) text_[size_++] = c;
  }
  [[nodiscard]] constexpr std::string_view view() const noexcept { return {text_.data(), size_}; }

 private:
  std::array<char, 40> text_{};
  std::size_t size_ = 0;
};

/// before + pair's name + after, of every pair.
template <std::size_t N>
consteval std::array<fixed_name, N> names_of(std::string_view before, std::array<input_pair, N> const& pairs, std::string_view after) {
  std::array<fixed_name, N> names;
  for (std::size_t i = 0; i < N; ++i) names[i] = fixed_name(before, pairs[i].name, after);
  return names;
}

/// The unit for every pair. @pre names outlives it
template <std::size_t N>
constexpr std::array<machine_unit, N> units_of(std::array<fixed_name, N> const& names, std::array<input_pair, N> const& pairs, machine_unit unit) {
  const auto one = [&](std::size_t i) {
    machine_unit each = unit;
    each.name = names[i].view();
    each.input = pairs[i].a;
    each.input_b = pairs[i].b;
    return each;
  };
  std::array<machine_unit, N> units{};
  for (std::size_t i = 0; i < N; ++i) units[i] = one(i);
  return units;
}

template <std::size_t... N>
constexpr auto join(std::array<machine_unit, N> const&... parts) {
  std::array<machine_unit, (N + ...)> all{};
  std::size_t at = 0;
  const auto append = [&](auto const& part) {
    for (machine_unit const& u : part) all[at++] = u;
  };
  (append(parts), ...);
  return all;
}

}  // namespace stickybit::detail
