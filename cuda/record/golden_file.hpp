#pragma once
#include <cstring>

#include "../support/safetensors.hpp"
#include "golden_cases.hpp"
#include "hardware_ways.hpp"

namespace stickybit::gpu {

/// As safetensors spells the narrowest type that holds the format's codes. FP64 codes are pairs of FP32 ones, the low half first.
[[nodiscard]] inline std::string dtype_of(case_format const& f) {
  if (f == bf16_format) return "BF16";
  if (f == f16_format) return "F16";
  if (f == e4m3_format) return "F8_E4M3";
  if (f == e5m2_format) return "F8_E5M2";
  return "F32";
}

/// What an instruction gave for the chosen cases, and how often that is not what the definition says.
struct recorded_unit {
  std::size_t cases = 0, mismatches = 0;
};

/// Adds `prefix`a, b, c, d of the cases, all of one size, with the hardware's results.
inline recorded_unit add_recorded(safetensors_writer& file, std::string const& prefix, hardware_way const& way, machine_unit const& unit, std::vector<unit_case> const& cases) {
  if (cases.empty()) return {};
  packed_cases packed(shape_of(unit), cases.size(), cases[0].size);
  for (std::size_t i = 0; i < cases.size(); ++i) packed.put(i, cases[i]);
  const auto raw = way.results(packed, {});
  std::vector<std::uint32_t> c, d;
  recorded_unit result{cases.size(), 0};
  const bool wide = way.output == f64_format;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const std::uint64_t code = packed.result_code(raw[i]);
    result.mismatches += code != emulated(unit, cases[i]);
    for (int half = 0; half < (wide ? 2 : 1); ++half) {
      c.push_back(std::uint32_t(cases[i].c >> 32 * half));
      d.push_back(std::uint32_t(code >> 32 * half));
    }
  }
  const std::size_t n = cases.size(), k = std::size_t(packed.size) * (wide ? 2 : 1);
  file.tensor<std::byte>(prefix + "a", dtype_of(way.a), {n, k}, packed.a);
  file.tensor<std::byte>(prefix + "b", dtype_of(way.b), {n, k}, packed.b);
  const std::vector<std::size_t> results_shape = wide ? std::vector<std::size_t>{n, 2} : std::vector<std::size_t>{n};
  file.tensor<std::uint32_t>(prefix + "c", "F32", results_shape, c);
  file.tensor<std::uint32_t>(prefix + "d", "F32", results_shape, d);
  return result;
}

}  // namespace stickybit::gpu
