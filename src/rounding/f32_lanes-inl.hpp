// FP32 codes in vector registers, for one target of Highway: included once a target (no #pragma once).
// A file that Highway includes once a target includes this after hwy/foreach_target.h.
#if defined(STICKYBIT_F32_LANES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef STICKYBIT_F32_LANES_INL
#undef STICKYBIT_F32_LANES_INL
#else
#define STICKYBIT_F32_LANES_INL
#endif

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "hwy/highway.h"
#include "stickybit/format/code.hpp"

HWY_BEFORE_NAMESPACE();
namespace stickybit::host::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using f32_tag = hn::ScalableTag<float>;
using u32_tag = hn::RebindToUnsigned<f32_tag>;
using f32_lanes = hn::Vec<f32_tag>;
using u32_lanes = hn::Vec<u32_tag>;
using i32_tag = hn::RebindToSigned<f32_tag>;
using i32_lanes = hn::Vec<i32_tag>;
constexpr std::size_t lane_count = hn::MaxLanes(f32_tag());
static_assert(HWY_HAVE_SCALABLE == 0);

// A code is a standard-layout class whose one member is its bits, so a pointer to it is a pointer to them. Vector loads and
// stores may alias anything; SCALAR's touch that member as what it is.
static_assert(std::is_standard_layout_v<f32_code> && std::is_trivially_copyable_v<f32_code> && sizeof(f32_code) == sizeof(std::uint32_t));
static_assert(std::is_standard_layout_v<bf16_code> && std::is_trivially_copyable_v<bf16_code> && sizeof(bf16_code) == sizeof(std::uint16_t));
HWY_INLINE std::uint32_t const* bits_of(f32_code const* codes) noexcept { return reinterpret_cast<std::uint32_t const*>(codes); }
HWY_INLINE std::uint32_t* bits_of(f32_code* codes) noexcept { return reinterpret_cast<std::uint32_t*>(codes); }
HWY_INLINE std::uint16_t const* bits_of(bf16_code const* codes) noexcept { return reinterpret_cast<std::uint16_t const*>(codes); }
HWY_INLINE std::uint16_t* bits_of(bf16_code* codes) noexcept { return reinterpret_cast<std::uint16_t*>(codes); }

HWY_INLINE f32_lanes as_float(u32_lanes bits) { return hn::BitCast(f32_tag(), bits); }
HWY_INLINE u32_lanes as_bits(f32_lanes numbers) { return hn::BitCast(u32_tag(), numbers); }
HWY_INLINE u32_lanes all(std::uint32_t bits) { return hn::Set(u32_tag(), bits); }
HWY_INLINE f32_lanes all(f32_code c) { return as_float(all(c.to_bits())); }

HWY_INLINE f32_lanes load(f32_code const* from) { return as_float(hn::LoadU(u32_tag(), bits_of(from))); }
HWY_INLINE void store(f32_lanes numbers, f32_code* to) { hn::StoreU(as_bits(numbers), u32_tag(), bits_of(to)); }
/// The first `count` lanes, the others zero. Nothing beyond them is read.
HWY_INLINE f32_lanes load_some(f32_code const* from, std::size_t count) {
  HWY_ALIGN std::uint32_t lanes[lane_count] = {};
  std::memcpy(lanes, from, count * sizeof(f32_code));
  return as_float(hn::Load(u32_tag(), lanes));
}
HWY_INLINE void store_some(f32_lanes numbers, f32_code* to, std::size_t count) {
  HWY_ALIGN std::uint32_t lanes[lane_count];
  hn::Store(as_bits(numbers), u32_tag(), lanes);
  std::memcpy(static_cast<void*>(to), lanes, count * sizeof(f32_code));
}

/// out[i] = function(x[i]) by lanes, any length; out may be x.
template <class Function>
HWY_INLINE void map_lanes(f32_code const* x, f32_code* out, std::size_t count, Function const& function) {
  std::size_t i = 0;
  for (; i + 2 * lane_count <= count; i += 2 * lane_count) {
    const f32_lanes a = function(load(x + i)), b = function(load(x + i + lane_count));
    store(a, out + i);
    store(b, out + i + lane_count);
  }
  for (; i + lane_count <= count; i += lane_count) store(function(load(x + i)), out + i);
  if (i < count) store_some(function(load_some(x + i, count - i)), out + i, count - i);
}

/// x without its fraction, for |x| < 2^31; else anything.
HWY_INLINE i32_lanes truncated_in_range(f32_lanes x) {
  // hn::ConvertTo saturates, which takes four more instructions.
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
  return i32_lanes{_mm512_cvttps_epi32(x.raw)};
#elif HWY_TARGET == HWY_AVX2
  return i32_lanes{_mm256_cvttps_epi32(x.raw)};
#elif HWY_TARGET == HWY_SSE4
  return i32_lanes{_mm_cvttps_epi32(x.raw)};
#else
  return hn::ConvertTo(i32_tag(), x);
#endif
}

/// Every NaN becomes 7fffffff.
HWY_INLINE f32_lanes canonical(f32_lanes r) { return hn::IfThenElse(hn::IsNaN(r), all(f32_code::nan()), r); }

#if HWY_NATIVE_FMA
/// a·b + c rounded once, as IEEE 754 has it.
HWY_INLINE f32_lanes fused(f32_lanes a, f32_lanes b, f32_lanes c) { return hn::MulAdd(a, b, c); }
#elif HWY_TARGET == HWY_SCALAR
HWY_INLINE f32_lanes fused(f32_lanes a, f32_lanes b, f32_lanes c) { return f32_lanes(std::fma(a.raw, b.raw, c.raw)); }
#else
/// a·b + c to odd in binary64: the product is exact (48 bits, exponents from −298 to 255), the sum's error is what two_sum gives.
template <class DoubleTag, class DoubleLanes = hn::Vec<DoubleTag>>
HWY_INLINE DoubleLanes fused_to_odd(DoubleTag d, DoubleLanes a, DoubleLanes b, DoubleLanes c) {
  const hn::RebindToSigned<DoubleTag> integers;
  const auto product = hn::Mul(a, b), sum = hn::Add(product, c), c_part = hn::Sub(sum, product);
  const auto error = hn::Add(hn::Sub(product, hn::Sub(sum, c_part)), hn::Sub(c, c_part));  // NaN where the sum is not finite
  const auto bits = hn::BitCast(integers, sum), one = hn::Set(integers, 1);
  // An inexact even sum moves by one towards the exact value; one unit of the code is one away from zero.
  const auto inexact = hn::BitCast(integers, hn::VecFromMask(d, hn::Gt(hn::Abs(error), hn::Zero(d))));
  const auto even = hn::Sub(hn::And(bits, one), one);  // all ones where even
  const auto inwards = hn::BroadcastSignBit(hn::Xor(bits, hn::BitCast(integers, error)));
  const auto step = hn::Or(inwards, one);  // −1 or 1
  return hn::BitCast(d, hn::Add(bits, hn::And(hn::And(inexact, even), step)));
}
/// a·b + c rounded once: to odd with 53 bits, then to FP32; 53 ≥ 24 + 2.  @source Boldo and Melquiond, see rounding::to_odd
HWY_INLINE f32_lanes fused(f32_lanes a, f32_lanes b, f32_lanes c) {
  const hn::Repartition<double, f32_tag> doubles;
  const hn::Half<f32_tag> half;
  const auto lower = [&](f32_lanes v) HWY_ATTR { return hn::PromoteTo(doubles, hn::LowerHalf(half, v)); };
  const auto upper = [&](f32_lanes v) HWY_ATTR { return hn::PromoteTo(doubles, hn::UpperHalf(half, v)); };
  const auto low = hn::DemoteTo(half, fused_to_odd(doubles, lower(a), lower(b), lower(c)));
  const auto high = hn::DemoteTo(half, fused_to_odd(doubles, upper(a), upper(b), upper(c)));
  return hn::Combine(f32_tag(), high, low);
}
#endif

}  // namespace stickybit::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
