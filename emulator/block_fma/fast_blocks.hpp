#pragma once
#include <cstddef>
#include <cstdint>

#include "stickybit/format/format.hpp"

// The inner loop of the fast form of block_fma: rows of A against one group of columns of B, by SIMD with run-time dispatch.

namespace stickybit::detail {

inline constexpr int column_group = 16;  ///< columns of B that are packed together
inline constexpr int row_tile = 4;       ///< rows of A that are packed together

// Exponents of operands, e for a number. Zero lies below and infinity and NaN above any number, and no sum of two such
// exponents reaches another kind's range.
inline constexpr std::int16_t exponent_of_zero = -4000, exponent_of_special = 8000;
inline constexpr int exponent_bias = 127;  ///< a row's exponents are stored with it, a column's without: sums compare with FP32's own

/// The numbers of a unit as the loop takes them.
struct fast_unit {
  int block_size;          ///< 4, 8 or 16
  int fraction_bits;       ///< F; block_size · 2^F ≤ 2^29
  bool half_output;        ///< rounded to FP16, to nearest even, and not cut to FP32
  int min_exponent;        ///< of alignment; with half_output only: otherwise it must lie below the fast range
};

/// The fast range of E: quanta are normal numbers of FP32, and the largest sum is finite.
[[nodiscard]] constexpr int lowest_fast_exponent(int fraction_bits) noexcept { return fraction_bits - 126; }
inline constexpr int highest_fast_exponent = 120;

/// One block of one element by the definition: c + Σ a[row, k .. k + block_size) · b[.., column]; codes of FP32.
struct defined_block {
  void const* context;
  std::uint32_t (*compute)(void const* context, std::int64_t row, std::int64_t k, int column, std::uint32_t c);
};

/// Four rows of A, taken apart: element (k, row) at [4·k + row].
struct packed_rows {
  float const* values;           ///< 0 for infinity and NaN
  std::int32_t const* exponents;  ///< with the bias, the same 16 bits twice
};

/// 16 columns of B, taken apart: element (k, column) at [16·k + column].
struct packed_columns {
  float const* values;
  std::int16_t const* exponents;
};

/// c[4][16] (FP32 codes) becomes the chain over k, all blocks in ascending order. @pre the host rounds toward zero in this thread
/// @param rows    that are meant, 1 to 4;  @param length  of k, a multiple of the block size
/// @param defined takes what the loop cannot do, by element
void accumulate_tile(fast_unit const& unit, packed_rows a, packed_columns b, int rows, std::int64_t length, std::uint32_t* c, defined_block const& defined);

/// Codes of BF16 or FP16 as numbers and exponents, element by element. @pre count is a multiple of 16, every pointer aligned to 64 bytes
void take_columns_apart(format input, std::uint16_t const* codes, std::size_t count, float* values, std::int16_t* exponents);
void take_rows_apart(format input, std::uint16_t const* codes, std::size_t count, float* values, std::int32_t* exponents);

}  // namespace stickybit::detail
