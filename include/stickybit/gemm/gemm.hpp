#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "stickybit/block_fma/column_panel.hpp"
#include "stickybit/format/code.hpp"
#include "stickybit/machine/unit.hpp"

namespace stickybit {

/// Told how much of a long computation is done; from one thread at a time. What it throws ends the computation and comes out of it.
using progress = std::function<void(std::int64_t done, std::int64_t total)>;

/// D[M×N] = A[M×K] · B[N×K]ᵀ (+ C[M×N]), BF16 or FP16 in, FP32 codes out (numbers of FP16 where the unit's output is that).
template <format In>
struct gemm_problem_of {
  std::int64_t m = 0, n = 0, k = 0;
  std::span<code<In> const> a;  // [M×K]
  std::span<code<In> const> b;  // [N×K]
  std::span<f32_code const> c;  // [M×N], or empty: +0
};
using gemm_problem = gemm_problem_of<format::bf16>;
using f16_gemm_problem = gemm_problem_of<format::f16>;

/// The same for any unit, as raw codes: a of unit.input, b of unit.input_b, scales of unit.scale where it has any.
struct gemm_bits_problem {
  std::int64_t m = 0, n = 0, k = 0;
  code_array a;        // [M×K]
  code_array b;        // [N×K]
  code_array c;        // [M×N] FP32 codes (FP64 for an FP64 unit), or empty: +0
  code_array scale_a;  // [M×⌈K/unit.scale_block⌉], or empty where the unit has no scales
  code_array scale_b;  // [N×⌈K/unit.scale_block⌉]
};

/// Where K is cut into at most `slices` slices: multiples of ceil(K / 64 / slices)·64. Begins with 0, ends with K; fewer
/// slices when they reach K early.
/// @source measured on an H200, cuBLAS of CUDA 13.0: 64×64×4096 is [0,1408) [1408,2816) [2816,4096)
[[nodiscard]] std::vector<std::int64_t> split_boundaries(std::int64_t k, int slices);

/// The matrix product as a tensor-core library computes it: in each slice of K one chain of blocks in ascending k, from +0
/// (the first from C); the slices' FP32 results are added in ascending order, to nearest even.
/// @returns [M×N] FP32 codes; a BF16 output is each of them rounded to nearest even
/// @throws  shape_error when a span is not as large as the shape says, slices < 1, or the unit takes another format or scales
/// @checked H200: cuBLAS through PyTorch 2.11, 4 captures
[[nodiscard]] std::vector<f32_code> gemm(machine_unit const& unit, gemm_problem const& problem, int slices = 1, engine how = engine::fast,
                                         progress const& report = {});
[[nodiscard]] std::vector<f32_code> gemm(machine_unit const& unit, f16_gemm_problem const& problem, int slices = 1, engine how = engine::fast,
                                         progress const& report = {});

/// The same for any unit.
/// @returns [M×N] FP32 codes (FP64 for an FP64 unit, whose slices are added in FP64)
/// @throws  shape_error when operands or scales are not as large as the shape says, slices < 1, or one would cut an instruction
/// @checked tests/gemm: every unit of every machine against evaluate()
[[nodiscard]] std::vector<std::uint64_t> gemm_bits(machine_unit const& unit, gemm_bits_problem const& problem, int slices = 1, engine how = engine::fast, progress const& report = {});

/// Each code rounded to BF16, to nearest even.
[[nodiscard]] std::vector<bf16_code> to_bf16(std::span<f32_code const> codes);

}  // namespace stickybit
