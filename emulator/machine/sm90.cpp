// Hopper: H100, H200.
#include <array>

#include "stickybit/machine/machine.hpp"
#include "tables.hpp"

namespace stickybit {
namespace {

constexpr std::string_view h200_random =
    "H200 (driver 580.159.04, CUDA 13.0): mma.sync and wgmma, 11 generators x 2^26 inner products each; cuda/check/log/block_fma_random.txt";
constexpr std::string_view published = "H100 and H200 vectors of Khattak and Mikaitis (MATLAB-tensor-core b12b5a7), 2 x 5000";

// @source the rules: MMA-Sim c785138 simulator/nv_ptx.py and MATLAB-tensor-core b12b5a7 models/, where they agree; the
//   rest as measured
constexpr std::array bf16_facts{
    fact{"16 products and c are aligned at one exponent E, cut toward zero at 2^(E-25), added exactly, cut toward zero to FP32",
         evidence::measured, h200_random},
    fact{"the same, products between 2^-23 and 2^2, c in (0,1)", evidence::vectors, published},
    fact{"E is the largest exponent among non-zero products (sum of the operands' exponents, not normalised) and non-zero c",
         evidence::measured, h200_random},
    fact{"subnormal operands, c and results are kept; a subnormal operand has the exponent of the smallest normal", evidence::measured, h200_random},
    fact{"NaN, 0 times infinity, and infinities of both signs give 7fffffff; any other infinity gives itself", evidence::measured, h200_random},
    fact{"a result beyond FP32 is infinity, although the rounding is toward zero", evidence::measured, h200_random},
    fact{"E is at least -133", evidence::measured, h200_random},
    fact{"a zero result is +0: exact zero, all terms -0, or a negative sum that is cut to zero", evidence::measured, h200_random},
    fact{"a product with a zero operand does not take part in the maximum", evidence::measured, h200_random},
};

constexpr std::array bf16_k8_facts{
    fact{"as m16n8k16, with 8 products in a block", evidence::measured,
         "H200 (driver 580.159.04, CUDA 13.0): PyTorch's memory-efficient attention, 10 captured calls; blocks of 16 do not fit"},
};

constexpr std::string_view published_f16 = "H100 and H200 vectors of Khattak and Mikaitis (MATLAB-tensor-core b12b5a7), FP16, 2 x 5000 for each output";
constexpr std::string_view hard_f16 = "H200 (driver 580.159.04, CUDA 13.0): 6 x 1024 hard inner products for each instruction";

constexpr std::array f16_facts{
    fact{"as the BF16 unit", evidence::vectors, published_f16},
    fact{"the same for subnormals, specials and cancellation, mma.sync and wgmma", evidence::measured, hard_f16},
};
constexpr std::array f16_f16_facts{
    fact{"c is FP16; the sum is rounded to FP16, to nearest even", evidence::vectors, published_f16},
    fact{"E is at least -21", evidence::measured, hard_f16},
};

constexpr std::string_view published_fp8 = "H100 and H200 vectors of Khattak and Mikaitis (MATLAB-tensor-core b12b5a7), E4M3 2 x 5000, E5M2 5000, wgmma with c = 0";
constexpr std::string_view hard_fp8 = "H200 (driver 580.159.04, CUDA 13.0): 6 x 1024 hard inner products for each of E4M3 and E5M2, c not 0";
constexpr std::array fp8_facts{
    fact{"32 products are aligned at one exponent E, cut toward zero at 2^(E-13), added exactly, cut toward zero to 13 fraction bits", evidence::vectors, published_fp8},
    fact{"c is aligned and cut with the products: nothing of it below 2^(E-13) is left, even where every product is 0", evidence::measured, hard_fp8},
    fact{"subnormals, zeros, NaN and infinities as the BF16 unit", evidence::measured, hard_fp8},
    fact{"E is at least -133, which FP8 products (2^-32 at least) do not reach", evidence::measured, hard_fp8},
};

/// What all units here share.
constexpr machine_unit unit_of(std::string_view name, std::string_view instruction, format input, int block_size, std::span<fact const> facts) {
  return {.name = name,
          .instruction = instruction,
          .input = input,
          .output = format::f32,
          .block_size = block_size,
          .alignment_fraction_bits = 25,
          .min_alignment_exponent = -133,
          .output_rounding = rounding::toward_zero,
          .accumulator = accumulator_place::aligned,
          .facts = facts};
}

constexpr machine_unit half_output(std::string_view name, std::string_view instruction) {
  machine_unit unit = unit_of(name, instruction, format::f16, 16, f16_f16_facts);
  unit.output = format::f16;
  unit.min_alignment_exponent = -21;
  unit.output_rounding = rounding::nearest_even;
  return unit;
}

constexpr machine_unit fp8_input(std::string_view name, format input) {
  machine_unit unit = unit_of(name, "wgmma.mma_async.m64nNk32", input, 32, fp8_facts);
  unit.alignment_fraction_bits = unit.output_fraction_bits = 13;
  return unit;
}

constexpr std::array units{
    unit_of("sm90.wgmma.bf16.f32", "wgmma.mma_async.m64nNk16", format::bf16, 16, bf16_facts),
    unit_of("sm90.mma.bf16.f32", "mma.sync.m16n8k16", format::bf16, 16, bf16_facts),
    unit_of("sm90.mma.bf16k8.f32", "mma.sync.m16n8k8", format::bf16, 8, bf16_k8_facts),
    unit_of("sm90.wgmma.f16.f32", "wgmma.mma_async.m64nNk16", format::f16, 16, f16_facts),
    unit_of("sm90.mma.f16.f32", "mma.sync.m16n8k16", format::f16, 16, f16_facts),
    half_output("sm90.wgmma.f16.f16", "wgmma.mma_async.m64nNk16"),
    half_output("sm90.mma.f16.f16", "mma.sync.m16n8k16"),
    fp8_input("sm90.wgmma.e4m3.f32", format::e4m3fn),
    fp8_input("sm90.wgmma.e5m2.f32", format::e5m2),
};

constexpr std::array mufu_facts{
    fact{"ex2, rcp, rsqrt, lg2 .approx.ftz.f32: a table of quadratics, a truncated square, one rounding constant a function", evidence::measured,
         "H200 (driver 580.159.04, CUDA 13.0): all 2^32 inputs of each of the four; cuda/check/log/sfu_all_inputs.txt"},
};

}  // namespace

machine const& sm90() noexcept {
  static constexpr machine m{.name = "sm90",
                             .devices = "H100, H200",
                             .units = units,
                             .special_functions = &sm90_special_functions,
                             .special_function_facts = mufu_facts};
  return m;
}

}  // namespace stickybit
