#include "dense_products.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

// This file is compiled once a target: everything up to HWY_ONCE.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "predict/dense_products.cpp"
#include "hwy/foreach_target.h"

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace stickybit::detail::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

/// Rows × columns of c: `Rows` rows and one or two vectors of columns at once.
template <int Rows, int Vectors, class Number>
HWY_INLINE void product_tile(matrix_view<Number const> const& a, matrix_view<Number const> const& b, matrix_view<Number> const& c, std::int64_t i, std::int64_t j) {
  const hn::ScalableTag<Number> tag;
  const std::size_t lanes = hn::Lanes(tag);
  hn::Vec<decltype(tag)> sums[Rows][Vectors];
  for (int r = 0; r < Rows; ++r)
    for (int v = 0; v < Vectors; ++v) sums[r][v] = hn::LoadU(tag, c.row(i + r) + j + v * lanes);
  for (std::int64_t k = 0; k < a.columns; ++k) {
    hn::Vec<decltype(tag)> of_b[Vectors];
    for (int v = 0; v < Vectors; ++v) of_b[v] = hn::LoadU(tag, b.row(k) + j + v * lanes);
    for (int r = 0; r < Rows; ++r) {
      const auto of_a = hn::Set(tag, a.row(i + r)[k]);
      for (int v = 0; v < Vectors; ++v) sums[r][v] = hn::MulAdd(of_a, of_b[v], sums[r][v]);
    }
  }
  for (int r = 0; r < Rows; ++r)
    for (int v = 0; v < Vectors; ++v) hn::StoreU(sums[r][v], tag, c.row(i + r) + j + v * lanes);
}

template <class Number>
HWY_INLINE void product_of(matrix_view<Number const> const& a, matrix_view<Number const> const& b, matrix_view<Number> const& c) {
  const std::int64_t lanes = std::int64_t(hn::Lanes(hn::ScalableTag<Number>()));
  std::int64_t j = 0;
  for (; j + 2 * lanes <= c.columns; j += 2 * lanes) {
    std::int64_t i = 0;
    for (; i + 4 <= c.rows; i += 4) product_tile<4, 2>(a, b, c, i, j);
    for (; i < c.rows; ++i) product_tile<1, 2>(a, b, c, i, j);
  }
  for (std::int64_t i = 0; j < c.columns && i < c.rows; ++i)
    for (std::int64_t k = 0; k < a.columns; ++k)
      for (std::int64_t rest = j; rest < c.columns; ++rest) c.row(i)[rest] += a.row(i)[k] * b.row(k)[rest];
}

void product_of_doubles(matrix_view<double const> const& a, matrix_view<double const> const& b, matrix_view<double> const& c) { product_of(a, b, c); }
void product_of_floats(matrix_view<float const> const& a, matrix_view<float const> const& b, matrix_view<float> const& c) { product_of(a, b, c); }

/// Bits that are cut between 2^lowest and 2^at, uniform: on average (2^at − 2^lowest)/2. Where the lowest bit is one that is set, of a single
/// term, they are odd multiples, half of 2^at.
constexpr float generic_rest = 0.5f, known_rest = 0;

using float_tag = hn::ScalableTag<float>;
using lanes_of_float = hn::Vec<float_tag>;

/// 2^x for whole x, clamped to the normal numbers.
HWY_INLINE lanes_of_float power(lanes_of_float x) {
  const float_tag tag;
  const hn::RebindToSigned<float_tag> whole;
  const auto clamped = hn::Min(hn::Max(x, hn::Set(tag, -126.0f)), hn::Set(tag, 127.0f));
  return hn::BitCast(tag, hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(whole, clamped), hn::Set(whole, 127))));
}

/// The exponent of |x|; −126 or below for 0 and subnormals.
HWY_INLINE lanes_of_float exponent_of(lanes_of_float x) {
  const float_tag tag;
  const hn::RebindToSigned<float_tag> whole;
  const auto bits = hn::BitCast(whole, hn::Abs(x));
  return hn::ConvertTo(tag, hn::Sub(hn::ShiftRight<23>(bits), hn::Set(whole, 127)));
}

struct block_sum {
  lanes_of_float sum, largest, lowest;
};

/// The block's sum on top of c, for Rows rows of a at once.  @param c, s  {Rows}
template <int Rows>
HWY_INLINE void sum_block(chain_operand const& a, chain_operand const& b, std::size_t const* a_at, std::size_t b_at, std::int64_t n, lanes_of_float const* c, block_sum* s) {
  const float_tag tag;
  for (int r = 0; r < Rows; ++r) s[r] = {c[r], hn::Set(tag, -chain_operand::far), hn::Set(tag, chain_operand::far)};
  for (std::int64_t k = 0; k < n; ++k) {
    const std::size_t in_b = b_at + std::size_t(k * b.columns);
    const auto value = hn::LoadU(tag, b.value.data() + in_b), exponent = hn::LoadU(tag, b.exponent.data() + in_b), lowest = hn::LoadU(tag, b.lowest.data() + in_b);
    for (int r = 0; r < Rows; ++r) {
      const std::size_t in_a = a_at[r] + std::size_t(k);
      s[r].sum = hn::MulAdd(hn::Set(tag, a.value[in_a]), value, s[r].sum);
      s[r].largest = hn::Max(s[r].largest, hn::Add(hn::Set(tag, a.exponent[in_a]), exponent));
      s[r].lowest = hn::Min(s[r].lowest, hn::Add(hn::Set(tag, a.lowest[in_a]), lowest));
    }
  }
}

/// What cutting loses: mean and variance so far.
struct losses {
  lanes_of_float mean, variance;

  /// A number with the sign of x whose bits from 2^lowest on are cut at 2^cut; nothing where there are none.
  /// @param rest  what lacks to half of 2^at, in units of 2^lowest: half, or nothing where odd multiples of it are cut
  HWY_INLINE void cut(lanes_of_float x, lanes_of_float lowest, lanes_of_float at, lanes_of_float rest) {
    const float_tag tag;
    const auto some = hn::Lt(lowest, at);
    const auto top = power(at), bottom = power(lowest);
    mean = hn::Sub(mean, hn::IfThenElseZero(some, hn::CopySign(hn::NegMulAdd(bottom, rest, hn::Mul(top, hn::Set(tag, 0.5f))), x)));
    variance = hn::Add(variance, hn::IfThenElseZero(some, hn::Mul(hn::NegMulAdd(hn::Mul(bottom, bottom), hn::NegMulAdd(rest, hn::Set(tag, 6.0f), hn::Set(tag, 4.0f)), hn::Mul(top, top)), hn::Set(tag, 1.0f / 12))));
  }
};

/// Products that lose bits at 2^quantum: all of it below 2^quantum; else, as the lowest bit of each is known, odd multiples of that, which
/// are half of 2^quantum on average.
HWY_INLINE void cut_products(chain_operand const& a, chain_operand const& b, std::size_t a_at, std::size_t b_at, std::int64_t n, lanes_of_float quantum, losses& l) {
  const float_tag tag;
  const auto q = power(quantum), half = hn::Mul(q, hn::Set(tag, 0.5f)), spread = hn::Mul(hn::Mul(q, q), hn::Set(tag, 1.0f / 12));
  for (std::int64_t k = 0; k < n; ++k) {
    const std::size_t in_a = a_at + std::size_t(k), in_b = b_at + std::size_t(k * b.columns);
    const auto product = hn::Mul(hn::Set(tag, a.value[in_a]), hn::LoadU(tag, b.value.data() + in_b)), size = hn::Abs(product);
    const auto cut = hn::Lt(hn::Add(hn::Set(tag, a.lowest[in_a]), hn::LoadU(tag, b.lowest.data() + in_b)), quantum), whole = hn::Lt(size, q);
    l.mean = hn::Sub(l.mean, hn::IfThenElseZero(cut, hn::CopySign(hn::IfThenElse(whole, size, half), product)));
    l.variance = hn::Add(l.variance, hn::IfThenElseZero(hn::AndNot(whole, cut), spread));
  }
}

/// One vector of columns of one row: where its chains stand.
struct chain_lanes {
  lanes_of_float c, lowest;
  losses lost;
};

/// One block's losses, and c behind it.
HWY_INLINE void take_block(machine_unit const& unit, chain_operand const& a, chain_operand const& b, std::size_t a_at, std::size_t b_at, std::int64_t n, lanes_of_float least,
                           block_sum const& s, chain_lanes& lanes) {
  const float_tag tag;
  const auto empty = hn::Eq(lanes.c, hn::Zero(tag));
  const auto generic = hn::Set(tag, generic_rest);
  const auto largest = hn::Max(least, hn::IfThenElse(empty, s.largest, hn::Max(s.largest, exponent_of(lanes.c))));
  const auto quantum = hn::Sub(largest, hn::Set(tag, float(unit.alignment_fraction_bits)));
  lanes.lost.cut(lanes.c, lanes.lowest, quantum, generic);
  if (!hn::AllFalse(tag, hn::Lt(s.lowest, quantum))) cut_products(a, b, a_at, b_at, n, quantum, lanes.lost);
  const auto low = hn::Max(quantum, hn::Min(s.lowest, lanes.lowest)), ulp = hn::Sub(exponent_of(s.sum), hn::Set(tag, 23.0f));
  const auto known = hn::And(hn::Ge(s.lowest, quantum), hn::Lt(s.lowest, lanes.lowest));
  losses packing{hn::Zero(tag), hn::Zero(tag)};
  packing.cut(s.sum, low, ulp, hn::IfThenElse(known, hn::Set(tag, known_rest), generic));
  if (unit.output_rounding != rounding::nearest_even) lanes.lost.mean = hn::Add(lanes.lost.mean, packing.mean);
  lanes.lost.variance = hn::Add(lanes.lost.variance, packing.variance);
  lanes.lowest = hn::Max(low, ulp);
  lanes.c = s.sum;
}

template <int Rows>
void chain_losses(machine_unit const& unit, chain_factor a, chain_factor b, std::int64_t count, std::int64_t row, std::int64_t j, chain_state& state) {
  const float_tag tag;
  const auto least = hn::Set(tag, float(unit.min_alignment_exponent - state.shift));
  chain_lanes lanes[Rows];
  for (int r = 0; r < Rows; ++r) {
    const std::size_t at = std::size_t((row + r) * state.columns + j);
    lanes[r] = {hn::LoadU(tag, state.sum.data() + at), hn::LoadU(tag, state.lowest.data() + at), {hn::LoadU(tag, state.mean.data() + at), hn::LoadU(tag, state.variance.data() + at)}};
  }
  for (std::int64_t k = 0; k < count; k += unit.block_size) {
    const std::int64_t n = std::min<std::int64_t>(unit.block_size, count - k);
    const std::size_t b_at = std::size_t((b.first + k) * b.of.columns + j);
    std::size_t a_at[Rows];
    lanes_of_float c[Rows];
    block_sum sums[Rows];
    for (int r = 0; r < Rows; ++r) a_at[r] = std::size_t((row + r) * a.of.columns + a.first + k), c[r] = lanes[r].c;
    sum_block<Rows>(a.of, b.of, a_at, b_at, n, c, sums);
    for (int r = 0; r < Rows; ++r) take_block(unit, a.of, b.of, a_at[r], b_at, n, least, sums[r], lanes[r]);
  }
  for (int r = 0; r < Rows; ++r) {
    const std::size_t at = std::size_t((row + r) * state.columns + j);
    hn::StoreU(lanes[r].c, tag, state.sum.data() + at);
    hn::StoreU(lanes[r].lowest, tag, state.lowest.data() + at);
    hn::StoreU(lanes[r].lost.mean, tag, state.mean.data() + at);
    hn::StoreU(lanes[r].lost.variance, tag, state.variance.data() + at);
  }
}

/// Whole vectors of columns; how many columns those are.
std::int64_t chain_losses_of_rows(machine_unit const& unit, chain_factor a, chain_factor b, std::int64_t count, std::int64_t row, std::int64_t row_count, chain_state& state) {
  const std::int64_t lanes = std::int64_t(hn::Lanes(float_tag())), whole = state.columns / lanes * lanes, end = row + row_count;
  std::int64_t i = row;
  for (; i + 4 <= end; i += 4)
    for (std::int64_t j = 0; j < whole; j += lanes) chain_losses<4>(unit, a, b, count, i, j, state);
  for (; i < end; ++i)
    for (std::int64_t j = 0; j < whole; j += lanes) chain_losses<1>(unit, a, b, count, i, j, state);
  return whole;
}

}  // namespace
}  // namespace stickybit::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace stickybit::detail {
namespace {

HWY_EXPORT(product_of_doubles);
HWY_EXPORT(product_of_floats);
HWY_EXPORT(chain_losses_of_rows);

/// A number with the sign of x whose bits from 2^lowest on are cut at 2^at.
void cut_plainly(float x, float lowest, float at, float rest, float& mean, float& variance) {
  if (lowest >= at) return;
  const float top = std::exp2(at), bottom = std::exp2(std::max(lowest, -126.0f));
  mean -= std::copysign(top * 0.5f - bottom * rest, x);
  variance += (top * top - bottom * bottom * (4 - 6 * rest)) * (1.0f / 12);
}

void chain_of_one(machine_unit const& unit, chain_factor a, chain_factor b, std::int64_t count, std::int64_t i, std::int64_t j,
                  chain_state& state) {
  const auto at = std::size_t(i * state.columns + j);
  float &c = state.sum[at], &lowest = state.lowest[at], &mean = state.mean[at], &variance = state.variance[at];
  for (std::int64_t k = 0; k < count; k += unit.block_size) {
    float sum = c, largest = c == 0 ? -chain_operand::far : float(std::ilogb(c)), low = chain_operand::far;
    const std::int64_t end = std::min<std::int64_t>(count, k + unit.block_size);
    const auto product = [&](std::int64_t n) { return a.of.value[std::size_t(i * a.of.columns + a.first + n)] * b.of.value[std::size_t((b.first + n) * b.of.columns + j)]; };
    for (std::int64_t n = k; n < end; ++n) {
      const auto in_a = std::size_t(i * a.of.columns + a.first + n), in_b = std::size_t((b.first + n) * b.of.columns + j);
      sum = std::fma(a.of.value[in_a], b.of.value[in_b], sum);
      largest = std::max(largest, a.of.exponent[in_a] + b.of.exponent[in_b]);
      low = std::min(low, a.of.lowest[in_a] + b.of.lowest[in_b]);
    }
    const float quantum = std::max(largest, float(unit.min_alignment_exponent - state.shift)) - float(unit.alignment_fraction_bits), q = std::exp2(std::max(quantum, -126.0f));
    cut_plainly(c, lowest, quantum, 0.5f, mean, variance);
    for (std::int64_t n = k; low < quantum && n < end; ++n) {
      if (a.of.lowest[std::size_t(i * a.of.columns + a.first + n)] + b.of.lowest[std::size_t((b.first + n) * b.of.columns + j)] >= quantum) continue;
      const float size = std::fabs(product(n));
      mean -= std::copysign(size < q ? size : q / 2, product(n));
      if (size >= q) variance += q * q / 12;
    }
    const float rest = low >= quantum && low < lowest ? 0.0f : 0.5f;
    low = std::max(quantum, std::min(low, lowest));
    const float ulp = float(sum == 0 ? -127 : std::ilogb(sum)) - 23;
    float packing = 0;
    cut_plainly(sum, low, ulp, rest, packing, variance);
    if (unit.output_rounding != rounding::nearest_even) mean += packing;
    lowest = std::max(low, ulp);
    c = sum;
  }
}

}  // namespace

void chain_operand::set(std::int64_t i, std::int64_t j, double x) noexcept {
  const auto at = std::size_t(i * columns + j);
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const int e = int((bits >> 52) & 0x7ff) - 1023;
  if (x == 0) {
    value[at] = 0, exponent[at] = -far, lowest[at] = far;
    return;
  }
  value[at] = float(x * scale_of_values);
  exponent[at] = float(e - shift);
  lowest[at] = float(e - 52 + std::countr_zero((bits & 0xfffffffffffff) | (std::uint64_t{1} << 52)) - shift);
}

void chain_operand::shift_by(int by) noexcept {
  shift = by;
  scale_of_values = std::ldexp(1.0, -by);
}

void chain_state::restart(int shift_of_products) {
  shift = shift_of_products;
  std::ranges::fill(sum, 0.0f);
  std::ranges::fill(lowest, chain_operand::far);
  std::ranges::fill(mean, 0.0f);
  std::ranges::fill(variance, 0.0f);
}

void add_product(matrix_view<double const> a, matrix_view<double const> b, matrix_view<double> c) { HWY_DYNAMIC_DISPATCH(product_of_doubles)(a, b, c); }
void add_product(matrix_view<float const> a, matrix_view<float const> b, matrix_view<float> c) { HWY_DYNAMIC_DISPATCH(product_of_floats)(a, b, c); }

void add_chain_losses_plainly(machine_unit const& unit, chain_factor a, chain_factor b, std::int64_t count, std::int64_t row,
                              std::int64_t row_count, chain_state& state) {
  for (std::int64_t i = row; i < row + row_count; ++i)
    for (std::int64_t j = 0; j < state.columns; ++j) chain_of_one(unit, a, b, count, i, j, state);
}

void add_chain_losses(machine_unit const& unit, chain_factor a, chain_factor b, std::int64_t count, std::int64_t row,
                      std::int64_t row_count, chain_state& state) {
  const std::int64_t done = HWY_DYNAMIC_DISPATCH(chain_losses_of_rows)(unit, a, b, count, row, row_count, state);
  for (std::int64_t i = row; i < row + row_count; ++i)
    for (std::int64_t j = done; j < state.columns; ++j) chain_of_one(unit, a, b, count, i, j, state);
}

}  // namespace stickybit::detail

#endif  // HWY_ONCE
