// Ampere for graphics: A2, A10, A40, RTX 3090.
#include <array>

#include "ampere_units.hpp"

namespace stickybit {
namespace {

using detail::ampere_models;

constexpr std::string_view published = "A2 vectors of Khattak and Mikaitis (MATLAB-tensor-core b12b5a7), 5000 of each format, k = 0..7 (TF32: 0..3) filled, the rest zero";

// @source MMA-Sim c785138 simulator/nv_ptx.py, MATLAB-tensor-core b12b5a7 models/
constexpr std::array f32_facts{
    fact{"8 products and c are aligned at one exponent E, cut toward zero at 2^(E-24), added exactly, cut toward zero to FP32", evidence::vectors, published},
    fact{"m16n8k16 is two such blocks, k 0..7 then 8..15, the first one's FP32 result the second one's c", evidence::reported, ampere_models},
    fact{"E is at least -132", evidence::reported, "MATLAB-tensor-core b12b5a7"},
    fact{"zeros, subnormals, NaN and infinities as on sm90", evidence::assumed, "measured there"},
};
constexpr std::array f16_facts{
    fact{"c is FP16; each block's sum is rounded to FP16, to nearest even", evidence::vectors, published},
    fact{"terms are cut at 2^(E-24); m16n8k16 is two such blocks, FP16 between them", evidence::reported, ampere_models},
    fact{"E is at least -20", evidence::reported, "MATLAB-tensor-core b12b5a7"},
    fact{"zeros, subnormals, NaN and infinities as on sm90", evidence::assumed, "measured there"},
};
constexpr std::array tf32_facts{
    fact{"4 products and c are aligned at one exponent E, cut toward zero at 2^(E-24), added exactly, cut toward zero to FP32", evidence::vectors, published},
    fact{"m16n8k8 is two such blocks, k 0..3 then 4..7", evidence::reported, ampere_models},
    fact{"the low 13 bits of an operand are cut", evidence::assumed, "measured on sm90"},
    fact{"E is at least -132; the rest as the BF16 unit", evidence::reported, "MATLAB-tensor-core b12b5a7"},
};

constexpr auto names = detail::ampere_names("sm86");
constexpr auto shared_units = detail::ampere_units(names, {f32_facts, f16_facts, tf32_facts});

}  // namespace

machine const& sm86() noexcept {
  static constexpr machine m{.name = "sm86", .devices = "A2, A10, A40, RTX 3090", .units = shared_units, .special_functions = nullptr, .special_function_facts = {}};
  return m;
}

}  // namespace stickybit
