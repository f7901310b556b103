// Ampere: A100, A30.
#include <array>

#include "stickybit/machine/machine.hpp"

namespace stickybit {
namespace {

constexpr std::string_view published = "A100 vectors of Khattak and Mikaitis (MATLAB-tensor-core b12b5a7), 5000, k = 0..7 filled, the rest zero";
constexpr std::string_view models = "MMA-Sim c785138 and MATLAB-tensor-core b12b5a7 agree; features on an A30: Khattak and Mikaitis, IEEE HPEC 2025";

// @source MMA-Sim c785138 simulator/nv_ptx.py, MATLAB-tensor-core b12b5a7 models/A100TC.m
constexpr std::array facts{
    fact{"8 products and c are aligned at one exponent E, cut toward zero at 2^(E-24), added exactly, cut toward zero to FP32", evidence::vectors, published},
    fact{"m16n8k16 is two such blocks, k 0..7 then 8..15, the first one's FP32 result the second one's c", evidence::reported, models},
    fact{"E is at least -132", evidence::reported, "MATLAB-tensor-core b12b5a7"},
    fact{"zeros, subnormals, NaN and infinities as on sm90", evidence::assumed, "measured there"},
};

constexpr std::array units{machine_unit{.name = "sm80.mma.bf16.f32",
                                        .instruction = "mma.sync.m16n8k16",
                                        .input = format::bf16,
                                        .output = format::f32,
                                        .block_size = 8,
                                        .alignment_fraction_bits = 24,
                                        .min_alignment_exponent = -132,
                                        .output_rounding = rounding::toward_zero,
                                        .accumulator = accumulator_place::aligned,
                                        .facts = facts}};

}  // namespace

machine const& sm80() noexcept {
  static constexpr machine m{.name = "sm80", .devices = "A100, A30", .units = units, .special_functions = nullptr, .special_function_facts = {}};
  return m;
}

}  // namespace stickybit
