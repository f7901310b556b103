#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bias/wide_products.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "wide_products.hpp"

HWY_BEFORE_NAMESPACE();
namespace stickybit::detail::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using f64_tag = hn::ScalableTag<double>;
using i64_tag = hn::RebindToSigned<f64_tag>;
using i32_tag = hn::Rebind<std::int32_t, f64_tag>;
using f64_lanes = hn::Vec<f64_tag>;
using i32_lanes = hn::Vec<i32_tag>;

constexpr std::int32_t exponent_of_zero = -4096;

/// Some rows and two vectors of columns: the sums stay in registers. No fused multiply-add, which not every machine has.
template <int Rows>
void add_tile(strided_matrix a, std::int64_t i, double const* b, std::int64_t b_stride, matrix_rows<double> c, std::int64_t j) {
  const f64_tag d;
  const std::size_t lanes = hn::Lanes(d);
  f64_lanes sums[Rows][2];
  for (int r = 0; r < Rows; ++r)
    for (int half = 0; half < 2; ++half) sums[r][half] = hn::LoadU(d, c.data + (i + r) * c.stride + j + half * std::int64_t(lanes));
  double const* row = a.data + i * a.row_stride;
  for (std::int64_t k = 0; k < a.columns; ++k, row += a.column_stride, b += b_stride) {
    const f64_lanes left = hn::LoadU(d, b + j), right = hn::LoadU(d, b + j + lanes);
    for (int r = 0; r < Rows; ++r) {
      const f64_lanes x = hn::Set(d, row[r * a.row_stride]);
      sums[r][0] = hn::Add(sums[r][0], hn::Mul(x, left));
      sums[r][1] = hn::Add(sums[r][1], hn::Mul(x, right));
    }
  }
  for (int r = 0; r < Rows; ++r)
    for (int half = 0; half < 2; ++half) hn::StoreU(sums[r][half], d, c.data + (i + r) * c.stride + j + half * std::int64_t(lanes));
}

void add_products(strided_matrix const& a, double const* b, std::int64_t b_stride, matrix_rows<double> const& c) {
  const std::int64_t step = 2 * std::int64_t(hn::Lanes(f64_tag()));
  std::int64_t j = 0;
  for (; j + step <= c.columns; j += step) {
    std::int64_t i = 0;
    for (; i + 4 <= c.rows; i += 4) add_tile<4>(a, i, b, b_stride, c, j);
    for (; i < c.rows; ++i) add_tile<1>(a, i, b, b_stride, c, j);
  }
  for (std::int64_t i = 0; i < c.rows; ++i)
    for (std::int64_t at = j; at < c.columns; ++at) {
      double& sum = c.row(i)[std::size_t(at)];
      for (std::int64_t k = 0; k < a.columns; ++k) sum += a.at(i, k) * b[k * b_stride + at];
    }
}

/// The exponents with which c takes part in the alignment.
HWY_INLINE i32_lanes exponents_of(f64_lanes c) {
  const f64_tag d;
  const i64_tag di;
  // The exponent field as a double: below 2^52's.
  const auto field = hn::ShiftRight<52>(hn::BitCast(di, hn::Abs(c)));
  const auto e = hn::Sub(hn::BitCast(d, hn::Or(field, hn::BitCast(di, hn::Set(d, 0x1p52)))), hn::Set(d, 0x1p52 + 1023));
  return hn::DemoteTo(i32_tag(), hn::IfThenElse(hn::Eq(c, hn::Zero(d)), hn::Set(d, exponent_of_zero), hn::Max(e, hn::Set(d, -126.0))));
}

HWY_INLINE f64_lanes pow2_of(i32_lanes e) {
  const i64_tag di;
  return hn::BitCast(f64_tag(), hn::ShiftLeft<52>(hn::Add(hn::PromoteTo(di, e), hn::Set(di, 1023))));
}

/// Toward zero to FP32, beyond its range infinity.
HWY_INLINE f64_lanes cut_to_f32(f64_lanes x) {
  const f64_tag d;
  const hn::RebindToUnsigned<f64_tag> du;
  const auto magnitude = hn::Abs(x);
  const auto normal = hn::BitCast(d, hn::AndNot(hn::Set(du, (std::uint64_t{1} << 29) - 1), hn::BitCast(du, x)));
  const auto subnormal = hn::Mul(hn::Trunc(hn::Mul(x, hn::Set(d, 0x1p149))), hn::Set(d, 0x1p-149));
  const auto infinity = hn::CopySign(hn::Inf(d), x);
  return hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, 0x1p-126)), subnormal, hn::IfThenElse(hn::Ge(magnitude, hn::Set(d, 0x1p128)), infinity, normal));
}

/// One block of one row, a vector of columns after another. @returns columns taken
std::int64_t chain_block(machine_unit const& unit, double const* a, std::int32_t const* a_exponents, std::int64_t n, double const* b,
                         std::int32_t const* b_exponents, std::int64_t b_stride, double* c, std::int64_t columns) {
  const f64_tag d;
  const i32_tag di;
  const std::int64_t lanes = std::int64_t(hn::Lanes(d));
  std::int64_t j = 0;
  for (; j + lanes <= columns; j += lanes) {
    const auto before = hn::LoadU(d, c + j);
    auto largest = hn::Max(hn::Set(di, unit.min_alignment_exponent), exponents_of(before));
    for (std::int64_t k = 0; k < n; ++k) largest = hn::Max(largest, hn::Add(hn::Set(di, a_exponents[k]), hn::LoadU(di, b_exponents + k * b_stride + j)));
    const auto quantum = hn::Sub(largest, hn::Set(di, unit.alignment_fraction_bits));
    const auto to_quanta = pow2_of(hn::Neg(quantum));
    // Each term is below 2^(F + 2), so the sum of whole numbers is exact.
    auto sum = hn::Trunc(hn::Mul(before, to_quanta));
    for (std::int64_t k = 0; k < n; ++k) {
      const auto product = hn::Mul(hn::Set(d, a[k]), hn::LoadU(d, b + k * b_stride + j));
      sum = hn::Add(sum, hn::Trunc(hn::Mul(product, to_quanta)));
    }
    hn::StoreU(cut_to_f32(hn::Mul(sum, pow2_of(quantum))), d, c + j);
  }
  return j;
}

}  // namespace stickybit::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stickybit::detail {

HWY_EXPORT(add_products);
HWY_EXPORT(chain_block);

wide_panel::wide_panel(bf16_code const* data, std::int64_t rows, std::int64_t columns, std::int64_t stride)
    : values(data, rows, columns, stride), exponents(values.values.size()) {
  for (std::size_t i = 0; i < exponents.size(); ++i) exponents[i] = values.values[i] == 0 ? -4096 : values.exponents[i];
}

void add_products(strided_matrix a, wide_panel const& b, std::int64_t k_begin, matrix_rows<double> c) {
  HWY_DYNAMIC_DISPATCH(add_products)(a, b.values.row(k_begin).data(), b.values.columns, c);
}

namespace {

/// One row by the plain form.
void plain_chain(machine_unit const& unit, std::span<double const> a, wide_panel const& b, std::int64_t k_begin, std::span<double> c) {
  wide_chain(unit, a, b.values, k_begin, c);
}

void vector_chain(machine_unit const& unit, std::span<double const> a, wide_panel const& b, std::int64_t k_begin, std::span<double> c) {
  std::array<std::int32_t, 64> exponents{};
  const auto columns = std::int64_t(c.size());
  for (std::size_t k = 0; k < a.size(); k += std::size_t(unit.block_size)) {
    const auto part = a.subspan(k, std::min(a.size() - k, std::size_t(unit.block_size)));
    std::transform(part.begin(), part.end(), exponents.begin(), [](double x) { return x == 0 || !std::isfinite(x) ? -4096 : std::max(std::ilogb(x), -126); });
    const auto at = std::size_t((k_begin + std::int64_t(k)) * columns);
    HWY_DYNAMIC_DISPATCH(chain_block)
    (unit, part.data(), exponents.data(), std::int64_t(part.size()), b.values.values.data() + at, b.exponents.data() + at, columns, c.data(), columns);
  }
}

}  // namespace

void wide_chains(machine_unit const& unit, strided_matrix a, wide_panel const& b, std::int64_t k_begin, matrix_rows<double> c) {
  const bool vectors = unit.accumulator == accumulator_place::aligned && unit.output_rounding == rounding::toward_zero && unit.block_size <= 64 && c.columns % 8 == 0;
  std::vector<double> row(static_cast<std::size_t>(a.columns));
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t k = 0; k < a.columns; ++k) row[std::size_t(k)] = a.at(i, k);
    (vectors ? vector_chain : plain_chain)(unit, row, b, k_begin, c.row(i));
  }
}

}  // namespace stickybit::detail
#endif
