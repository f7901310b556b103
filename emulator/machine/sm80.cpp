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

constexpr std::string_view published_f16 = "A100 vectors of Khattak and Mikaitis (MATLAB-tensor-core b12b5a7), FP16, 5000 for each output, k = 0..7 filled";
constexpr std::array f16_facts{
    fact{"as the BF16 unit", evidence::vectors, published_f16},
    fact{"m16n8k16 is two such blocks", evidence::reported, models},
};
constexpr std::array f16_f16_facts{
    fact{"c is FP16; each block's sum is rounded to FP16, to nearest even", evidence::vectors, published_f16},
    fact{"m16n8k16 is two such blocks, FP16 between them; E is at least -20", evidence::reported, models},
};

constexpr machine_unit unit_of(std::string_view name, format input, format output, std::span<fact const> unit_facts) {
  const bool half = output == format::f16;
  return {.name = name,
          .instruction = "mma.sync.m16n8k16",
          .input = input,
          .output = output,
          .block_size = 8,
          .alignment_fraction_bits = 24,
          .min_alignment_exponent = half ? -20 : -132,
          .output_rounding = half ? rounding::nearest_even : rounding::toward_zero,
          .accumulator = accumulator_place::aligned,
          .facts = unit_facts};
}

constexpr std::array units{
    unit_of("sm80.mma.bf16.f32", format::bf16, format::f32, facts),
    unit_of("sm80.mma.f16.f32", format::f16, format::f32, f16_facts),
    unit_of("sm80.mma.f16.f16", format::f16, format::f16, f16_f16_facts),
};

}  // namespace

machine const& sm80() noexcept {
  static constexpr machine m{.name = "sm80", .devices = "A100, A30", .units = units, .special_functions = nullptr, .special_function_facts = {}};
  return m;
}

}  // namespace stickybit
