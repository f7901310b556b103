// Hopper: H100, H200.
#include <array>

#include "tables.hpp"
#include "units.hpp"

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

constexpr std::string_view h200_units =
    "H200 (driver 580.159.04, CUDA 13.0): 26 generators of hard inner products, 2^24 each; cuda/check/log/units_on_device.txt";

constexpr std::array short_facts{
    fact{"as the longest form, with as many products in a block as the instruction has", evidence::measured, h200_units},
    fact{"BF16 k8: blocks of 16 do not fit", evidence::measured, "H200 (driver 580.159.04, CUDA 13.0): PyTorch's memory-efficient attention, 10 captured calls"},
};

constexpr std::string_view published_f16 = "H100 and H200 vectors of Khattak and Mikaitis (MATLAB-tensor-core b12b5a7), FP16, 2 x 5000 for each output";
constexpr std::array f16_facts{
    fact{"as the BF16 unit", evidence::vectors, published_f16},
    fact{"the same for subnormals, specials and cancellation, mma.sync and wgmma", evidence::measured, h200_units},
};
constexpr std::array f16_f16_facts{
    fact{"c is FP16; the sum is rounded to FP16, to nearest even", evidence::vectors, published_f16},
    fact{"E is at least -21", evidence::measured, h200_units},
    fact{"the rest as the BF16 unit; NaN is 7fff", evidence::measured, h200_units},
};
constexpr std::array tf32_facts{
    fact{"8 products and c are aligned at one exponent E, cut toward zero at 2^(E-25), added exactly, cut toward zero to FP32", evidence::measured, h200_units},
    fact{"the same, 4 products between 2^-18 and 2^2", evidence::vectors, "H200 vectors of Khattak and Mikaitis (MATLAB-tensor-core b12b5a7), 5000, k = 0..3 filled"},
    fact{"the low 13 bits of an operand are cut, so a NaN with its payload only there is infinity", evidence::measured, h200_units},
    fact{"the rest as the BF16 unit", evidence::measured, h200_units},
};

constexpr std::string_view published_fp8 = "H100 and H200 vectors of Khattak and Mikaitis (MATLAB-tensor-core b12b5a7), E4M3 2 x 5000, E5M2 5000, wgmma with c = 0";
constexpr std::array fp8_facts{
    fact{"32 products are aligned at one exponent E, cut toward zero at 2^(E-13), added exactly, cut toward zero to 13 fraction bits", evidence::vectors, published_fp8},
    fact{"c is aligned and cut with the products: nothing of it below 2^(E-13) is left, even where every product is 0", evidence::measured, h200_units},
    fact{"subnormals, zeros, NaN and infinities as the BF16 unit", evidence::measured, h200_units},
    fact{"A and B of different formats: the same; an E4M3 subnormal is a normal FP16 number and has the exponent of its leading bit", evidence::measured, h200_units},
    fact{"E is at least -133, which FP8 products (2^-32 at least) do not reach", evidence::measured, h200_units},
};
constexpr std::array fp8_f16_facts{
    fact{"32 products and c, an FP16 number, are cut at 2^(E-13) and added; the sum is rounded to FP16, to nearest even", evidence::measured, h200_units},
    fact{"E is at least -21; the rest as with FP32 results", evidence::measured, h200_units},
};

constexpr std::string_view published_converted = "H100 and H200 vectors of Khattak and Mikaitis (MATLAB-tensor-core b12b5a7), FP16 results, E4M3 2 x 5000, E5M2 5000";
constexpr std::array converted_facts{
    fact{"the compiler converts to FP16: two FP16 blocks of 16 from 0, k mod 4 = 0 or 1 in the first, 2 or 3 in the second", evidence::measured, h200_units},
    fact{"c is added to the second one's result by an ordinary FP32 addition, to nearest even", evidence::measured, h200_units},
    fact{"an E4M3 subnormal is a normal FP16 number then and takes part with the exponent of its leading bit, which E4M3 by E5M2 shows", evidence::measured, h200_units},
};
constexpr std::array converted_f16_facts{
    fact{"two FP16 blocks with FP16 results, pairs of k, then c is added in FP16, to nearest even", evidence::vectors, published_converted},
    fact{"the same for subnormals, specials and cancellation", evidence::measured, h200_units},
};
constexpr std::array short_converted_facts{
    fact{"as m16n8k32, with two blocks of 8: k mod 4 = 0 or 1, then 2 or 3; c last", evidence::measured, h200_units},
};
constexpr std::array f64_facts{
    fact{"an IEEE FMA for each product, in ascending k, to nearest even", evidence::measured, "H200 (driver 580.159.04, CUDA 13.0): 26 generators, 2^24 each, four shapes; cuda/check/log/units_on_device.txt"},
    fact{"a NaN is b's, else c's, else a's, made quiet; fff8000000000000 where no operand is NaN", evidence::measured, "the same run, and the probe nan_pattern; cuda/probe/log/probes.txt"},
};

using detail::fp8_pairs, detail::instruction_shape, detail::nvidia_unit;

constexpr detail::generation hopper{25, -133, -21};
constexpr instruction_shape wgmma_k16{"wgmma.mma_async.m64nNk16", 16}, wgmma_k8{"wgmma.mma_async.m64nNk8", 8}, wgmma_k32{"wgmma.mma_async.m64nNk32", 32}, k16{"mma.sync.m16n8k16", 16},
    k8{"mma.sync.m16n8k8", 8}, k4{"mma.sync.m16n8k4", 4}, k32{"mma.sync.m16n8k32", 32};

constexpr std::array plain_units{
    nvidia_unit(hopper, "sm90.wgmma.bf16.f32", wgmma_k16, format::bf16, format::f32, bf16_facts),
    nvidia_unit(hopper, "sm90.wgmma.f16.f32", wgmma_k16, format::f16, format::f32, f16_facts),
    nvidia_unit(hopper, "sm90.wgmma.f16.f16", wgmma_k16, format::f16, format::f16, f16_f16_facts),
    nvidia_unit(hopper, "sm90.wgmma.tf32.f32", wgmma_k8, format::tf32, format::f32, tf32_facts),
    nvidia_unit(hopper, "sm90.mma.bf16.f32", k16, format::bf16, format::f32, bf16_facts),
    nvidia_unit(hopper, "sm90.mma.f16.f32", k16, format::f16, format::f32, f16_facts),
    nvidia_unit(hopper, "sm90.mma.f16.f16", k16, format::f16, format::f16, f16_f16_facts),
    nvidia_unit(hopper, "sm90.mma.tf32.f32", k8, format::tf32, format::f32, tf32_facts),
    nvidia_unit(hopper, "sm90.mma.bf16k8.f32", k8, format::bf16, format::f32, short_facts),
    nvidia_unit(hopper, "sm90.mma.f16k8.f32", k8, format::f16, format::f32, short_facts),
    nvidia_unit(hopper, "sm90.mma.f16k8.f16", k8, format::f16, format::f16, short_facts),
    nvidia_unit(hopper, "sm90.mma.tf32k4.f32", k4, format::tf32, format::f32, short_facts),
    detail::fp64_unit("sm90.mma.f64.f64", "mma.sync.m16n8k16", f64_facts),
};

constexpr std::array k16_pairs{detail::input_pair{"e4m3k16", format::e4m3fn, format::e4m3fn}, detail::input_pair{"e5m2k16", format::e5m2, format::e5m2}};
constexpr auto k16_names = detail::names_of("sm90.mma.", k16_pairs, ".f32"), k16_f16_names = detail::names_of("sm90.mma.", k16_pairs, ".f16");
constexpr auto wgmma_fp8_names = detail::names_of("sm90.wgmma.", fp8_pairs, ".f32"), wgmma_fp8_f16_names = detail::names_of("sm90.wgmma.", fp8_pairs, ".f16");
constexpr auto mma_fp8_names = detail::names_of("sm90.mma.", fp8_pairs, ".f32"), mma_fp8_f16_names = detail::names_of("sm90.mma.", fp8_pairs, ".f16");
constexpr auto units = detail::join(
    plain_units, detail::units_of(wgmma_fp8_names, fp8_pairs, detail::narrow_unit(nvidia_unit(hopper, "", wgmma_k32, format::e4m3fn, format::f32, fp8_facts))),
    detail::units_of(wgmma_fp8_f16_names, fp8_pairs, detail::narrow_unit(nvidia_unit(hopper, "", wgmma_k32, format::e4m3fn, format::f16, fp8_f16_facts))),
    detail::units_of(mma_fp8_names, fp8_pairs, detail::converted_unit(nvidia_unit(hopper, "", k32, format::e4m3fn, format::f32, converted_facts))),
    detail::units_of(mma_fp8_f16_names, fp8_pairs, detail::converted_unit(nvidia_unit(hopper, "", k32, format::e4m3fn, format::f16, converted_f16_facts))),
    detail::units_of(k16_names, k16_pairs, detail::converted_unit(nvidia_unit(hopper, "", k16, format::e4m3fn, format::f32, short_converted_facts))),
    detail::units_of(k16_f16_names, k16_pairs, detail::converted_unit(nvidia_unit(hopper, "", k16, format::e4m3fn, format::f16, short_converted_facts))));

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
