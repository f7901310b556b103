#pragma once
#include "units.hpp"

// The units that Ampere and Ada share: sm80, sm86, sm89 differ in their name and in whose vectors were run.

namespace stickybit::detail {

inline constexpr generation ampere{24, -132, -20};

inline constexpr std::string_view ampere_models = "MMA-Sim c785138 and MATLAB-tensor-core b12b5a7 agree; features on an A30: Khattak and Mikaitis, IEEE HPEC 2025";

/// Facts of one machine's units.
struct ampere_facts {
  std::span<fact const> f32;   ///< BF16 and FP16 to FP32
  std::span<fact const> f16;   ///< FP16 to FP16
  std::span<fact const> tf32;  ///< TF32 to FP32
};

/// Names in the order of ampere_units().
consteval std::array<fixed_name, 8> ampere_names(std::string_view machine) {
  std::array<fixed_name, 8> names;
  std::size_t at = 0;
  for (std::string_view rest : {".bf16.f32", ".f16.f32", ".f16.f16", ".tf32.f32", ".bf16k8.f32", ".f16k8.f32", ".f16k8.f16", ".tf32k4.f32"}) names[at++] = fixed_name(machine, ".mma", rest);
  return names;
}

/// @pre names outlives it
constexpr std::array<machine_unit, 8> ampere_units(std::array<fixed_name, 8> const& names, ampere_facts const& facts) {
  constexpr instruction_shape k16{"mma.sync.m16n8k16", 8, 16}, k8{"mma.sync.m16n8k8", 8}, tf32_k8{"mma.sync.m16n8k8", 4, 8}, tf32_k4{"mma.sync.m16n8k4", 4};
  const auto unit = [&](std::size_t i, instruction_shape shape, format input, format output, std::span<fact const> of) { return nvidia_unit(ampere, names[i].view(), shape, input, output, of); };
  return {
      unit(0, k16, format::bf16, format::f32, facts.f32),     unit(1, k16, format::f16, format::f32, facts.f32), unit(2, k16, format::f16, format::f16, facts.f16),
      unit(3, tf32_k8, format::tf32, format::f32, facts.tf32), unit(4, k8, format::bf16, format::f32, facts.f32),  unit(5, k8, format::f16, format::f32, facts.f32),
      unit(6, k8, format::f16, format::f16, facts.f16),       unit(7, tf32_k4, format::tf32, format::f32, facts.tf32),
  };
}

}  // namespace stickybit::detail
