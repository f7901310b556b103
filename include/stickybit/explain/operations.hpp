#pragma once
#include <cstdint>
#include <optional>
#include <span>

#include "stickybit/explain/account.hpp"
#include "stickybit/format/code.hpp"
#include "stickybit/gemm/gemm.hpp"
#include "stickybit/machine/unit.hpp"

// Accounts of single operations. Their last step is the result.

namespace stickybit {

/// FP32 operands added left to right in FP32, the sum then rounded to `result`, all to nearest even.
/// @throws std::invalid_argument for fewer than two operands
[[nodiscard]] account account_of_add(std::span<f32_code const> operands, format result);

/// a·b + c of one format (FP32, BF16, FP16) rounded once, and for contrast in two roundings.
struct fma_accounts {
  account fused;
  std::optional<account> through_f32;  ///< rounded to FP32, then to the format; none in FP32
  account unfused;                     ///< the product rounded to the format, then the sum
};
/// @param a, b, c  codes of f.  @throws std::invalid_argument for another format
[[nodiscard]] fma_accounts accounts_of_fma(format f, std::uint32_t a, std::uint32_t b, std::uint32_t c);

/// A row of A and a column of B in raw codes of a unit's input formats.
struct raw_operands {
  std::span<std::uint32_t const> a, b;
};

/// c + a·b on a tensor core, blocks in ascending k, each the next one's c; a block that ends at k products is named d up to k. Where c is
/// added last, the instruction's blocks are steps without a name, and the addition has it (in FP16 for FP16 results).
/// @throws shape_error when a and b differ in length or are empty, or the unit has scales, takes FP64 or is no tensor core of NVIDIA's
[[nodiscard]] account account_of_dot(machine_unit const& unit, raw_operands const& operands, f32_code c);

/// The same where K is cut into slices as gemm() cuts it: a chain for each, added in FP32.
[[nodiscard]] account account_of_slices(machine_unit const& unit, raw_operands const& operands, f32_code c, int slices);

/// The same for one format.  @throws shape_error also when the unit takes another one
template <format In>
[[nodiscard]] account account_of_dot(machine_unit const& unit, std::span<code<In> const> a, std::span<code<In> const> b, f32_code c);

/// One element of a matrix product, as gemm() computes it: a chain for each slice of K, the slices added in FP32.
/// In: BF16 or FP16.  @throws std::out_of_range naming the index; shape_error as gemm
template <format In>
[[nodiscard]] account account_of_gemm(machine_unit const& unit, gemm_problem_of<In> const& problem, int slices, std::int64_t row, std::int64_t column);

/// One elementary function (ex2 rcp lg2 exp2 expf logf log2f) of one FP32 number, by Hopper's tables.
/// @throws std::invalid_argument for another operation
[[nodiscard]] account account_of_function(operation function, f32_code x);

/// FP32 to another format. Any mode but stochastic.
/// @throws std::invalid_argument for rounding::stochastic: it needs random bits
[[nodiscard]] account account_of_cast(f32_code x, format to, rounding mode = rounding::nearest_even, subnormals subnormal = subnormals::kept);

}  // namespace stickybit
