// Blackwell for graphics: RTX 5090, RTX PRO 6000.
#include <array>

#include "units.hpp"

namespace stickybit {
namespace {

constexpr std::string_view models = "MMA-Sim c785138 and MATLAB-tensor-core b12b5a7 agree";
constexpr std::string_view mma_sim = "MMA-Sim c785138";

// @source MMA-Sim c785138 simulator/nv_ptx.py, MATLAB-tensor-core b12b5a7 models/; nobody has published vectors
constexpr std::array facts{
    fact{"all products of an instruction and c are aligned at one exponent E, cut toward zero at 2^(E-25), added exactly, cut toward zero to FP32", evidence::reported, models},
    fact{"FP16 results are rounded to nearest even", evidence::reported, models},
    fact{"E is at least -133 (FP16 results: -21)", evidence::reported, "MATLAB-tensor-core b12b5a7"},
    fact{"zeros, subnormals, NaN and infinities as on sm90", evidence::assumed, "measured there"},
};
constexpr std::array f8f6f4_facts{
    fact{"all products of an instruction and c are aligned at one exponent E, cut toward zero at 2^(E-25), added exactly, cut toward zero to FP32", evidence::reported, models},
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
constexpr instruction_shape k16{"mma.sync.m16n8k16", 16}, k8{"mma.sync.m16n8k8", 8}, k4{"mma.sync.m16n8k4", 4}, k32{"mma.sync.m16n8k32.kind::f8f6f4", 32},
    mx{"mma.sync.m16n8k32.kind::mxf8f6f4.block_scale", 32};

constexpr std::array plain_units{
    nvidia_unit(blackwell, "sm120.mma.bf16.f32", k16, format::bf16, format::f32, facts),
    nvidia_unit(blackwell, "sm120.mma.f16.f32", k16, format::f16, format::f32, facts),
    nvidia_unit(blackwell, "sm120.mma.f16.f16", k16, format::f16, format::f16, facts),
    nvidia_unit(blackwell, "sm120.mma.tf32.f32", k8, format::tf32, format::f32, facts),
    nvidia_unit(blackwell, "sm120.mma.bf16k8.f32", k8, format::bf16, format::f32, facts),
    nvidia_unit(blackwell, "sm120.mma.f16k8.f32", k8, format::f16, format::f32, facts),
    nvidia_unit(blackwell, "sm120.mma.f16k8.f16", k8, format::f16, format::f16, facts),
    nvidia_unit(blackwell, "sm120.mma.tf32k4.f32", k4, format::tf32, format::f32, facts),
    nvidia_unit(blackwell, "sm120.mma.e4m3k16.f32", k16, format::e4m3fn, format::f32, f8f6f4_facts),
    nvidia_unit(blackwell, "sm120.mma.e5m2k16.f32", k16, format::e5m2, format::f32, f8f6f4_facts),
    detail::fp4_unit("sm120.mma.mxf4.f32", "mma.sync.m16n8k64.kind::mxf4.block_scale", 32, format::e8m0, fp4_facts),
    detail::fp4_unit("sm120.mma.nvf4.f32", "mma.sync.m16n8k64.kind::mxf4nvf4.block_scale.scale_vec::4X", 16, format::e4m3fn, fp4_facts),
};

constexpr auto f8f6f4_names = detail::names_of("sm120.mma.", f8f6f4_pairs, ".f32"), f8f6f4_f16_names = detail::names_of("sm120.mma.", f8f6f4_pairs, ".f16");
constexpr auto mx_names = detail::names_of("sm120.mma.mx", f8f6f4_pairs, ".f32");
constexpr auto units = detail::join(plain_units, detail::units_of(f8f6f4_names, f8f6f4_pairs, nvidia_unit(blackwell, "", k32, format::e4m3fn, format::f32, f8f6f4_facts)),
                                    detail::units_of(f8f6f4_f16_names, f8f6f4_pairs, nvidia_unit(blackwell, "", k32, format::e4m3fn, format::f16, f8f6f4_facts)),
                                    detail::units_of(mx_names, f8f6f4_pairs, detail::scaled_unit(nvidia_unit(blackwell, "", mx, format::e4m3fn, format::f32, mx_facts))));

}  // namespace

machine const& sm120() noexcept {
  static constexpr machine m{.name = "sm120", .devices = "RTX 5090, RTX PRO 6000", .units = units, .special_functions = nullptr, .special_function_facts = {}};
  return m;
}

}  // namespace stickybit
