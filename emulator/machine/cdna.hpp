#pragma once
#include "units.hpp"

// What AMD's machines share. None of it was run by us.

namespace stickybit::detail {

/// FP32 results, rounded to nearest even.
constexpr machine_unit mfma_unit(std::string_view name, std::string_view instruction, format input, int block_size, block_arithmetic arithmetic, std::span<fact const> facts) {
  machine_unit unit = nvidia_unit({24, -126, -126}, name, {instruction, block_size}, input, format::f32, facts);
  unit.output_rounding = rounding::nearest_even;
  unit.arithmetic = arithmetic;
  return unit;
}

inline constexpr std::string_view amd_models = "MMA-Sim and MATLAB-tensor-core before d12a5b3; no hardware vectors are published";
inline constexpr std::array cdna_f64_facts{fact{"an IEEE FMA for each product, in ascending k, to nearest even", evidence::reported, amd_models}};

}  // namespace stickybit::detail
