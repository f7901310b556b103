// CDNA 3: MI300A, MI300X.
#include <array>

#include "cdna.hpp"

namespace stickybit {
namespace {

// @source MMA-Sim c785138 simulator/amd.py, MATLAB-tensor-core before d12a5b3 models/MI300MC.m
constexpr std::array facts{
    fact{"8 products (XF32: 4) are cut toward zero at 2^(E-24), E the largest exponent among them without c, and added exactly", evidence::reported, detail::amd_models},
    fact{"that sum, cut toward minus infinity at 2^(E'-31), and c, at 2^(E'-24), E' the larger exponent, are added and rounded to nearest even", evidence::reported, detail::amd_models},
    fact{"c = 0 has the exponent -126; a product of 2^128 or more is infinite", evidence::reported, "MMA-Sim; MATLAB-tensor-core loses the sign"},
    fact{"NaN is 7fffffff; a product with a zero operand has no exponent", evidence::assumed, "measured on sm90"},
};
constexpr std::array fp8_facts{
    fact{"even k and odd k are cut and added apart, each at its own E; both sums are cut toward minus infinity at 2^(E-24) and added", evidence::reported,
         "MMA-Sim c785138 and MATLAB-tensor-core before d12a5b3; MMA-Sim 735c9b7 cuts toward zero"},
    facts[1],
    fact{"c is dropped where its exponent is more than 25 below E'", evidence::reported, detail::amd_models},
    facts[3],
};

constexpr machine_unit two_stage(std::string_view name, std::string_view instruction, format input, int block_size, std::span<fact const> of) {
  machine_unit unit = detail::mfma_unit(name, instruction, input, block_size, block_arithmetic::two_stage_sum, of);
  unit.sum_fraction_bits = 31;
  if (block_size == 16) unit.order = product_order::even_odd;
  return unit;
}

constexpr std::array plain_units{
    two_stage("cdna3.mfma.f16.f32", "v_mfma_f32_16x16x16_f16", format::f16, 8, facts),
    two_stage("cdna3.mfma.bf16.f32", "v_mfma_f32_16x16x16_bf16", format::bf16, 8, facts),
    two_stage("cdna3.mfma.tf32.f32", "v_mfma_f32_16x16x8_xf32", format::tf32, 4, facts),
    detail::fp64_unit("cdna3.mfma.f64.f64", "v_mfma_f64_16x16x4_f64", detail::cdna_f64_facts),
};
constexpr std::array pairs{
    detail::input_pair{"e4m3fnuz", format::e4m3fnuz, format::e4m3fnuz},
    detail::input_pair{"e5m2fnuz", format::e5m2fnuz, format::e5m2fnuz},
    detail::input_pair{"e4m3fnuzxe5m2fnuz", format::e4m3fnuz, format::e5m2fnuz},
    detail::input_pair{"e5m2fnuzxe4m3fnuz", format::e5m2fnuz, format::e4m3fnuz},
};
constexpr auto names = detail::names_of("cdna3.mfma.", pairs, ".f32");
constexpr auto units = detail::join(plain_units, detail::units_of(names, pairs, two_stage("", "v_mfma_f32_16x16x32_fp8_fp8", format::e4m3fnuz, 16, fp8_facts)));

}  // namespace

machine const& cdna3() noexcept {
  static constexpr machine m{.name = "cdna3", .devices = "MI300A, MI300X", .units = units, .special_functions = nullptr, .special_function_facts = {}};
  return m;
}

}  // namespace stickybit
