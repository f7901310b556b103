#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "stickybit/format/code.hpp"
#include "stickybit/machine/unit.hpp"

namespace stickybit::detail {

/// V of one key head as doubles, NaN and infinity replaced by 0, and the exponents with which its elements meet the alignment.
struct value_rows {
  std::int64_t rows, columns;
  std::vector<double> values;            // V[s_k × d]
  std::vector<std::int16_t> exponents;   // the same; a subnormal has the exponent of the smallest normal
  std::vector<std::int64_t> first_special;  ///< of each column: the first key whose V is NaN or infinite; rows if none. {d}

  value_rows(bf16_code const* data, std::int64_t rows_, std::int64_t columns_, std::int64_t stride);
  [[nodiscard]] std::span<double const> row(std::int64_t i) const noexcept { return std::span(values).subspan(std::size_t(i * columns), std::size_t(columns)); }
};

/// The unit's chain c[j] + Σ_k a[k]·V[first + k, j] with a and c that no BF16 and FP32 hold: block by block as block_fma does,
/// each product and c cut toward zero at 2^(E − F), E the largest sum of exponents, added exactly and rounded to FP32.
/// Each product is that of two doubles rounded to double: with a of more than 45 bits a cut may fall on the wrong side of an
/// integer, by one quantum, once in 2^25 products.
/// @pre a, c finite, first + a.size() ≤ v.rows unless those a are 0; c.size() == v.columns
/// @checked equal to the chain of block_fma where a are BF16 and c FP32 numbers
void wide_chain(machine_unit const& unit, std::span<double const> a, value_rows const& v, std::int64_t first, std::span<double> c);

}  // namespace stickybit::detail
