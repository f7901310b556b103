// Ada: L40S, RTX 4090.
#include <array>

#include "ampere_units.hpp"

namespace stickybit {
namespace {

using detail::ampere_models;

constexpr std::string_view published = "Ada and L40S vectors of Khattak and Mikaitis (MATLAB-tensor-core b12b5a7), 5000 of each format, k = 0..7 (TF32: 0..3) filled, the rest zero";

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
constexpr std::string_view published_fp8 = "Ada (E4M3, E5M2 to FP32 and FP16) and L40S (to FP32) vectors of Khattak and Mikaitis (MATLAB-tensor-core b12b5a7), 5000 each";
constexpr std::array fp8_facts{
    fact{"16 products and c are aligned at one exponent E, cut toward zero at 2^(E-13), added exactly, cut toward zero to 13 fraction bits", evidence::vectors,
         published_fp8},
    fact{"m16n8k32 is two such blocks, k 0..15 then 16..31, the first one's result the second one's c", evidence::vectors, published_fp8},
    fact{"E is at least -132, which FP8 products (2^-32 at least) do not reach", evidence::reported, "MATLAB-tensor-core b12b5a7"},
    fact{"A and B of different formats: the same", evidence::reported, "MMA-Sim c785138"},
    fact{"zeros, NaN and infinities as on sm90", evidence::assumed, "measured there"},
};
constexpr std::array fp8_f16_facts{
    fact{"16 products and c, an FP16 number, are cut at 2^(E-13) and added; each block's sum is rounded to FP16, to nearest even", evidence::vectors, published_fp8},
    fact{"m16n8k32 is two such blocks, FP16 between them", evidence::vectors, published_fp8},
    fact{"E is at least -20", evidence::assumed, "reported for sm80"},
    fact{"A and B of different formats: the same", evidence::reported, "MMA-Sim c785138"},
};

constexpr auto names = detail::ampere_names("sm89");
constexpr auto shared_units = detail::ampere_units(names, {f32_facts, f16_facts, tf32_facts});

constexpr detail::instruction_shape k32{"mma.sync.m16n8k32", 16, 32}, k16{"mma.sync.m16n8k16", 16};
constexpr machine_unit fp8(detail::instruction_shape shape, format output) {
  return detail::narrow_unit(detail::nvidia_unit(detail::ampere, "", shape, format::e4m3fn, output, output == format::f16 ? std::span<fact const>(fp8_f16_facts) : fp8_facts));
}
constexpr auto fp8_names = detail::names_of("sm89.mma.", detail::fp8_pairs, ".f32"), fp8_f16_names = detail::names_of("sm89.mma.", detail::fp8_pairs, ".f16");
constexpr std::array k16_pairs{detail::input_pair{"e4m3k16", format::e4m3fn, format::e4m3fn}, detail::input_pair{"e5m2k16", format::e5m2, format::e5m2}};
constexpr auto k16_names = detail::names_of("sm89.mma.", k16_pairs, ".f32"), k16_f16_names = detail::names_of("sm89.mma.", k16_pairs, ".f16");
constexpr auto units = detail::join(shared_units, detail::units_of(fp8_names, detail::fp8_pairs, fp8(k32, format::f32)), detail::units_of(fp8_f16_names, detail::fp8_pairs, fp8(k32, format::f16)),
                                    detail::units_of(k16_names, k16_pairs, fp8(k16, format::f32)), detail::units_of(k16_f16_names, k16_pairs, fp8(k16, format::f16)));

}  // namespace

machine const& sm89() noexcept {
  static constexpr machine m{.name = "sm89", .devices = "L40S, RTX 4090", .units = units, .special_functions = nullptr, .special_function_facts = {}};
  return m;
}

}  // namespace stickybit
