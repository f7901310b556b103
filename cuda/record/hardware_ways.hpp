#pragma once
#include <span>
#include <string>
#include <string_view>

#include "packed_cases.hpp"

namespace stickybit::gpu {

/// How an instruction is called, where there is a choice.
struct call_options {
  bool add_d = true;  ///< wgmma's scale-d; false: c is not added
};

/// packed_cases in device memory, with room for a multiple of eight. d: raw codes of the output format.
struct device_cases {
  std::byte *a, *b;
  std::uint64_t *c, *d;
  std::size_t count;
  int row_bytes;
};

/// One way to have a GPU compute inner products: an instruction and a form of it.
struct hardware_way {
  std::string_view unit;         ///< without the machine: "mma.bf16.f32"
  std::string_view instruction;  ///< shape, types in D A B C order, form
  case_format a, b, output;
  int k;                         ///< products of one instruction
  int least_capability;          ///< 80: compute capability 8.0
  bool only_capability;          ///< no later one has it
  bool main;                     ///< the way that is recorded for its unit; else another form of the same
  /// Writes d; instructions follow each other, each result the next one's c. Returns before the GPU is done.
  void (*launch)(device_cases const&, call_options);

  /// Raw codes of the output format, one a case.
  [[nodiscard]] std::vector<std::uint64_t> results(packed_cases const& cases, call_options options) const;
};

[[nodiscard]] std::span<hardware_way const> mma_ways();
[[nodiscard]] std::span<hardware_way const> mma_fp8_ways();
[[nodiscard]] std::span<hardware_way const> wgmma_ways();
/// The same units by other forms: negated, transposed, every width.
[[nodiscard]] std::span<hardware_way const> wgmma_forms();

/// All of them.
[[nodiscard]] std::vector<hardware_way> hardware_ways();

}  // namespace stickybit::gpu
