// CDNA 1: MI100.
#include <array>

#include "cdna.hpp"

namespace stickybit {
namespace {

// @source MMA-Sim 735c9b7 mmasim/arithmetic/fdpa.py, MATLAB-tensor-core b12b5a7 models/MI100
constexpr std::array facts{
    fact{"4 products (BF16: 2) and c are added exactly and rounded once, to nearest even", evidence::reported,
         "MMA-Sim 735c9b7 and MATLAB-tensor-core b12b5a7; MMA-Sim c785138 had a tree of rounded sums"},
    fact{"subnormals are kept", evidence::reported, detail::amd_models},
    fact{"NaN is 7fffffff", evidence::assumed, "measured on sm90"},
};

constexpr std::array units{
    detail::mfma_unit("cdna1.mfma.f16.f32", "v_mfma_f32_16x16x16f16", format::f16, 4, block_arithmetic::exact_sum, facts),
    detail::mfma_unit("cdna1.mfma.bf16.f32", "v_mfma_f32_16x16x8bf16", format::bf16, 2, block_arithmetic::exact_sum, facts),
};

}  // namespace

machine const& cdna1() noexcept {
  static constexpr machine m{.name = "cdna1", .devices = "MI100", .units = units, .special_functions = nullptr, .special_function_facts = {}};
  return m;
}

}  // namespace stickybit
