// The fast form of block_arithmetic::rounded_tree: the host's own multiplications and additions to nearest even, flushed by hand.
//
// A product of two operands is exact in FP32 (at most 22 significand bits, and the last bit of one that is 2^-127 or more lies at 2^-149 or
// above), and below 2^-126 it becomes a zero of its sign. Sums below 2^-126 are exact, and become zeros likewise. Infinite and NaN operands
// go to the definition; infinite sums do as IEEE says.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "block_fma/fast_tree.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include <cstdint>

#include "fast_blocks.hpp"

HWY_BEFORE_NAMESPACE();
namespace stickybit::detail::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

void tree(tree_unit const& unit, packed_rows, packed_columns, int rows, std::int64_t length, std::uint32_t* c, defined_block const& defined) {
  for (std::int64_t k = 0; k < length; k += unit.block_size)
    for (int r = 0; r < rows; ++r)
      for (int j = 0; j < column_group; ++j) c[r * column_group + j] = defined.compute(defined.context, r, k, j, c[r * column_group + j]);
}

#else

namespace hn = hwy::HWY_NAMESPACE;

using floats = hn::CappedTag<float, column_group>;
using ints = hn::RebindToSigned<floats>;
using halves = hn::Rebind<std::int16_t, floats>;
using float_lanes = hn::Vec<floats>;

constexpr float smallest_f32 = 0x1p-126f;

/// Below the limit a zero of the same sign.
HWY_INLINE float_lanes flushed(float_lanes x) {
  const floats d;
  const auto small = hn::Lt(hn::Abs(x), hn::Set(d, smallest_f32));
  return hn::IfThenElse(small, hn::CopySign(hn::Zero(d), x), x);
}
/// Subnormal operands and c are +0; a zero keeps its sign.
HWY_INLINE float_lanes without_subnormals(float_lanes x, float_lanes smallest) {
  const auto magnitude = hn::Abs(x);
  return hn::IfThenZeroElse(hn::And(hn::Lt(magnitude, smallest), hn::Gt(magnitude, hn::Zero(floats()))), x);
}

template <int BlockSize>
void take_blocks(tree_unit const& unit, packed_rows a, packed_columns b, int rows, std::int64_t length, std::uint32_t* c, defined_block const& defined) {
  const floats d;
  const ints di;
  const float_lanes smallest = hn::Set(d, unit.smallest_normal), nan = hn::BitCast(d, hn::Set(di, 0x7fffffff));
  HWY_ALIGN std::uint32_t before[column_group], special[column_group];
  for (std::int64_t k = 0; k < length; k += BlockSize)
    for (std::size_t first = 0; first < column_group; first += hn::Lanes(d))
      for (int r = 0; r < rows; ++r) {
        float_lanes p[BlockSize];
        auto largest = hn::Zero(di);
        for (int i = 0; i < BlockSize; ++i) {
          const std::int64_t at = k + i;
          const float_lanes x = without_subnormals(hn::Set(d, a.values[at * row_tile + r]), smallest), y = without_subnormals(hn::Load(d, b.values + at * column_group + first), smallest);
          p[i] = flushed(hn::Mul(x, y));
          const int row_exponent = std::int16_t(a.exponents[at * row_tile + r]);
          largest = hn::Max(largest, hn::Max(hn::Set(di, row_exponent), hn::PromoteTo(di, hn::Load(halves(), b.exponents + at * column_group + first))));
        }
        for (int count = BlockSize; count > 1; count /= 2)
          for (int i = 0; i < count / 2; ++i) p[i] = flushed(hn::Add(p[2 * i], p[2 * i + 1]));
        std::uint32_t* const to = c + r * column_group + first;
        const float_lanes start = hn::Load(d, reinterpret_cast<float const*>(to));
        const float_lanes sum = flushed(hn::Add(without_subnormals(start, hn::Set(d, smallest_f32)), p[0]));
        hn::Store(hn::IfThenElse(hn::IsNaN(sum), nan, sum), d, reinterpret_cast<float*>(to));
        const auto outside = hn::Gt(largest, hn::Set(di, exponent_of_special - 1));
        if (HWY_LIKELY(hn::AllFalse(di, outside))) continue;
        hn::Store(start, d, reinterpret_cast<float*>(before));
        hn::Store(hn::VecFromMask(di, outside), di, reinterpret_cast<std::int32_t*>(special));
        for (std::size_t j = 0; j < hn::Lanes(d); ++j)
          if (special[j] != 0) to[j] = defined.compute(defined.context, r, k, int(first + j), before[j]);
      }
}

void tree(tree_unit const& unit, packed_rows a, packed_columns b, int rows, std::int64_t length, std::uint32_t* c, defined_block const& defined) {
  if (unit.block_size == 4) take_blocks<4>(unit, a, b, rows, length, c, defined);
  else take_blocks<2>(unit, a, b, rows, length, c, defined);
}

#endif

}  // namespace stickybit::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stickybit::detail {

HWY_EXPORT(tree);

void accumulate_tree(tree_unit const& unit, packed_rows a, packed_columns b, int rows, std::int64_t length, std::uint32_t* c, defined_block const& defined) {
  HWY_DYNAMIC_DISPATCH(tree)(unit, a, b, rows, length, c, defined);
}

}  // namespace stickybit::detail
#endif
