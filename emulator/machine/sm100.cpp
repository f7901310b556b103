// Blackwell for data centres: B200.
#include <array>

#include "stickybit/machine/machine.hpp"

namespace stickybit {
namespace {

constexpr std::string_view published = "B200 vectors of Khattak and Mikaitis (MATLAB-tensor-core b12b5a7), 5000";

// @source MMA-Sim c785138 simulator/nv_ptx.py, MATLAB-tensor-core b12b5a7 models/
constexpr std::array facts{
    fact{"16 products and c are aligned at one exponent E, cut toward zero at 2^(E-25), added exactly, cut toward zero to FP32", evidence::vectors, published},
    fact{"E is at least -133", evidence::reported, "MATLAB-tensor-core b12b5a7"},
    fact{"zeros, subnormals, NaN and infinities as on sm90", evidence::assumed, "measured there"},
};

constexpr std::array units{machine_unit{.name = "sm100.mma.bf16.f32",
                                        .instruction = "mma.sync.m16n8k16",
                                        .input = format::bf16,
                                        .output = format::f32,
                                        .block_size = 16,
                                        .alignment_fraction_bits = 25,
                                        .min_alignment_exponent = -133,
                                        .output_rounding = rounding::toward_zero,
                                        .accumulator = accumulator_place::aligned,
                                        .facts = facts}};

}  // namespace

machine const& sm100() noexcept {
  static constexpr machine m{.name = "sm100", .devices = "B200", .units = units, .special_functions = nullptr, .special_function_facts = {}};
  return m;
}

}  // namespace stickybit
