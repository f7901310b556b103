#pragma once
#include <array>
#include <cstdint>
#include <span>

#include "stickybit/format/code.hpp"
#include "stickybit/machine/special_functions.hpp"

// ex2 and what is made of it, over arrays, in the vector registers of the machine that runs them (chosen at run time). Each element
// is, code for code, what the function of that name gives for one operand (sfu.hpp, cuda_math.hpp).
// The two arrays of a call have one size (@pre), need no alignment, and are read and written nowhere else; `out` may be `x`.
// @checked  all 2^32 operands, on every target that the machine has: tests/sfu/arrays.cpp

namespace stickybit {

/// The 64 rows of ex2 as the vector form reads them, 64 bits a row. Making one takes as long as about 200 results.
class ex2_rows {
 public:
  /// @param tables  must live as long as this
  explicit ex2_rows(special_function_tables const& tables) noexcept;

  [[nodiscard]] special_function_tables const& tables() const noexcept { return *tables_; }
  /// Do the rows fit? Those of every known machine do; for others each result is computed by itself, by definition.
  [[nodiscard]] bool fit() const noexcept { return fit_; }
  /// A row: in the upper half b − 2^15 (16 bits, signed), (a mod 4)·2^13 + 0x77e2 (16 bits); in the lower half
  /// floor(a / 4) − 2^23 − row·2^17 (22 bits, signed), c (10 bits).
  [[nodiscard]] std::array<std::uint64_t, 64> const& packed() const noexcept { return packed_; }

 private:
  special_function_tables const* tables_;
  std::array<std::uint64_t, 64> packed_{};
  bool fit_ = true;
};

/// out[i] = ex2(rows.tables(), x[i])
void ex2(ex2_rows const& rows, std::span<f32_code const> x, std::span<f32_code> out) noexcept;
/// out[i] = exp2_keeping_subnormals(rows.tables(), x[i]); as in there, multiplications are those of a host that is_ieee().
void exp2_keeping_subnormals(ex2_rows const& rows, std::span<f32_code const> x, std::span<f32_code> out) noexcept;
/// out[i] = cuda_expf(rows.tables(), x[i]), on a host that is_ieee().
void cuda_expf(ex2_rows const& rows, std::span<f32_code const> x, std::span<f32_code> out) noexcept;

/// The same for a caller without rows; they are made in each call.
inline void ex2(special_function_tables const& tables, std::span<f32_code const> x, std::span<f32_code> out) noexcept { ex2(ex2_rows(tables), x, out); }
inline void exp2_keeping_subnormals(special_function_tables const& tables, std::span<f32_code const> x, std::span<f32_code> out) noexcept {
  exp2_keeping_subnormals(ex2_rows(tables), x, out);
}
inline void cuda_expf(special_function_tables const& tables, std::span<f32_code const> x, std::span<f32_code> out) noexcept {
  cuda_expf(ex2_rows(tables), x, out);
}

}  // namespace stickybit
