// The fast form of block_fma: FP32 where it is exact, the definition elsewhere.
//
// Let E be the largest exponent in a block, and E in the fast range, F − 126 to 120. Then
//  - each product of two operands is exact in FP32 (at most 22 significand bits) unless it lies below 2^-126, and then it lies
//    below the quantum 2^(E−F) too and is cut to 0 either way (the host rounds toward zero: it never reaches 2^-126 from below);
//  - times 2^(F−E), a power of two, it is a product in quanta, below 2^(F+2) in magnitude; conversion to an integer
//    truncates, as the machine does; so does c's, which is below 2^(F+1);
//  - 16 products stay below 16 · 2^(F+2) ≤ 2^31 (strictly: no significand reaches 2); blocks of 32 are two such sums. c, or the other
//    half, may bring the sum beyond; a lane where the products alone leave no room for c is left to the definition;
//  - converting the sum to FP32 rounds toward zero, as the machine does, and multiplying by 2^(E−F) is exact: 2^(E−F) ≥ 2^-126.
// Zero operands have an exponent far below any other, infinities and NaN one far above, so they leave the range by themselves.
// An element of nothing but zeros is +0 at any scale. Results of fewer fraction bits are cut once more, toward zero as before.
// Scales (E8M0) are exponents: S, their sum, is one number for a block, so its products are multiplied by 2^(F−E+S), or by 0 where that is
// no number of FP32 and they vanish.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "block_fma/fast_blocks.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include <algorithm>

#include "fast_blocks.hpp"
#include "rounding/f32_lanes-inl.hpp"
#include "stickybit/rounding/arithmetic.hpp"
#include "stickybit/rounding/convert.hpp"

HWY_BEFORE_NAMESPACE();
namespace stickybit::detail::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

/// A machine without vectors takes the definition.
void accumulate(fast_unit const& unit, packed_rows, packed_columns, int rows, std::int64_t length, std::uint32_t* c, defined_block const& defined) {
  const auto one = [&](std::int64_t k) {
    for (int r = 0; r < rows; ++r)
      for (int j = 0; j < column_group; ++j) c[r * column_group + j] = defined.compute(defined.context, r, k, j, c[r * column_group + j]);
  };
  for (std::int64_t k = 0; k < length; k += unit.pairs ? 2 * unit.block_size : unit.block_size) {
    one(k);
    if (unit.pairs) one(k + 2);
  }
}

void add(bool half_output, std::uint32_t const* results, std::size_t count, std::uint32_t* c) {
  for (std::size_t i = 0; i < count; ++i) {
    const f32_code x = f32_code::from_bits(results[i]), y = f32_code::from_bits(c[i]);
    if (half_output) c[i] = convert<format::f32>(stickybit::add(convert<format::f16>(x), convert<format::f16>(y), subnormals::kept)).to_bits();
    else c[i] = stickybit::add(x, y, subnormals::kept).to_bits();
  }
}

#else

namespace hn = hwy::HWY_NAMESPACE;

constexpr int highest_fast = highest_fast_exponent + exponent_bias;
constexpr int highest_without_product = exponent_of_zero + 700 + exponent_bias;

using floats = hn::CappedTag<float, column_group>;
using ints = hn::RebindToSigned<floats>;
using shorts = hn::CappedTag<std::int16_t, column_group>;
using halves = hn::Rebind<std::int16_t, floats>;
using float_lanes = hn::Vec<floats>;
using int_lanes = hn::Vec<ints>;
using host::HWY_NAMESPACE::truncated_in_range;

/// Rounded to FP16, to nearest even, in any direction of the host's; |exact| ≥ 2^-126 or 0, FP32 has what was cut below as its last bit.
HWY_INLINE float_lanes nearest_half(float_lanes exact) {
  const floats df;
  const ints di;
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

/// What results are: FP32, FP32 with fewer fraction bits, FP16.
enum class result_kind : std::uint8_t { f32, short_f32, f16 };

/// The sums in quanta, rounded once. The host rounds toward zero.
template <result_kind Result>
HWY_INLINE float_lanes rounded(int_lanes sum, float_lanes quantum, std::uint32_t kept_bits) {
  const floats df;
  const ints di;
  const float_lanes all = hn::ConvertTo(df, sum);
  if constexpr (Result == result_kind::f32) return hn::Mul(all, quantum);
  if constexpr (Result == result_kind::short_f32) return hn::BitCast(df, hn::And(hn::BitCast(di, hn::Mul(all, quantum)), hn::Set(di, std::int32_t(kept_bits))));
  // To odd first, so that rounding to nearest afterwards sees what was cut.
  const auto inexact = hn::Ne(truncated_in_range(all), sum);
  const float_lanes odd = hn::BitCast(df, hn::Or(hn::BitCast(di, all), hn::IfThenElseZero(inexact, hn::Set(di, 1))));
  return nearest_half(hn::Mul(odd, quantum));
}

/// What is common to the blocks of one tile.
struct tile {
  fast_unit const& unit;
  defined_block const& defined;
  int lowest;            ///< of the fast range, with the bias
  int largest_products;  ///< in quanta: with more, c may not fit
};

/// How a block lies in k and what it has.
enum class block_kind : std::uint8_t { plain, pairs, scaled };

/// The largest exponents of a block's products, with its scales': [rows][16].
template <int BlockSize, block_kind Kind, int Rows>
HWY_INLINE void take_exponents(packed_rows a, packed_columns b, std::int16_t* HWY_RESTRICT largest) {
  const shorts d;
  const hn::Repartition<std::int32_t, shorts> pairs;
  for (std::size_t first = 0; first < column_group; first += hn::Lanes(d)) {
    hn::Vec<shorts> m[Rows];
    for (int r = 0; r < Rows; ++r) m[r] = hn::Set(d, -32768);
    for (int i = 0; i < BlockSize; ++i) {
      const int k = place_in_block(Kind == block_kind::pairs, i);
      const auto eb = hn::Load(d, b.exponents + k * column_group + first);
      for (int r = 0; r < Rows; ++r) m[r] = hn::Max(m[r], hn::Add(eb, hn::BitCast(d, hn::Set(pairs, a.exponents[k * row_tile + r]))));
    }
    if constexpr (Kind == block_kind::scaled)
      for (int r = 0; r < Rows; ++r) m[r] = hn::Add(m[r], hn::Add(hn::Load(d, b.scale_exponents + first), hn::Set(d, a.scale_exponents[r])));
    for (int r = 0; r < Rows; ++r) hn::Store(m[r], d, largest + r * column_group + first);
  }
}

/// Elements of one vector that left the fast range: zeros where there was nothing but zeros, else the definition.
template <result_kind Result>
HWY_NOINLINE void repair(tile const& t, std::int16_t const* largest, std::int32_t const* magnitude, std::uint32_t const* before, std::uint32_t* after, int row,
                         std::int64_t k, int first_column, int count) {
  for (int j = 0; j < count; ++j) {
    const std::uint32_t c = before[j];
    const int e = HWY_MAX(int(largest[j]), int(c << 1 >> 24));
    if (Result != result_kind::f16 && largest[j] <= highest_without_product && c << 1 == 0) {
      after[j] = 0;
      continue;
    }
    if ((Result == result_kind::f16 || e >= t.lowest) && e <= highest_fast && magnitude[j] >= 0 && magnitude[j] <= t.largest_products) continue;
    after[j] = t.defined.compute(t.defined.context, row, k, first_column + j, c);
  }
}

/// Products in quanta of the 16 (or fewer) that begin at `from`.
template <int Count, block_kind Kind, int Rows>
HWY_INLINE void add_products(packed_rows a, packed_columns b, int from, std::size_t first, float_lanes const* to_quanta, int_lanes* sum) {
  const floats df;
  for (int r = 0; r < Rows; ++r) sum[r] = hn::Zero(ints());
  for (int i = 0; i < Count; ++i) {
    const int k = place_in_block(Kind == block_kind::pairs, from + i);
    const float_lanes vb = hn::Load(df, b.values + k * column_group + first);
    for (int r = 0; r < Rows; ++r) sum[r] = hn::Add(sum[r], truncated_in_range(hn::Mul(hn::Mul(vb, hn::Set(df, a.values[k * row_tile + r])), to_quanta[r])));
  }
}

/// 2^(F−E+S) of a block with scales, from E with the bias; 0 below 2^-126, where products vanish. Above 2^127 there are none but zeros.
HWY_INLINE float_lanes scaled_to_quanta(packed_rows a, packed_columns b, int r, std::size_t first, int_lanes scale_base, int_lanes e) {
  const ints di;
  const int_lanes s = hn::Add(hn::PromoteTo(di, hn::Load(halves(), b.scale_exponents + first)), hn::Set(di, a.scale_exponents[r]));
  const int_lanes field = hn::Add(hn::Sub(scale_base, e), s);
  return hn::BitCast(floats(), hn::ShiftLeft<23>(hn::Max(hn::Min(field, hn::Set(di, 254)), hn::Zero(di))));
}

template <int BlockSize, result_kind Result, block_kind Kind, int Rows>
HWY_INLINE void take_block(tile const& t, packed_rows a, packed_columns b, std::int64_t k, std::uint32_t* HWY_RESTRICT c) {
  const floats df;
  const ints di;
  HWY_ALIGN std::int16_t largest[row_tile * column_group];
  take_exponents<BlockSize, Kind, Rows>(a, b, largest);

  const int_lanes scale_base = hn::Set(di, t.unit.fraction_bits + 2 * exponent_bias), inverse_base = hn::Set(di, 254 << 23);
  for (std::size_t first = 0; first < column_group; first += hn::Lanes(df)) {
    float_lanes to_quanta[Rows], products_to_quanta[Rows];
    int_lanes sum[Rows], lowest = hn::Set(di, highest_fast), highest = hn::Zero(di), magnitude = hn::Zero(di);
    for (int r = 0; r < Rows; ++r) {
      const int_lanes bits = hn::Load(di, reinterpret_cast<std::int32_t const*>(c) + r * column_group + first);
      const int_lanes c_exponent = hn::BitCast(di, hn::ShiftRight<24>(hn::BitCast(hn::RebindToUnsigned<ints>(), hn::ShiftLeft<1>(bits))));
      int_lanes e = hn::Max(hn::PromoteTo(di, hn::Load(halves(), largest + r * column_group + first)), c_exponent);
      if constexpr (Result == result_kind::f16) {
        // c is a number of FP16, and one below 2^-14, subnormal there, counts as the smallest normal number.
        const int_lanes at_least = hn::IfThenZeroElse(hn::Eq(c_exponent, hn::Zero(di)), hn::Set(di, exponent_bias - 14));
        e = hn::Max(hn::Max(e, at_least), hn::Set(di, t.unit.min_exponent + exponent_bias));
      } else {
        lowest = hn::Min(lowest, e);
      }
      highest = hn::Max(highest, e);
      to_quanta[r] = hn::BitCast(df, hn::ShiftLeft<23>(hn::Sub(scale_base, e)));
      if constexpr (Kind == block_kind::scaled) products_to_quanta[r] = scaled_to_quanta(a, b, r, first, scale_base, e);
      else products_to_quanta[r] = to_quanta[r];
    }
    add_products<HWY_MIN(BlockSize, 16), Kind, Rows>(a, b, 0, first, products_to_quanta, sum);
    int_lanes magnitudes[BlockSize == 32 ? Rows : 1];
    if constexpr (BlockSize == 32) {
      int_lanes upper[Rows];
      add_products<16, Kind, Rows>(a, b, 16, first, products_to_quanta, upper);
      for (int r = 0; r < Rows; ++r) {
        // Numbers of FP32 tell whether two sums of 31 bits have one; 2^12 is more than their rounding takes away.
        const float_lanes both = hn::Abs(hn::Add(hn::ConvertTo(df, sum[r]), hn::ConvertTo(df, upper[r])));
        const auto too_large = hn::Gt(both, hn::Set(df, 0x1p31f - 0x1p12f));
        sum[r] = hn::Add(sum[r], upper[r]);
        magnitudes[r] = hn::IfThenElse(hn::RebindMask(di, too_large), hn::Set(di, 0x7fffffff), hn::Abs(sum[r]));
      }
    }
    const auto magnitude_of = [&](int r) HWY_ATTR {
      if constexpr (BlockSize == 32) return magnitudes[r];
      else return hn::Abs(sum[r]);
    };
    float_lanes result[Rows];
    for (int r = 0; r < Rows; ++r) {
      const float_lanes start = hn::Load(df, reinterpret_cast<float const*>(c) + r * column_group + first);
      const float_lanes quantum = hn::BitCast(df, hn::Sub(inverse_base, hn::BitCast(di, to_quanta[r])));
      magnitude = hn::Max(magnitude, magnitude_of(r));
      result[r] = rounded<Result>(hn::Add(sum[r], truncated_in_range(hn::Mul(start, to_quanta[r]))), quantum, t.unit.kept_bits);
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
      hn::Store(magnitude_of(r), di, products);
      hn::Store(result[r], df, reinterpret_cast<float*>(after));
      repair<Result>(t, largest + r * column_group + first, products, before, after, r, k, int(first), int(hn::Lanes(df)));
    }
  }
}

template <int BlockSize, result_kind Result, block_kind Kind, int Rows>
void take_blocks(tile const& t, packed_rows a, packed_columns b, std::int64_t length, std::uint32_t* c) {
  for (std::int64_t k = 0; k < length; k += BlockSize) {
    // In pairs, the second of two blocks begins two rows after the first.
    const std::int64_t at = Kind == block_kind::pairs && k % (2 * BlockSize) != 0 ? k - BlockSize + 2 : k;
    const std::int64_t scale = Kind == block_kind::scaled ? k / t.unit.scale_block : 0;
    const packed_rows block_a{a.values + at * row_tile, a.exponents + at * row_tile, nullptr, a.scale_exponents + scale * row_tile, nullptr};
    const packed_columns block_b{b.values + at * column_group, b.exponents + at * column_group, nullptr, b.scale_exponents + scale * column_group, nullptr};
    take_block<BlockSize, Result, Kind, Rows>(t, block_a, block_b, at, c);
  }
}

template <int BlockSize, result_kind Result, block_kind Kind = block_kind::plain>
void take_rows(tile const& t, packed_rows a, packed_columns b, int rows, std::int64_t length, std::uint32_t* c) {
  switch (rows) {
    case 1: return take_blocks<BlockSize, Result, Kind, 1>(t, a, b, length, c);
    case 2: return take_blocks<BlockSize, Result, Kind, 2>(t, a, b, length, c);
    case 3: return take_blocks<BlockSize, Result, Kind, 3>(t, a, b, length, c);
    default: return take_blocks<BlockSize, Result, Kind, 4>(t, a, b, length, c);
  }
}

void accumulate(fast_unit const& unit, packed_rows a, packed_columns b, int rows, std::int64_t length, std::uint32_t* c, defined_block const& defined) {
  const tile t{unit, defined, lowest_fast_exponent(unit.fraction_bits) + exponent_bias, std::int32_t(0x80000000u - (2u << unit.fraction_bits) - 1u)};
  const auto run = [&]<int BlockSize, block_kind Kind>() {
    if (unit.half_output) return take_rows<BlockSize, result_kind::f16, Kind>(t, a, b, rows, length, c);
    if constexpr (BlockSize >= 16 && Kind == block_kind::plain)
      if (unit.kept_bits != ~0u) return take_rows<BlockSize, result_kind::short_f32, Kind>(t, a, b, rows, length, c);
    take_rows<BlockSize, result_kind::f32, Kind>(t, a, b, rows, length, c);
  };
  if (unit.scale_block != 0) take_rows<32, result_kind::f32, block_kind::scaled>(t, a, b, rows, length, c);
  else if (unit.pairs) run.template operator()<16, block_kind::pairs>();
  else if (unit.block_size == 32) run.template operator()<32, block_kind::plain>();
  else if (unit.block_size == 16) run.template operator()<16, block_kind::plain>();
  else if (unit.block_size == 8) run.template operator()<8, block_kind::plain>();
  else run.template operator()<4, block_kind::plain>();
}

/// FP16: a sum of two of its numbers has 24 bits of FP32 or is rounded there first, which is harmless: 24 ≥ 2·11 + 2.
void add(bool half_output, std::uint32_t const* results, std::size_t count, std::uint32_t* c) {
  const floats df;
  const ints di;
  for (std::size_t i = 0; i < count; i += hn::Lanes(df)) {
    const float_lanes sum = hn::Add(hn::Load(df, reinterpret_cast<float const*>(results) + i), hn::Load(df, reinterpret_cast<float const*>(c) + i));
    const float_lanes result = half_output ? nearest_half(sum) : sum;  // zero: +0, for a block's zero is +0
    const float_lanes nan = hn::BitCast(df, hn::Set(di, 0x7fffffff));
    hn::Store(hn::IfThenElse(hn::IsNaN(sum), nan, result), df, reinterpret_cast<float*>(c) + i);
  }
}

#endif

}  // namespace stickybit::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stickybit::detail {

HWY_EXPORT(accumulate);
HWY_EXPORT(add);

void accumulate_tile(fast_unit const& unit, packed_rows a, packed_columns b, int rows, std::int64_t length, std::uint32_t* c, defined_block const& defined) {
  HWY_DYNAMIC_DISPATCH(accumulate)(unit, a, b, rows, length, c, defined);
}

void add_results(bool half_output, std::uint32_t const* results, std::size_t count, std::uint32_t* c) { HWY_DYNAMIC_DISPATCH(add)(half_output, results, count, c); }

}  // namespace stickybit::detail
#endif
