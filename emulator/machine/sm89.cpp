// Ada: L40S, RTX 4090.
#include <array>

#include "stickybit/machine/machine.hpp"

namespace stickybit {
namespace {

constexpr std::string_view published = "Ada and L40S vectors of Khattak and Mikaitis (MATLAB-tensor-core b12b5a7), E4M3 and E5M2, 5000 each";
constexpr std::string_view models = "MMA-Sim c785138 and MATLAB-tensor-core b12b5a7 agree";

// @source MMA-Sim c785138 simulator/nv_ptx.py, MATLAB-tensor-core b12b5a7 models/
constexpr std::array facts{
    fact{"16 products and c are aligned at one exponent E, cut toward zero at 2^(E-13), added exactly, cut toward zero to 13 fraction bits", evidence::vectors,
         published},
    fact{"m16n8k32 is two such blocks, k 0..15 then 16..31, the first one's result the second one's c", evidence::vectors, published},
    fact{"E is at least -132, which FP8 products (2^-32 at least) do not reach", evidence::reported, models},
    fact{"zeros, NaN and infinities as on sm90", evidence::assumed, "measured there"},
};

constexpr machine_unit unit_of(std::string_view name, format input) {
  return {.name = name,
          .instruction = "mma.sync.m16n8k32",
          .input = input,
          .output = format::f32,
          .block_size = 16,
          .alignment_fraction_bits = 13,
          .min_alignment_exponent = -132,
          .output_rounding = rounding::toward_zero,
          .accumulator = accumulator_place::aligned,
          .facts = facts,
          .output_fraction_bits = 13};
}

constexpr std::array units{unit_of("sm89.mma.e4m3.f32", format::e4m3fn), unit_of("sm89.mma.e5m2.f32", format::e5m2)};

}  // namespace

machine const& sm89() noexcept {
  static constexpr machine m{.name = "sm89", .devices = "L40S, RTX 4090", .units = units, .special_functions = nullptr, .special_function_facts = {}};
  return m;
}

}  // namespace stickybit
