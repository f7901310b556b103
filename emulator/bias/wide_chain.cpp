#include "wide_chain.hpp"

#include <algorithm>
#include <cmath>

#include "stickybit/exact/round_to.hpp"
#include "stickybit/format/value.hpp"
#include "stickybit/rounding/round_pack.hpp"

namespace stickybit::detail {
namespace {

constexpr int smallest_exponent = traits_of(format::f32).e_min();  // BF16's too

/// As the alignment sees it. @pre x is not 0
int exponent_of(double x) noexcept { return std::max(std::ilogb(x), smallest_exponent); }

/// One block of one column. @param b_exponent  distance between two rows of V is `stride`, for values and exponents
double wide_block(machine_unit const& unit, std::span<double const> a, std::span<int const> a_exponents, double const* b, std::int16_t const* b_exponents,
                  std::int64_t stride, double c) {
  const bool aligned = unit.accumulator == accumulator_place::aligned;
  int largest = unit.min_alignment_exponent;
  for (std::size_t k = 0; k < a.size(); ++k)
    if (a[k] != 0 && b[std::int64_t(k) * stride] != 0) largest = std::max(largest, a_exponents[k] + b_exponents[std::int64_t(k) * stride]);
  if (aligned && c != 0) largest = std::max(largest, exponent_of(c));
  const int quantum_exponent = largest - unit.alignment_fraction_bits;
  const double to_quanta = pow2(-quantum_exponent);
  // Each term is below 2^(F + 2), so the sum of whole numbers is exact.
  double sum = aligned ? std::trunc(c * to_quanta) : 0.0;
  for (std::size_t k = 0; k < a.size(); ++k) sum += std::trunc(a[k] * b[std::int64_t(k) * stride] * to_quanta);
  const f32_code block =
      round_pack<format::f32>({.mode = unit.output_rounding, .beyond = overflow::to_infinity}, sum < 0, quantum_exponent, std::uint64_t(std::fabs(sum)));
  if (aligned) return block.is_zero() ? 0.0 : to_double(block);
  return to_double(round_to<format::f32>(two_sum(to_double(block), c)));
}

}  // namespace

value_rows::value_rows(bf16_code const* data, std::int64_t rows_, std::int64_t columns_, std::int64_t stride)
    : rows(rows_), columns(columns_), values(std::size_t(rows_ * columns_)), exponents(values.size()), first_special(std::size_t(columns_), rows_) {
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) {
      const bf16_code c = data[i * stride + j];
      const auto at = std::size_t(i * columns + j);
      if (c.is_finite()) values[at] = to_double(c);
      else first_special[std::size_t(j)] = std::min(first_special[std::size_t(j)], i);
      exponents[at] = std::int16_t(decode(c).e);
    }
}

void wide_chain(machine_unit const& unit, std::span<double const> a, value_rows const& v, std::int64_t first, std::span<double> c) {
  const auto visited = std::min(a.size(), std::size_t(v.rows - first));
  a = a.first(visited);
  std::vector<int> exponents(a.size());
  std::transform(a.begin(), a.end(), exponents.begin(), [](double x) { return x == 0 ? 0 : exponent_of(x); });
  for (std::size_t k = 0; k < a.size(); k += std::size_t(unit.block_size)) {
    const std::size_t n = std::min(std::size_t(unit.block_size), a.size() - k);
    const auto at = std::size_t((first + std::int64_t(k)) * v.columns);
    for (std::size_t j = 0; j < c.size(); ++j)
      c[j] = wide_block(unit, a.subspan(k, n), std::span(exponents).subspan(k, n), v.values.data() + at + j, v.exponents.data() + at + j, v.columns, c[j]);
  }
}

}  // namespace stickybit::detail
