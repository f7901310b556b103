#pragma once
#include <string_view>
#include <vector>

#include "stickybit/gemm/gemm.hpp"
#include "stickybit/tensor_file/tensor_file.hpp"

namespace stickybit {

/// An operand of format F (BF16, FP16, TF32, E4M3FN or E5M2): a tensor of that type, or FP32 values that F holds exactly. TF32: FP32
/// values, whose low 13 bits are cut as the unit cuts them.
/// @throws file_error where it is missing, of another type, or an FP32 value is not a number of F
template <format F>
[[nodiscard]] std::vector<code<F>> read_operand(tensor_file const& file, std::string_view name);

/// The same for every format but FP64, as raw codes. Formats that files have no type for: FP32 values that are exact in them.
[[nodiscard]] std::vector<std::uint64_t> read_operand_bits(tensor_file const& file, std::string_view name, format f);

/// The shape of the product of a [M,K] and b [N,K] in a file.  @throws file_error naming the tensor, what was expected and what was found
struct gemm_shape {
  std::int64_t m, n, k;
};
[[nodiscard]] gemm_shape read_gemm_shape(tensor_file const& file);

/// The operands of a matrix product in a file: a [M,K], b [N,K], and c [M,N] in FP32 if there is one.
template <format In>
struct gemm_operands_of {
  std::int64_t m = 0, n = 0, k = 0;
  std::vector<code<In>> a, b;
  std::vector<f32_code> c;

  /// Refers to this.
  [[nodiscard]] gemm_problem_of<In> problem() const noexcept { return {m, n, k, a, b, c}; }
};
using gemm_operands = gemm_operands_of<format::bf16>;

/// The same for any unit whose results are not FP64, as raw codes: a [M,K] of what the unit takes as A, b [N,K] as B, and where it has scales,
/// scale_a [M, ⌈K/scale_block⌉] and scale_b [N, ⌈K/scale_block⌉]. Formats that files have no type for, E8M0 too: FP32 values that are exact in them.
struct gemm_bits_operands {
  std::int64_t m = 0, n = 0, k = 0;
  std::vector<std::uint64_t> a, b, scale_a, scale_b;
  std::vector<f32_code> c;

  /// Refers to this.
  [[nodiscard]] gemm_bits_problem problem() const noexcept { return {m, n, k, a, b, c, scale_a, scale_b}; }
};
/// @throws file_error naming the tensor, what was expected and what was found; shape_error for an FP64 unit
[[nodiscard]] gemm_bits_operands read_gemm_bits(tensor_file const& file, machine_unit const& unit);

/// In: BF16 or FP16.  @throws file_error naming the tensor, what was expected and what was found
template <format In = format::bf16>
[[nodiscard]] gemm_operands_of<In> read_gemm_operands(tensor_file const& file);

}  // namespace stickybit
