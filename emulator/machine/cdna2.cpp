// CDNA 2: MI210, MI250.
#include <array>

#include "cdna.hpp"

namespace stickybit {
namespace {

// @source MMA-Sim c785138 simulator/amd.py, 735c9b7 mmasim/arithmetic/ftz_mul_add.py, MATLAB-tensor-core b12b5a7 models/MI210
constexpr std::array facts{
    fact{"products are rounded to FP32, then (p0 + p1) + (p2 + p3), then c plus that: nearest even at every addition", evidence::reported, detail::amd_models},
    fact{"subnormal operands and c count as +0; what is below 2^-126 becomes the zero of its sign", evidence::reported, "MMA-Sim; MATLAB-tensor-core makes products +0"},
    fact{"NaN is 7fffffff", evidence::assumed, "measured on sm90"},
};
constexpr std::array bf16_facts{
    fact{"without _1k: 2 products, p0 + p1, then c plus that", evidence::reported, "MMA-Sim; MATLAB-tensor-core has 4"},
    facts[1],
    facts[2],
};

constexpr machine_unit flushing(machine_unit unit) {
  unit.flushes_subnormals = true;
  return unit;
}

constexpr std::array units{
    flushing(detail::mfma_unit("cdna2.mfma.f16.f32", "v_mfma_f32_16x16x16f16", format::f16, 4, block_arithmetic::rounded_tree, facts)),
    flushing(detail::mfma_unit("cdna2.mfma.bf16.f32", "v_mfma_f32_16x16x16bf16_1k", format::bf16, 4, block_arithmetic::rounded_tree, facts)),
    flushing(detail::mfma_unit("cdna2.mfma.bf16k8.f32", "v_mfma_f32_16x16x8bf16", format::bf16, 2, block_arithmetic::rounded_tree, bf16_facts)),
    detail::fp64_unit("cdna2.mfma.f64.f64", "v_mfma_f64_16x16x4f64", detail::cdna_f64_facts),
};

}  // namespace

machine const& cdna2() noexcept {
  static constexpr machine m{.name = "cdna2", .devices = "MI210, MI250", .units = units, .special_functions = nullptr, .special_function_facts = {}};
  return m;
}

}  // namespace stickybit
