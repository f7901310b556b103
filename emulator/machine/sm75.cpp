// Turing: T4, RTX 2080.
#include <array>

#include "units.hpp"

namespace stickybit {
namespace {

using detail::nvidia_unit;

// @source MMA-Sim c785138 simulator/nv_ptx.py; nobody has published vectors
constexpr std::array facts{
    fact{"the products of an instruction and c are aligned at one exponent E, cut toward zero at 2^(E-24), added exactly, cut toward zero to FP32", evidence::reported,
         "MMA-Sim c785138"},
    fact{"FP16 results are rounded to nearest even", evidence::reported, "MMA-Sim c785138"},
    fact{"E is at least -132 (FP16 results: -20)", evidence::assumed, "reported for sm80"},
    fact{"zeros, subnormals, NaN and infinities as on sm90", evidence::assumed, "measured there"},
};

constexpr detail::generation turing{24, -132, -20};
constexpr std::array units{
    nvidia_unit(turing, "sm75.mma.f16.f32", {"mma.m16n8k8", 8}, format::f16, format::f32, facts),
    nvidia_unit(turing, "sm75.mma.f16.f16", {"mma.m16n8k8", 8}, format::f16, format::f16, facts),
    nvidia_unit(turing, "sm75.mma.f16k4.f32", {"mma.m8n8k4", 4}, format::f16, format::f32, facts),
    nvidia_unit(turing, "sm75.mma.f16k4.f16", {"mma.m8n8k4", 4}, format::f16, format::f16, facts),
};

}  // namespace

machine const& sm75() noexcept {
  static constexpr machine m{.name = "sm75", .devices = "T4, RTX 2080", .units = units, .special_functions = nullptr, .special_function_facts = {}};
  return m;
}

}  // namespace stickybit
