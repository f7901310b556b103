#pragma once
#include <cstddef>
#include <cstdint>

#include "stickybit/format/format.hpp"

// The inner loops of the fast forms: rows of A against one group of columns of B, by SIMD with run-time dispatch.

namespace stickybit::detail {

inline constexpr int column_group = 16;  ///< columns of B that are packed together
inline constexpr int row_tile = 4;       ///< rows of A that are packed together

// Exponents of operands, e for a number, and of scales. Zero lies below and infinity and NaN above any number, and no sum of two
// of operands and two of scales reaches another kind's range, or leaves 16 bits: numbers' sums are between −506 and 508.
inline constexpr std::int16_t exponent_of_zero = -2000, exponent_of_special = 6000;
inline constexpr int exponent_bias = 127;  ///< a row's exponents are stored with it, a column's without: sums compare with FP32's own

/// The numbers of a unit as the loops take them.
struct fast_unit {
  int block_size;           ///< 4, 8, 16 or 32
  int fraction_bits;        ///< F; min(block_size, 16) · 2^F ≤ 2^29
  bool half_output;         ///< rounded to FP16, to nearest even, and not cut to FP32
  int min_exponent;         ///< of alignment; with half_output only: otherwise it must lie below the fast range
  std::uint32_t kept_bits;  ///< of an FP32 result, a mask that cuts toward zero: all, unless blocks have 16 or 32 and lie in ascending k, without scales
  bool pairs;               ///< blocks of 16: k mod 4 = 0 or 1 in the first of two, 2 or 3 in the second
  int scale_block;          ///< E8M0 scales, a multiple of block_size, which is 32; 0: none
};

/// The fast range of E: quanta are normal numbers of FP32, and the largest sum is finite.
[[nodiscard]] constexpr int lowest_fast_exponent(int fraction_bits) noexcept { return fraction_bits - 126; }
inline constexpr int highest_fast_exponent = 120;

/// Where product i of a block stands, counted from the block's first: in pairs two of every four.
[[nodiscard]] constexpr int place_in_block(bool pairs, int i) noexcept { return pairs ? i / 2 * 4 + i % 2 : i; }

/// One block of one element by the definition: c + Σ a[row, k ..] · b[.., column]; codes of FP32.
struct defined_block {
  void const* context;
  std::uint32_t (*compute)(void const* context, std::int64_t row, std::int64_t k, int column, std::uint32_t c);
};

/// Four rows of A, taken apart: element (k, row) at [4·k + row].
struct packed_rows {
  float const* values;            ///< 0 for infinity and NaN
  std::int32_t const* exponents;  ///< with the bias, the same 16 bits twice
  std::int16_t const* halves;     ///< E2M1
  std::int16_t const* scale_exponents;  ///< (scale, row) at [4·scale + row]
  double const* scale_values;
};

/// 16 columns of B, taken apart: element (k, column) at [16·k + column].
struct packed_columns {
  float const* values;
  std::int16_t const* exponents;
  std::int16_t const* halves;
  std::int16_t const* scale_exponents;  ///< (scale, column) at [16·scale + column]
  double const* scale_values;
};

/// c[4][16] (FP32 codes) becomes the chain over k, all blocks in ascending order. @pre the host rounds toward zero in this thread
/// @param rows    that are meant, 1 to 4;  @param length  of k, a multiple of the block size (pairs: of two)
/// @param defined takes what the loop cannot do, by element
void accumulate_tile(fast_unit const& unit, packed_rows a, packed_columns b, int rows, std::int64_t length, std::uint32_t* c, defined_block const& defined);

/// c[count] becomes c + result, in FP32 or FP16, to nearest even. @pre count is a multiple of 16; the host rounds to nearest even
void add_results(bool half_output, std::uint32_t const* results, std::size_t count, std::uint32_t* c);

/// FP4 with scales, blocks of 64 in groups of 16, F ≤ 36.
struct group_unit {
  int fraction_bits;
  int min_exponent;  ///< −200 to 0
  int scale_block;   ///< 16, 32 or 64
  std::uint32_t kept_bits;
};
/// As accumulate_tile(), length a multiple of 64.
void accumulate_groups(group_unit const& unit, packed_rows a, packed_columns b, int rows, std::int64_t length, std::uint32_t* c, defined_block const& defined);

/// Products and sums of two rounded to FP32, blocks of 2 or 4, flushed below 2^-126.
struct tree_unit {
  int block_size;
  float smallest_normal;  ///< of the operands' format: below it they count as +0
};
/// As accumulate_tile(). @pre the host rounds to nearest even
void accumulate_tree(tree_unit const& unit, packed_rows a, packed_columns b, int rows, std::int64_t length, std::uint32_t* c, defined_block const& defined);

/// c[j] becomes the chain of IEEE FMAs over k of a[k] and b[k·stride + j], j < count; NaN is 7fffffffffffffff. @pre the host rounds to nearest even
void accumulate_fma(double const* a, double const* b, std::size_t stride, std::size_t length, std::size_t count, double* c);

/// Codes of a format as numbers and exponents, element by element. Codes of TF32 have 32 bits, others 16.
/// @pre count is a multiple of 16, every pointer aligned to 64 bytes
void take_columns_apart(format input, void const* codes, std::size_t count, float* values, std::int16_t* exponents);
void take_rows_apart(format input, void const* codes, std::size_t count, float* values, std::int32_t* exponents);

}  // namespace stickybit::detail
