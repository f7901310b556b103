// The fast form of block_arithmetic::grouped_sum: FP4 with scales.
//
// In halves, operands are integers up to 12, a product has 8 bits and a sum of 16 of them 13: 16-bit lanes are exact. Such a sum times its
// scales' significands (E4M3: 4 bits each) has 20 bits, and is a number of FP64. In quanta of 2^(E−F), F ≤ 36, it lies below 2^(12+F), for
// sum · significands · 2^-8 < 2^12; four of them and c stay below 2^53, so truncated terms are added exactly. The conversion to FP32 rounds
// toward zero as the host does, also to subnormal numbers; E ≤ 110 keeps it below overflow, and E > −200 keeps quanta normal in FP64.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "block_fma/fast_groups.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "fast_blocks.hpp"

HWY_BEFORE_NAMESPACE();
namespace stickybit::detail::HWY_NAMESPACE {

constexpr int group_size = 16, block_groups = 4;

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128 || !HWY_HAVE_FLOAT64

void groups(group_unit const&, packed_rows, packed_columns, int rows, std::int64_t length, std::uint32_t* c, defined_block const& defined) {
  for (std::int64_t k = 0; k < length; k += group_size * block_groups)
    for (int r = 0; r < rows; ++r)
      for (int j = 0; j < column_group; ++j) c[r * column_group + j] = defined.compute(defined.context, r, k, j, c[r * column_group + j]);
}

#else

namespace hn = hwy::HWY_NAMESPACE;

constexpr int highest_exponent = 110, no_exponent = -1000;  // a term of significand 0 takes no part

using doubles = hn::CappedTag<double, column_group>;
using longs = hn::RebindToSigned<doubles>;
using ints = hn::Rebind<std::int32_t, doubles>;
using floats = hn::Rebind<float, doubles>;
using shorts = hn::CappedTag<std::int16_t, column_group>;
using few_shorts = hn::Rebind<std::int16_t, doubles>;

/// Sums of the four groups of a block, in quarters: [group][16].
HWY_INLINE void group_sums(packed_rows a, packed_columns b, int row, std::int16_t* HWY_RESTRICT sums) {
  const shorts d;
  for (std::size_t first = 0; first < column_group; first += hn::Lanes(d))
    for (int g = 0; g < block_groups; ++g) {
      auto even = hn::Zero(d), odd = hn::Zero(d);
      for (int k = g * group_size; k < (g + 1) * group_size; k += 2) {
        even = hn::Add(even, hn::Mul(hn::Load(d, b.halves + k * column_group + first), hn::Set(d, a.halves[k * row_tile + row])));
        odd = hn::Add(odd, hn::Mul(hn::Load(d, b.halves + (k + 1) * column_group + first), hn::Set(d, a.halves[(k + 1) * row_tile + row])));
      }
      hn::Store(hn::Add(even, odd), d, sums + g * column_group + first);
    }
}

/// One row's block against some columns. @returns whether each lane is in the fast range: all ones where it is not
HWY_INLINE hn::Vec<ints> take_columns(group_unit const& unit, packed_rows a, packed_columns b, int row, std::size_t first, std::int16_t const* sums, std::uint32_t* c) {
  const doubles dd;
  const longs dl;
  const ints di;
  const floats df;
  const int groups_per_scale = unit.scale_block / group_size;
  hn::Vec<doubles> terms[block_groups];
  const auto bits = hn::BitCast(di, hn::Load(df, reinterpret_cast<float const*>(c) + first));
  const auto magnitude = hn::And(bits, hn::Set(di, 0x7fffffff));
  const auto field = hn::ShiftRight<23>(magnitude);
  auto e = hn::IfThenElse(hn::Eq(magnitude, hn::Zero(di)), hn::Set(di, no_exponent), hn::Sub(hn::Max(field, hn::Set(di, 1)), hn::Set(di, exponent_bias)));
  e = hn::Max(e, hn::Set(di, unit.min_exponent));
  auto outside = hn::VecFromMask(di, hn::Eq(field, hn::Set(di, 255)));
  for (int g = 0; g < block_groups; ++g) {
    const int at = g / groups_per_scale;
    const auto sum = hn::PromoteTo(di, hn::Load(few_shorts(), sums + g * column_group + first));
    const auto scales = hn::Add(hn::PromoteTo(di, hn::Load(few_shorts(), b.scale_exponents + at * column_group + first)), hn::Set(di, a.scale_exponents[at * row_tile + row]));
    e = hn::Max(e, hn::IfThenElse(hn::Eq(sum, hn::Zero(di)), hn::Set(di, no_exponent), scales));
    outside = hn::Or(outside, hn::VecFromMask(di, hn::Gt(scales, hn::Set(di, highest_exponent))));
    const auto scale = hn::Mul(hn::Load(dd, b.scale_values + at * column_group + first), hn::Set(dd, a.scale_values[at * row_tile + row] * 0.25));
    terms[g] = hn::Mul(hn::PromoteTo(dd, sum), scale);
  }
  outside = hn::Or(outside, hn::VecFromMask(di, hn::Gt(e, hn::Set(di, highest_exponent))));
  const auto wide = hn::PromoteTo(dl, e);
  const auto to_quanta = hn::BitCast(dd, hn::ShiftLeft<52>(hn::Sub(hn::Set(dl, 1023 + unit.fraction_bits), wide)));
  const auto quantum = hn::BitCast(dd, hn::ShiftLeft<52>(hn::Add(hn::Set(dl, 1023 - unit.fraction_bits), wide)));
  auto total = hn::Trunc(hn::Mul(hn::PromoteTo(dd, hn::BitCast(df, bits)), to_quanta));
  for (auto const& term : terms) total = hn::Add(total, hn::Trunc(hn::Mul(term, to_quanta)));
  const auto result = hn::BitCast(di, hn::DemoteTo(df, hn::Mul(total, quantum)));
  const auto kept = hn::And(result, hn::Set(di, std::int32_t(unit.kept_bits)));
  const auto zero = hn::Eq(hn::And(kept, hn::Set(di, 0x7fffffff)), hn::Zero(di));  // a zero is +0
  hn::Store(hn::BitCast(df, hn::IfThenZeroElse(zero, kept)), df, reinterpret_cast<float*>(c) + first);
  return outside;
}

void groups(group_unit const& unit, packed_rows a, packed_columns b, int rows, std::int64_t length, std::uint32_t* c, defined_block const& defined) {
  const ints di;
  const std::int64_t block = group_size * block_groups, block_scales = block / unit.scale_block;
  HWY_ALIGN std::int16_t sums[block_groups * column_group];
  HWY_ALIGN std::int32_t outside[column_group];
  HWY_ALIGN std::uint32_t before[column_group];
  for (std::int64_t k = 0; k < length; k += block) {
    for (int r = 0; r < rows; ++r) {
      std::uint32_t* const row = c + r * column_group;
      std::copy_n(row, column_group, before);
      group_sums(a, b, r, sums);
      auto any = hn::Zero(di);
      for (std::size_t first = 0; first < column_group; first += hn::Lanes(di)) {
        const auto lanes = take_columns(unit, a, b, r, first, sums, row);
        hn::Store(lanes, di, outside + first);
        any = hn::Or(any, lanes);
      }
      if (HWY_LIKELY(hn::AllTrue(di, hn::Eq(any, hn::Zero(di))))) continue;
      for (int j = 0; j < column_group; ++j)
        if (outside[j] != 0) row[j] = defined.compute(defined.context, r, k, j, before[j]);
    }
    a.halves += block * row_tile;
    b.halves += block * column_group;
    a.scale_exponents += block_scales * row_tile;
    a.scale_values += block_scales * row_tile;
    b.scale_exponents += block_scales * column_group;
    b.scale_values += block_scales * column_group;
  }
}

#endif

}  // namespace stickybit::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stickybit::detail {

HWY_EXPORT(groups);

void accumulate_groups(group_unit const& unit, packed_rows a, packed_columns b, int rows, std::int64_t length, std::uint32_t* c, defined_block const& defined) {
  HWY_DYNAMIC_DISPATCH(groups)(unit, a, b, rows, length, c, defined);
}

}  // namespace stickybit::detail
#endif
