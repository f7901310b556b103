// Blackwell for data centres: B200.
#include <array>

#include "units.hpp"

namespace stickybit {
namespace {

constexpr std::string_view published = "B200 vectors of Khattak and Mikaitis (MATLAB-tensor-core b12b5a7), 5000 of each format";
constexpr std::string_view models = "MMA-Sim c785138 and MATLAB-tensor-core b12b5a7 agree";
constexpr std::string_view mma_sim = "MMA-Sim c785138";

// @source MMA-Sim c785138 simulator/nv_ptx.py, MATLAB-tensor-core b12b5a7 models/
constexpr std::array facts{
    fact{"16 products (TF32: 8) and c are aligned at one exponent E, cut toward zero at 2^(E-25), added exactly, cut toward zero to FP32", evidence::vectors, published},
    fact{"TF32: a block has 8 products (the vectors fill 4)", evidence::reported, models},
    fact{"E is at least -133", evidence::reported, "MATLAB-tensor-core b12b5a7"},
    fact{"zeros, subnormals, NaN and infinities as on sm90", evidence::assumed, "measured there"},
};
constexpr std::array f16_facts{
    fact{"c is FP16; the sum is rounded to FP16, to nearest even", evidence::reported, models},
    fact{"E is at least -21", evidence::reported, "MATLAB-tensor-core b12b5a7"},
};
constexpr std::array tcgen05_facts{
    fact{"as mma.sync of BF16, FP16 and TF32", evidence::reported, models},
};
constexpr std::array converted_facts{
    fact{"two FP16 blocks of 16 from 0, pairs of k; c is added last, to nearest even, in the output format", evidence::vectors, published},
    fact{"with FP32 results the vectors show only where c is added", evidence::vectors, published},
    fact{"A and B of different formats: the same", evidence::assumed, "measured on sm90"},
};
constexpr std::array f8f6f4_facts{
    fact{"32 products and c are aligned at one exponent E, cut toward zero at 2^(E-25), added exactly, cut toward zero to FP32", evidence::reported, models},
    fact{"FP16 results are rounded to nearest even", evidence::reported, mma_sim},
    fact{"FP6 and FP4 operands: the same", evidence::assumed, "MMA-Sim lists FP4; no model runs them"},
};
constexpr std::array mx_facts{
    fact{"as f8f6f4, the exponent of a product plus those of its two E8M0 scales, one for 32 products", evidence::reported, mma_sim},
    fact{"a NaN scale gives NaN", evidence::reported, mma_sim},
};
constexpr std::array fp4_facts{
    fact{"16 products at a time are added exactly and multiplied by their scales' significands; such a sum has the exponents of the scales alone", evidence::reported, mma_sim},
    fact{"the sums and c are cut toward zero at 2^(E-35), added exactly, cut toward zero to FP32", evidence::reported, mma_sim},
    fact{"a NaN scale gives NaN, the sign of an E4M3 scale is ignored", evidence::reported, mma_sim},
};

using detail::f8f6f4_pairs, detail::fp8_pairs, detail::instruction_shape, detail::nvidia_unit;

constexpr detail::generation blackwell{25, -133, -21};
constexpr instruction_shape k16{"mma.sync.m16n8k16", 16}, k8{"mma.sync.m16n8k8", 8}, k4{"mma.sync.m16n8k4", 4}, k32{"mma.sync.m16n8k32", 32}, t16{"tcgen05.mma.kind::f16", 16},
    t8{"tcgen05.mma.kind::tf32", 8}, t32{"tcgen05.mma.kind::f8f6f4", 32}, mx{"tcgen05.mma.kind::mxf8f6f4.block32", 32};

constexpr std::array plain_units{
    nvidia_unit(blackwell, "sm100.mma.bf16.f32", k16, format::bf16, format::f32, facts),
    nvidia_unit(blackwell, "sm100.mma.f16.f32", k16, format::f16, format::f32, facts),
    nvidia_unit(blackwell, "sm100.mma.f16.f16", k16, format::f16, format::f16, f16_facts),
    nvidia_unit(blackwell, "sm100.mma.tf32.f32", k8, format::tf32, format::f32, facts),
    nvidia_unit(blackwell, "sm100.mma.tf32k4.f32", k4, format::tf32, format::f32, facts),
    nvidia_unit(blackwell, "sm100.tcgen05.bf16.f32", t16, format::bf16, format::f32, tcgen05_facts),
    nvidia_unit(blackwell, "sm100.tcgen05.f16.f32", t16, format::f16, format::f32, tcgen05_facts),
    nvidia_unit(blackwell, "sm100.tcgen05.f16.f16", t16, format::f16, format::f16, tcgen05_facts),
    nvidia_unit(blackwell, "sm100.tcgen05.tf32.f32", t8, format::tf32, format::f32, tcgen05_facts),
    detail::fp4_unit("sm100.tcgen05.mxf4.f32", "tcgen05.mma.kind::mxf4.block32", 32, format::e8m0, fp4_facts),
    detail::fp4_unit("sm100.tcgen05.nvf4.f32", "tcgen05.mma.kind::mxf4nvf4.block16", 16, format::e4m3fn, fp4_facts),
};

constexpr auto mma_names = detail::names_of("sm100.mma.", fp8_pairs, ".f32"), mma_f16_names = detail::names_of("sm100.mma.", fp8_pairs, ".f16");
constexpr auto tcgen05_names = detail::names_of("sm100.tcgen05.", f8f6f4_pairs, ".f32"), tcgen05_f16_names = detail::names_of("sm100.tcgen05.", f8f6f4_pairs, ".f16");
constexpr auto mx_names = detail::names_of("sm100.tcgen05.mx", f8f6f4_pairs, ".f32");
constexpr auto units = detail::join(
    plain_units, detail::units_of(mma_names, fp8_pairs, detail::converted_unit(nvidia_unit(blackwell, "", k32, format::e4m3fn, format::f32, converted_facts))),
    detail::units_of(mma_f16_names, fp8_pairs, detail::converted_unit(nvidia_unit(blackwell, "", k32, format::e4m3fn, format::f16, converted_facts))),
    detail::units_of(tcgen05_names, f8f6f4_pairs, nvidia_unit(blackwell, "", t32, format::e4m3fn, format::f32, f8f6f4_facts)),
    detail::units_of(tcgen05_f16_names, f8f6f4_pairs, nvidia_unit(blackwell, "", t32, format::e4m3fn, format::f16, f8f6f4_facts)),
    detail::units_of(mx_names, f8f6f4_pairs, detail::scaled_unit(nvidia_unit(blackwell, "", mx, format::e4m3fn, format::f32, mx_facts))));

}  // namespace

machine const& sm100() noexcept {
  static constexpr machine m{.name = "sm100", .devices = "B200", .units = units, .special_functions = nullptr, .special_function_facts = {}};
  return m;
}

}  // namespace stickybit
