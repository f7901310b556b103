// Operands of the fast forms: codes of any format become numbers of FP32 and exponents.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "block_fma/operand_lanes.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "fast_blocks.hpp"

HWY_BEFORE_NAMESPACE();
namespace stickybit::detail::HWY_NAMESPACE {

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

template <class Code, class Exponent>
void take_apart(format, Code const*, std::size_t count, float* values, Exponent* exponents) {
  std::fill_n(values, count, 0.0f);  // never read
  std::fill_n(exponents, count, Exponent{0});
}

#else

namespace hn = hwy::HWY_NAMESPACE;

using floats = hn::CappedTag<float, column_group>;
using ints = hn::RebindToSigned<floats>;
using halves = hn::Rebind<std::int16_t, floats>;

/// How codes of one format become numbers of FP32: bits, then a scale.
struct layout {
  int padding, width, fraction_bits, bias;
  std::int32_t first_special;  ///< magnitudes from here on are infinity or NaN
  std::int32_t special_bits;   ///< and so is this code; −1: none
  explicit layout(format f) {
    const format_traits t = traits_of(f);
    padding = t.padding_bits;
    width = t.width_bits - padding;
    fraction_bits = t.fraction_bits();
    bias = t.bias();
    first_special = std::int32_t(t.largest_magnitude() + 1);
    special_bits = t.special == special_codes::nan_negative_zero ? 1 << (width - 1) : -1;
  }
};

HWY_INLINE hn::Vec<ints> load_codes(std::uint16_t const* codes) {
  return hn::BitCast(ints(), hn::PromoteTo(hn::RebindToUnsigned<ints>(), hn::Load(hn::Rebind<std::uint16_t, floats>(), codes)));
}
HWY_INLINE hn::Vec<ints> load_codes(std::uint32_t const* codes) { return hn::BitCast(ints(), hn::Load(hn::RebindToUnsigned<ints>(), codes)); }

/// Exponent: 16 bits, or 32 for the same 16 twice.
template <class Code, class Exponent>
void take_apart(format input, Code const* codes, std::size_t count, float* values, Exponent* exponents) {
  const layout of(input);
  const floats df;
  const ints di;
  const bool for_rows = sizeof(Exponent) == 4;
  const auto scale = hn::BitCast(df, hn::Set(di, (2 * exponent_bias - of.bias) << 23));  // 2^(127 − bias)
  const auto magnitudes = hn::Set(di, (1 << (of.width - 1)) - 1);
  for (std::size_t i = 0; i < count; i += hn::Lanes(df)) {
    const auto raw = load_codes(codes + i);
    const auto bits = hn::ShiftRightSame(raw, of.padding);  // TF32's sign fills the bits above its width
    const auto magnitude = hn::And(bits, magnitudes), sign = hn::ShiftLeftSame(hn::AndNot(magnitudes, bits), 32 - of.width);
    const auto field = hn::ShiftRightSame(magnitude, of.fraction_bits);
    const auto special = hn::Or(hn::Gt(magnitude, hn::Set(di, of.first_special - 1)), hn::Eq(bits, hn::Set(di, of.special_bits)));
    const auto zero = hn::Eq(magnitude, hn::Zero(di));
    const auto number = hn::Or(sign, hn::ShiftLeftSame(magnitude, 23 - of.fraction_bits));
    const auto value = hn::Mul(hn::BitCast(df, number), scale);
    hn::Store(hn::BitCast(df, hn::IfThenZeroElse(special, hn::BitCast(di, value))), df, values + i);
    auto e = hn::Sub(hn::Max(field, hn::Set(di, 1)), hn::Set(di, of.bias));
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

template <class Exponent>
void of_any_width(format input, void const* codes, std::size_t count, float* values, Exponent* exponents) {
  if (input == format::tf32) take_apart(input, static_cast<std::uint32_t const*>(codes), count, values, exponents);
  else take_apart(input, static_cast<std::uint16_t const*>(codes), count, values, exponents);
}
void columns_apart(format input, void const* codes, std::size_t count, float* values, std::int16_t* exponents) { of_any_width(input, codes, count, values, exponents); }
void rows_apart(format input, void const* codes, std::size_t count, float* values, std::int32_t* exponents) { of_any_width(input, codes, count, values, exponents); }

}  // namespace stickybit::detail::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stickybit::detail {

HWY_EXPORT(columns_apart);
HWY_EXPORT(rows_apart);

void take_columns_apart(format input, void const* codes, std::size_t count, float* values, std::int16_t* exponents) {
  HWY_DYNAMIC_DISPATCH(columns_apart)(input, codes, count, values, exponents);
}
void take_rows_apart(format input, void const* codes, std::size_t count, float* values, std::int32_t* exponents) {
  HWY_DYNAMIC_DISPATCH(rows_apart)(input, codes, count, values, exponents);
}

}  // namespace stickybit::detail
#endif
