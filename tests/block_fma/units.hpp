#pragma once
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "oracle/block.hpp"
#include "stickybit/block_fma/block_fma.hpp"
#include "stickybit/machine/machine.hpp"
#include "support/generators.hpp"

namespace testing {

using stickybit::bf16_code;
using stickybit::f32_code;
using stickybit::machine_unit;

/// Hopper's BF16 unit, and the same with one number changed.
inline machine_unit hopper() { return stickybit::unit_named("sm90.mma.bf16.f32"); }
inline machine_unit with_fraction_bits(int f) {
  machine_unit u = hopper();
  u.alignment_fraction_bits = f;
  return u;
}
inline machine_unit with_smallest_exponent(int e) {
  machine_unit u = hopper();
  u.min_alignment_exponent = e;
  return u;
}
inline machine_unit with_block_size(int n) {
  machine_unit u = hopper();
  u.block_size = u.instruction_k = n;
  return u;
}
inline machine_unit with_rounding(stickybit::rounding mode) {
  machine_unit u = hopper();
  u.output_rounding = mode;
  return u;
}
inline machine_unit with_accumulator_last() {
  machine_unit u = hopper();
  u.accumulator = stickybit::accumulator_place::added_last;
  return u;
}

/// What the oracle calls a unit. Hopper's numbers are the oracle's own defaults, typed from the measurement.
inline oracle::block_rules rules_of(machine_unit const& u) {
  using enum stickybit::rounding;
  const oracle::direction output = u.output_rounding == nearest_even     ? oracle::direction::nearest_even
                                   : u.output_rounding == toward_zero     ? oracle::direction::zero
                                   : u.output_rounding == toward_positive ? oracle::direction::up
                                                                          : oracle::direction::down;
  const oracle::number_format input = u.input == stickybit::format::e4m3fn ? oracle::e4m3fn_format : u.input == stickybit::format::e5m2 ? oracle::e5m2_format : oracle::bf16_format;
  return {u.block_size, u.alignment_fraction_bits, u.min_alignment_exponent, output, u.accumulator == stickybit::accumulator_place::added_last, input, u.output_fraction_bits};
}

inline std::vector<bf16_code> codes_of(std::span<std::uint16_t const> bits) {
  std::vector<bf16_code> codes;
  for (std::uint16_t b : bits) codes.push_back(bf16_code::from_bits(b));
  return codes;
}

/// The library's inner product from raw codes: any length, one block when it has the unit's size.
template <class Sink = stickybit::null_sink>
std::uint32_t inner_product(machine_unit const& unit, std::span<std::uint16_t const> a, std::span<std::uint16_t const> b, std::uint32_t c, Sink&& sink = {}) {
  const std::vector<bf16_code> x = codes_of(a), y = codes_of(b);
  return stickybit::inner_product<stickybit::format::bf16>(unit, std::span<bf16_code const>(x), std::span<bf16_code const>(y), f32_code::from_bits(c), sink).to_bits();
}

/// The library's block from a generated case.
template <class Sink = stickybit::null_sink>
std::uint32_t block(machine_unit const& unit, block_case const& k, Sink&& sink = {}) {
  const auto a = std::bit_cast<std::array<bf16_code, 16>>(k.a), b = std::bit_cast<std::array<bf16_code, 16>>(k.b);
  return stickybit::block_fma<stickybit::format::bf16>(unit, std::span<bf16_code const>(a), std::span<bf16_code const>(b), f32_code::from_bits(k.c), sink).to_bits();
}

/// A failing case in words that can be typed in again.
std::string in_words(block_case const& k, std::uint32_t got, std::uint32_t expected);

}  // namespace testing
