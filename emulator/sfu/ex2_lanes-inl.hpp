// ex2 in vector registers, for one target of Highway: included once a target (no #pragma once). Not for SCALAR.
#if defined(STICKYBIT_EX2_LANES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef STICKYBIT_EX2_LANES_INL
#undef STICKYBIT_EX2_LANES_INL
#else
#define STICKYBIT_EX2_LANES_INL
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "rounding/f32_lanes-inl.hpp"

#if HWY_TARGET != HWY_SCALAR  // which has neither shuffles nor 16-bit halves
HWY_BEFORE_NAMESPACE();
namespace stickybit::HWY_NAMESPACE {

// With T = x in fixed point (n, row, low: 23 fraction bits, as ex2() says) the result's code is
//     ((n + 126) << 23) + R,   R = (a·2^13 + b·low + c·SQ(low) + 0x77e2) >> 15.
// Let b = 2^15 + b′ and a = 4·a′ + a″. Then R = a′ + low + ((a″·2^13 + 0x77e2 + b′·low + c·SQ) >> 15), and since n, row and low
// are T's own bits the code is
//     T + (127 << 23) + (a′ − 2^23 − row·2^17) + ((a″·2^13 + 0x77e2 + b′·low + c·SQ) >> 15),
// all within 32 signed bits: |b′·low| < 2^31 − 2^28 for the known tables, and ex2_rows checks it for others.

namespace lanes = stickybit::host::HWY_NAMESPACE;
namespace hn = hwy::HWY_NAMESPACE;
using lanes::f32_lanes, lanes::f32_tag, lanes::u32_lanes, lanes::u32_tag, lanes::lane_count, lanes::all, lanes::i32_tag, lanes::i32_lanes;

HWY_INLINE i32_lanes as_signed(u32_lanes v) { return hn::BitCast(i32_tag(), v); }
HWY_INLINE u32_lanes as_unsigned(i32_lanes v) { return hn::BitCast(u32_tag(), v); }

/// The rows that the lower or upper halves of `index` pick, one 64-bit load each: on Zen 3 faster than gathers.
template <int Shift, class Tag>
HWY_INLINE hn::Vec<Tag> load_rows(Tag d, std::uint64_t const* rows, std::uint64_t const* index) {
  if constexpr (hn::MaxLanes(Tag()) == 1) {
    return hn::LoadU(d, rows + std::uint32_t(index[0] >> Shift));
  } else {
    const hn::Half<Tag> half;
    return hn::Combine(d, load_rows<Shift>(half, rows, index + hn::MaxLanes(hn::Half<Tag>())), load_rows<Shift>(half, rows, index));
  }
}

/// Both halves of the row of each lane.
struct row_lanes {
  u32_lanes upper, lower;
};
HWY_INLINE row_lanes look_up(std::uint64_t const* rows, u32_lanes index) {
  const hn::Repartition<std::uint64_t, f32_tag> pairs;
  HWY_ALIGN std::uint64_t at[lane_count / 2];
  hn::Store(hn::BitCast(pairs, index), pairs, at);
  const auto even = load_rows<0>(pairs, rows, at), odd = load_rows<32>(pairs, rows, at);
  const auto narrow = [](auto v) HWY_ATTR { return hn::BitCast(u32_tag(), v); };
  return {.upper = hn::OddEven(narrow(odd), narrow(hn::ShiftRight<32>(even))), .lower = hn::OddEven(narrow(hn::ShiftLeft<32>(odd)), narrow(even))};
}

/// a₀·b₀ + a₁·b₁ of the 16-bit halves of each lane; all of them below 2^15.
HWY_INLINE u32_lanes dot_of_halves(u32_lanes a, u32_lanes b) {
#if HWY_ARCH_X86
  const hn::Repartition<std::int16_t, f32_tag> d;
  i32_lanes unused = hn::Zero(i32_tag());
  return as_unsigned(hn::ReorderWidenMulAccumulate(i32_tag(), hn::BitCast(d, a), hn::BitCast(d, b), hn::Zero(i32_tag()), unused));  // not reordered on x86
#else
  const u32_lanes low = all(0xffffu);
  return hn::Add(hn::Mul(hn::And(a, low), hn::And(b, low)), hn::Mul(hn::ShiftRight<16>(a), hn::ShiftRight<16>(b)));
#endif
}

/// A shuffle inside each lane of 32 bits: byte i of a lane becomes its byte bytes[i], or 0 where that is 0x80.
HWY_INLINE u32_lanes shuffled(u32_lanes v, std::uint32_t b0, std::uint32_t b1, std::uint32_t b2, std::uint32_t b3) {
  const std::uint32_t first = b0 | b1 << 8 | b2 << 16 | b3 << 24, next = 0x04040404;
  alignas(16) const std::uint32_t pattern[4] = {first, first + next, first + 2 * next, first + 3 * next};
  const hn::Repartition<std::uint8_t, f32_tag> bytes;
  return hn::BitCast(u32_tag(), hn::TableLookupBytesOr0(hn::BitCast(bytes, v), hn::BitCast(bytes, hn::LoadDup128(u32_tag(), pattern))));
}

/// SQ of the low 17 bits: detail::truncated_square(). With h the high 8 and l the low 9 bits, l >> (9 − k) where bit k of h is set
/// is the upper half of a 16-bit product, (l·2^7)·(h & 2^k); so is h² >> 1, of h·2^8 and h·2^7. Two of the eight terms a lane.
HWY_INLINE u32_lanes truncated_square(u32_lanes t) {
  const hn::Repartition<std::uint16_t, f32_tag> d;
  const auto halves = [](std::uint32_t low, std::uint32_t high) HWY_ATTR { return all(low | high << 16); };
  const auto upper = [d](u32_lanes a, u32_lanes b) HWY_ATTR { return hn::MulHigh(hn::BitCast(d, a), hn::BitCast(d, b)); };
  const u32_lanes v = hn::ShiftLeft<7>(t);  // bytes 0 and 1: l·2^7, byte 2: h
  const u32_lanes l = shuffled(v, 0, 1, 0, 1), h = shuffled(v, 2, 0x80, 2, 0x80), last = shuffled(v, 0, 1, 0x80, 2);
  const u32_lanes by = hn::And(hn::BitCast(u32_tag(), hn::Mul(hn::BitCast(d, h), hn::BitCast(d, halves(1, 0x80)))), halves(0x80, 0xffff));
  const auto sum = hn::Add(hn::Add(upper(l, hn::And(h, halves(0x02, 0x04))), upper(l, hn::And(h, halves(0x08, 0x10)))),
                           hn::Add(upper(l, hn::And(h, halves(0x20, 0x40))), upper(last, by)));
  return dot_of_halves(hn::BitCast(u32_tag(), sum), halves(1, 1));
}

/// @pre rows are those of an ex2_rows that fit()
HWY_INLINE f32_lanes ex2_of(std::uint64_t const* rows, f32_lanes x) {
  const i32_tag d;
  // Fixed point, truncated; scaling is exact, and a subnormal x has nothing left. From 128 on the result is that of 128, infinity;
  // below −126 it is masked below, whatever the conversion gives.
  const f32_lanes bounded = hn::Min(x, all(f32_code::from_bits(0x43000000)));
  const i32_lanes truncated = lanes::truncated_in_range(hn::Mul(bounded, all(f32_code::from_bits(0x4b000000))));
  // A negative number with a fraction f: one's complement, that is, one less than the negative.
  const i32_lanes zero = hn::Zero(d);
  const auto whole = hn::Eq(hn::And(truncated, hn::Set(d, 0x7fffff)), zero);
  const i32_lanes fixed = hn::Add(truncated, hn::AndNot(hn::VecFromMask(d, whole), hn::VecFromMask(d, hn::Lt(truncated, zero))));
  const u32_lanes t = as_unsigned(fixed);

  const row_lanes row = look_up(rows, hn::And(hn::ShiftRight<17>(t), all(63u)));
  const i32_lanes upper = as_signed(row.upper), lower = as_signed(row.lower);
  const u32_lanes c = hn::And(row.lower, all(0x3ffu));
  const i32_lanes linear = hn::Mul(hn::ShiftRight<16>(upper), as_signed(hn::And(t, all(0x1ffffu))));
  const u32_lanes square = dot_of_halves(c, truncated_square(t));
  const i32_lanes rest = hn::Add(linear, as_signed(hn::Add(square, hn::And(row.upper, all(0xffffu)))));
  const i32_lanes code = hn::Add(hn::Add(fixed, hn::Set(d, 127 << 23)), hn::Add(hn::ShiftRight<10>(lower), hn::ShiftRight<15>(rest)));

  const f32_lanes result = hn::IfThenElseZero(hn::Ge(x, all(f32_code::from_bits(0xc2fc0000))), hn::BitCast(f32_tag(), code));  // −126
  return hn::IfThenElse(hn::IsNaN(x), all(f32_code::nan()), result);
}

}  // namespace stickybit::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

#endif
