// Volta: V100.
#include <array>

#include "units.hpp"

namespace stickybit {
namespace {

using detail::nvidia_unit;

constexpr std::string_view published = "V100 vectors of Khattak and Mikaitis (MATLAB-tensor-core b12b5a7), 5000, k = 0..3 filled";
constexpr std::string_view models = "MMA-Sim c785138 and MATLAB-tensor-core b12b5a7 agree";

// @source MMA-Sim c785138 simulator/nv_ptx.py, MATLAB-tensor-core b12b5a7 models/
constexpr std::array f32_facts{
    fact{"4 products and c are aligned at one exponent E, cut toward zero at 2^(E-23), added exactly, cut toward zero to FP32", evidence::vectors, published},
    fact{"longer instructions (wmma) are chains of such blocks in ascending k", evidence::reported, models},
    fact{"E is at least -131, which FP16 products do not reach", evidence::assumed, "smallest exponent of FP32 less the adder's 5 integer bits, as on sm80 and sm90"},
    fact{"zeros, subnormals, NaN and infinities as on sm90", evidence::assumed, "measured there"},
};
constexpr std::array f16_facts{
    fact{"4 products and c, an FP16 number, are aligned and added; the sum is rounded to FP16, to nearest even", evidence::reported, models},
    fact{"terms are cut at 2^(E-23), E is at least -19", evidence::reported, "MATLAB-tensor-core b12b5a7"},
    fact{"zeros, subnormals, NaN and infinities as on sm90", evidence::assumed, "measured there"},
};

constexpr detail::generation volta{23, -131, -19};
constexpr std::array units{
    nvidia_unit(volta, "sm70.mma.f16.f32", {"mma.m8n8k4", 4}, format::f16, format::f32, f32_facts),
    nvidia_unit(volta, "sm70.mma.f16.f16", {"mma.m8n8k4", 4}, format::f16, format::f16, f16_facts),
};

}  // namespace

machine const& sm70() noexcept {
  static constexpr machine m{.name = "sm70", .devices = "V100", .units = units, .special_functions = nullptr, .special_function_facts = {}};
  return m;
}

}  // namespace stickybit
