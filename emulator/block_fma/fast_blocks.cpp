// The fast form of block_fma: FP32 where it is exact, the definition elsewhere.
//
// Let E be the largest exponent in a block, and E in the fast range, F − 126 to 120. Then
//  - each product of two operands is exact in FP32 (at most 22 significand bits) unless it lies below 2^-126, and then it lies
//    below the quantum 2^(E−F) too and is cut to 0 either way (the host rounds toward zero: it never reaches 2^-126 from below);
//  - times 2^(F−E), a power of two, it is a product in quanta, below 2^(F+2) in magnitude; conversion to an integer
//    truncates, as the machine does; so does c's, which is below 2^(F+1);
//  - block_size products stay below block_size · 2^(F+2) ≤ 2^31 (strictly: no significand reaches 2). c may bring the sum beyond;
//    a lane where the products alone leave no room for c is left to the definition;
//  - converting the sum to FP32 rounds toward zero, as the machine does, and multiplying by 2^(E−F) is exact: 2^(E−F) ≥ 2^-126.
// Zero operands have an exponent far below any other, infinities and NaN one far above, so they leave the range by themselves.
// An element of nothing but zeros is +0 at any scale.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "block_fma/fast_blocks.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include <algorithm>

#include "fast_blocks.hpp"
#include "rounding/f32_lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace stickybit::detail::HWY_NAMESPACE {

/// How codes of one format become numbers of FP32: bits, then a scale.
struct layout {
  int fraction_bits, bias, special_field;
  explicit layout(format f) : fraction_bits(traits_of(f).fraction_bits()), bias(traits_of(f).bias()), special_field((1 << traits_of(f).exponent_bits) - 1) {}
};

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

/// A machine without vectors takes the definition.
void accumulate(fast_unit const& unit, packed_rows, packed_columns, int rows, std::int64_t length, std::uint32_t* c, defined_block const& defined) {
  for (std::int64_t k = 0; k < length; k += unit.block_size)
    for (int r = 0; r < rows; ++r)
      for (int j = 0; j < column_group; ++j) c[r * column_group + j] = defined.compute(defined.context, r, k, j, c[r * column_group + j]);
}

template <class Exponent>
void take_apart(format, std::uint16_t const*, std::size_t count, float* values, Exponent* exponents) {
  std::fill_n(values, count, 0.0f);  // never read
  std::fill_n(exponents, count, Exponent{0});
}

#else

namespace hn = hwy::HWY_NAMESPACE;

constexpr int highest_fast = highest_fast_exponent + exponent_bias;
constexpr int highest_without_product = exponent_of_zero + 200 + exponent_bias;

using floats = hn::CappedTag<float, column_group>;
using ints = hn::RebindToSigned<floats>;
using shorts = hn::CappedTag<std::int16_t, column_group>;
using halves = hn::Rebind<std::int16_t, floats>;
using float_lanes = hn::Vec<floats>;
using int_lanes = hn::Vec<ints>;
using host::HWY_NAMESPACE::truncated_in_range;

/// The sums in quanta, rounded once to FP32 or FP16.
template <bool HalfOutput>
HWY_INLINE float_lanes rounded(int_lanes sum, float_lanes quantum) {
  const floats df;
  const ints di;
  const float_lanes all = hn::ConvertTo(df, sum);
  if constexpr (!HalfOutput) return hn::Mul(all, quantum);
  // To odd first, so that rounding to nearest afterwards sees what was cut.
  const auto inexact = hn::Ne(truncated_in_range(all), sum);
  const float_lanes odd = hn::BitCast(df, hn::Or(hn::BitCast(di, all), hn::IfThenElseZero(inexact, hn::Set(di, 1))));
  const float_lanes exact = hn::Mul(odd, quantum);
  const float_lanes magnitude = hn::Abs(exact);
  const int_lanes bits = hn::BitCast(di, magnitude);
  // Normal results: 13 bits go. From 65520 on infinity.
  const int_lanes last = hn::And(hn::ShiftRight<13>(bits), hn::Set(di, 1));
  const int_lanes normal = hn::AndNot(hn::Set(di, 0x1fff), hn::Add(hn::Add(bits, hn::Set(di, 0xfff)), last));
  const int_lanes finite = hn::IfThenElse(hn::Gt(normal, hn::Set(di, 0x477fe000)), hn::Set(di, 0x7f800000), normal);
  // Below 2^-14 the quantum is 2^-24.
  const float_lanes scaled = hn::Mul(magnitude, hn::Set(df, 0x1p24f));
  const int_lanes whole = truncated_in_range(hn::Min(scaled, hn::Set(df, 4096.0f)));
  const float_lanes rest = hn::Sub(scaled, hn::ConvertTo(df, whole)), half = hn::Set(df, 0.5f);
  const auto odd_half = hn::And(hn::Eq(rest, half), hn::MaskFromVec(hn::BitCast(df, hn::VecFromMask(di, hn::Ne(hn::And(whole, hn::Set(di, 1)), hn::Zero(di))))));
  const auto up = hn::Or(hn::Gt(rest, half), odd_half);
  const int_lanes steps = hn::Add(whole, hn::BitCast(di, hn::IfThenElseZero(up, hn::BitCast(df, hn::Set(di, 1)))));
  const float_lanes small = hn::Mul(hn::ConvertTo(df, steps), hn::Set(df, 0x1p-24f));
  const float_lanes result = hn::IfThenElse(hn::Lt(magnitude, hn::Set(df, 0x1p-14f)), small, hn::BitCast(df, finite));
  return hn::IfThenElseZero(hn::Ne(result, hn::Zero(df)), hn::CopySign(result, exact));  // a zero is +0
}

/// What is common to the blocks of one tile.
struct tile {
  fast_unit const& unit;
  defined_block const& defined;
  int lowest;            ///< of the fast range, with the bias
  int largest_products;  ///< in quanta: with more, c may not fit
};

/// The largest exponents of a block's products: [rows][16].
template <int BlockSize, int Rows>
HWY_INLINE void take_exponents(std::int32_t const* a, std::int16_t const* b, std::int16_t* HWY_RESTRICT largest) {
  const shorts d;
  const hn::Repartition<std::int32_t, shorts> pairs;
  for (std::size_t first = 0; first < column_group; first += hn::Lanes(d)) {
    hn::Vec<shorts> m[Rows];
    for (int r = 0; r < Rows; ++r) m[r] = hn::Set(d, -32768);
    for (int k = 0; k < BlockSize; ++k) {
      const auto eb = hn::Load(d, b + k * column_group + first);
      for (int r = 0; r < Rows; ++r) m[r] = hn::Max(m[r], hn::Add(eb, hn::BitCast(d, hn::Set(pairs, a[k * row_tile + r]))));
    }
    for (int r = 0; r < Rows; ++r) hn::Store(m[r], d, largest + r * column_group + first);
  }
}

/// Elements of one vector that left the fast range: zeros where there was nothing but zeros, else the definition.
template <bool HalfOutput>
HWY_NOINLINE void repair(tile const& t, std::int16_t const* largest, std::int32_t const* products, std::uint32_t const* before, std::uint32_t* after, int row,
                         std::int64_t k, int first_column, int count) {
  for (int j = 0; j < count; ++j) {
    const std::uint32_t c = before[j];
    const int e = HWY_MAX(int(largest[j]), int(c << 1 >> 24));
    if (!HalfOutput && largest[j] <= highest_without_product && c << 1 == 0) {
      after[j] = 0;
      continue;
    }
    const std::int64_t magnitude = products[j] < 0 ? -std::int64_t{products[j]} : products[j];
    if ((HalfOutput || e >= t.lowest) && e <= highest_fast && magnitude <= t.largest_products) continue;
    after[j] = t.defined.compute(t.defined.context, row, k, first_column + j, c);
  }
}

template <int BlockSize, bool HalfOutput, int Rows>
HWY_INLINE void take_block(tile const& t, packed_rows a, packed_columns b, std::int64_t k, std::uint32_t* HWY_RESTRICT c) {
  const floats df;
  const ints di;
  HWY_ALIGN std::int16_t largest[row_tile * column_group];
  take_exponents<BlockSize, Rows>(a.exponents, b.exponents, largest);

  const int_lanes scale_base = hn::Set(di, t.unit.fraction_bits + 2 * exponent_bias), inverse_base = hn::Set(di, 254 << 23);
  for (std::size_t first = 0; first < column_group; first += hn::Lanes(df)) {
    float_lanes to_quanta[Rows];
    int_lanes sum[Rows], lowest = hn::Set(di, highest_fast), highest = hn::Zero(di), magnitude = hn::Zero(di);
    for (int r = 0; r < Rows; ++r) {
      const int_lanes bits = hn::Load(di, reinterpret_cast<std::int32_t const*>(c) + r * column_group + first);
      const int_lanes c_exponent = hn::BitCast(di, hn::ShiftRight<24>(hn::BitCast(hn::RebindToUnsigned<ints>(), hn::ShiftLeft<1>(bits))));
      int_lanes e = hn::Max(hn::PromoteTo(di, hn::Load(halves(), largest + r * column_group + first)), c_exponent);
      if constexpr (HalfOutput) {
        // c is a number of FP16, and one below 2^-14, subnormal there, counts as the smallest normal number.
        const int_lanes at_least = hn::IfThenZeroElse(hn::Eq(c_exponent, hn::Zero(di)), hn::Set(di, exponent_bias - 14));
        e = hn::Max(hn::Max(e, at_least), hn::Set(di, t.unit.min_exponent + exponent_bias));
      } else {
        lowest = hn::Min(lowest, e);
      }
      highest = hn::Max(highest, e);
      to_quanta[r] = hn::BitCast(df, hn::ShiftLeft<23>(hn::Sub(scale_base, e)));
      sum[r] = hn::Zero(di);
    }
    for (int i = 0; i < BlockSize; ++i) {
      const float_lanes vb = hn::Load(df, b.values + i * column_group + first);
      for (int r = 0; r < Rows; ++r) sum[r] = hn::Add(sum[r], truncated_in_range(hn::Mul(hn::Mul(vb, hn::Set(df, a.values[i * row_tile + r])), to_quanta[r])));
    }
    float_lanes result[Rows];
    for (int r = 0; r < Rows; ++r) {
      const float_lanes start = hn::Load(df, reinterpret_cast<float const*>(c) + r * column_group + first);
      const float_lanes quantum = hn::BitCast(df, hn::Sub(inverse_base, hn::BitCast(di, to_quanta[r])));
      magnitude = hn::Max(magnitude, hn::Abs(sum[r]));
      result[r] = rounded<HalfOutput>(hn::Add(sum[r], truncated_in_range(hn::Mul(start, to_quanta[r]))), quantum);
    }
    const auto outside = hn::Or(hn::Or(hn::Lt(lowest, hn::Set(di, t.lowest)), hn::Gt(highest, hn::Set(di, highest_fast))),
                                hn::Gt(magnitude, hn::Set(di, t.largest_products)));
    if (HWY_LIKELY(hn::AllFalse(di, outside))) {
      for (int r = 0; r < Rows; ++r) hn::Store(result[r], df, reinterpret_cast<float*>(c) + r * column_group + first);
      continue;
    }
    for (int r = 0; r < Rows; ++r) {
      HWY_ALIGN std::uint32_t before[column_group];
      HWY_ALIGN std::int32_t products[column_group];
      std::uint32_t* after = c + r * column_group + first;
      hn::Store(hn::Load(di, reinterpret_cast<std::int32_t const*>(after)), di, reinterpret_cast<std::int32_t*>(before));
      hn::Store(sum[r], di, products);
      hn::Store(result[r], df, reinterpret_cast<float*>(after));
      repair<HalfOutput>(t, largest + r * column_group + first, products, before, after, r, k, int(first), int(hn::Lanes(df)));
    }
  }
}

template <int BlockSize, bool HalfOutput, int Rows>
void take_blocks(tile const& t, packed_rows a, packed_columns b, std::int64_t length, std::uint32_t* c) {
  for (std::int64_t k = 0; k < length; k += BlockSize) {
    const packed_rows block_a{a.values + k * row_tile, a.exponents + k * row_tile};
    const packed_columns block_b{b.values + k * column_group, b.exponents + k * column_group};
    take_block<BlockSize, HalfOutput, Rows>(t, block_a, block_b, k, c);
  }
}

template <int BlockSize, bool HalfOutput>
void take_rows(tile const& t, packed_rows a, packed_columns b, int rows, std::int64_t length, std::uint32_t* c) {
  switch (rows) {
    case 1: return take_blocks<BlockSize, HalfOutput, 1>(t, a, b, length, c);
    case 2: return take_blocks<BlockSize, HalfOutput, 2>(t, a, b, length, c);
    case 3: return take_blocks<BlockSize, HalfOutput, 3>(t, a, b, length, c);
    default: return take_blocks<BlockSize, HalfOutput, 4>(t, a, b, length, c);
  }
}

void accumulate(fast_unit const& unit, packed_rows a, packed_columns b, int rows, std::int64_t length, std::uint32_t* c, defined_block const& defined) {
  const tile t{unit, defined, lowest_fast_exponent(unit.fraction_bits) + exponent_bias, std::int32_t(0x80000000u - (2u << unit.fraction_bits) - 1u)};
  const auto run = [&]<int BlockSize>() {
    if (unit.half_output) take_rows<BlockSize, true>(t, a, b, rows, length, c);
    else take_rows<BlockSize, false>(t, a, b, rows, length, c);
  };
  if (unit.block_size == 16) run.template operator()<16>();
  else if (unit.block_size == 8) run.template operator()<8>();
  else run.template operator()<4>();
}

/// Exponent: 16 bits, or 32 for the same 16 twice.
template <class Exponent>
void take_apart(format input, std::uint16_t const* codes, std::size_t count, float* values, Exponent* exponents) {
  const layout of(input);
  const floats df;
  const ints di;
  const bool for_rows = sizeof(Exponent) == 4;
  const float_lanes scale = hn::BitCast(df, hn::Set(di, (2 * exponent_bias - of.bias) << 23));  // 2^(127 − bias)
  for (std::size_t i = 0; i < count; i += hn::Lanes(df)) {
    const int_lanes bits = hn::BitCast(di, hn::PromoteTo(hn::RebindToUnsigned<ints>(), hn::Load(hn::Rebind<std::uint16_t, floats>(), codes + i)));
    const int_lanes magnitude = hn::And(bits, hn::Set(di, 0x7fff)), sign = hn::ShiftLeft<16>(hn::Sub(bits, magnitude));
    const int_lanes field = hn::ShiftRightSame(magnitude, of.fraction_bits);
    const auto special = hn::Eq(field, hn::Set(di, of.special_field)), zero = hn::Eq(magnitude, hn::Zero(di));
    const int_lanes number = hn::Or(sign, hn::ShiftLeftSame(magnitude, 23 - of.fraction_bits));
    const float_lanes value = hn::Mul(hn::BitCast(df, number), scale);
    hn::Store(hn::BitCast(df, hn::IfThenZeroElse(special, hn::BitCast(di, value))), df, values + i);
    int_lanes e = hn::Sub(hn::Max(field, hn::Set(di, 1)), hn::Set(di, of.bias));
    e = hn::IfThenElse(special, hn::Set(di, exponent_of_special), hn::IfThenElse(zero, hn::Set(di, exponent_of_zero), e));
    if constexpr (for_rows) {
      e = hn::Add(e, hn::Set(di, exponent_bias));
      hn::Store(hn::Or(hn::ShiftLeft<16>(e), hn::And(e, hn::Set(di, 0xffff))), di, exponents + i);
    } else {
      hn::Store(hn::DemoteTo(halves(), e), halves(), exponents + i);
    }
  }
}

#endif

void columns_apart(format input, std::uint16_t const* codes, std::size_t count, float* values, std::int16_t* exponents) { take_apart(input, codes, count, values, exponents); }
void rows_apart(format input, std::uint16_t const* codes, std::size_t count, float* values, std::int32_t* exponents) { take_apart(input, codes, count, values, exponents); }

}  // namespace stickybit::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stickybit::detail {

HWY_EXPORT(accumulate);
HWY_EXPORT(columns_apart);
HWY_EXPORT(rows_apart);

void accumulate_tile(fast_unit const& unit, packed_rows a, packed_columns b, int rows, std::int64_t length, std::uint32_t* c, defined_block const& defined) {
  HWY_DYNAMIC_DISPATCH(accumulate)(unit, a, b, rows, length, c, defined);
}

void take_columns_apart(format input, std::uint16_t const* codes, std::size_t count, float* values, std::int16_t* exponents) {
  HWY_DYNAMIC_DISPATCH(columns_apart)(input, codes, count, values, exponents);
}
void take_rows_apart(format input, std::uint16_t const* codes, std::size_t count, float* values, std::int32_t* exponents) {
  HWY_DYNAMIC_DISPATCH(rows_apart)(input, codes, count, values, exponents);
}

}  // namespace stickybit::detail
#endif
