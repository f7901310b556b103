#include "stickybit/rounding/host_arrays.hpp"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>

#include "stickybit/rounding/arithmetic.hpp"

// This file is compiled once a target: everything up to HWY_ONCE.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rounding/host_arrays.cpp"
#include "hwy/foreach_target.h"

#include "rounding/f32_lanes-inl.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace stickybit::host::HWY_NAMESPACE {
namespace {

/// The three operations: by IEEE 754, and by definition.
struct product {
  static HWY_INLINE f32_lanes ieee(f32_lanes a, f32_lanes b, f32_lanes) { return hn::Mul(a, b); }
  static f32_code definition(f32_code a, f32_code b, f32_code) noexcept { return stickybit::mul(a, b, subnormals::flushed); }
};
struct sum {
  static HWY_INLINE f32_lanes ieee(f32_lanes a, f32_lanes b, f32_lanes) { return hn::Add(a, b); }
  static f32_code definition(f32_code a, f32_code b, f32_code) noexcept { return stickybit::add(a, b, subnormals::flushed); }
};
struct product_and_sum {
  static HWY_INLINE f32_lanes ieee(f32_lanes a, f32_lanes b, f32_lanes c) { return fused(a, b, c); }
  static f32_code definition(f32_code a, f32_code b, f32_code c) noexcept { return stickybit::fma(a, b, c, subnormals::flushed); }
};

HWY_INLINE f32_lanes smallest_normal() { return all(f32_code::from_bits(0x00800000)); }
HWY_INLINE f32_lanes zero_of_sign(f32_lanes x) { return as_float(hn::And(as_bits(x), all(std::uint32_t{f32_code::sign_bit}))); }
/// A subnormal becomes the zero of its sign.
HWY_INLINE f32_lanes flushed(f32_lanes x) { return hn::IfThenElse(hn::Lt(hn::Abs(x), smallest_normal()), zero_of_sign(x), x); }

/// The lanes whose result is ±2^-126, anew by definition: it is kept or flushed by what it was before rounding. Rare.
template <class Operation>
HWY_NOINLINE void settle(std::uint32_t const* a, std::uint32_t const* b, std::uint32_t const* c, std::uint32_t* r) noexcept {
  for (std::size_t i = 0; i < lane_count; ++i)
    if ((r[i] & f32_code::magnitude_mask) == 0x00800000)
      r[i] = Operation::definition(f32_code::from_bits(a[i]), f32_code::from_bits(b[i]), f32_code::from_bits(c[i])).to_bits();
}

template <class Operation, subnormals Subnormals>
HWY_INLINE f32_lanes result_of(f32_lanes a, f32_lanes b, f32_lanes c) {
  if constexpr (Subnormals == subnormals::kept) {
    return canonical(Operation::ieee(a, b, c));
  } else {
    const f32_lanes r = Operation::ieee(flushed(a), flushed(b), flushed(c));
    const f32_lanes done = canonical(flushed(r));
    const auto open = hn::Eq(hn::Abs(r), smallest_normal());
    if (HWY_LIKELY(hn::AllFalse(f32_tag(), open))) return done;
    HWY_ALIGN std::uint32_t lanes[4][lane_count];
    hn::Store(as_bits(a), u32_tag(), lanes[0]);
    hn::Store(as_bits(b), u32_tag(), lanes[1]);
    hn::Store(as_bits(c), u32_tag(), lanes[2]);
    hn::Store(as_bits(done), u32_tag(), lanes[3]);
    settle<Operation>(lanes[0], lanes[1], lanes[2], lanes[3]);
    return as_float(hn::Load(u32_tag(), lanes[3]));
  }
}

/// An operand: an array, or one code for all elements.
struct many {
  f32_code const* codes;
  HWY_INLINE f32_lanes at(std::size_t i) const { return load(codes + i); }
  HWY_INLINE f32_lanes some_at(std::size_t i, std::size_t count) const { return load_some(codes + i, count); }
};
struct one {
  f32_lanes lanes;
  HWY_INLINE f32_lanes at(std::size_t) const { return lanes; }
  HWY_INLINE f32_lanes some_at(std::size_t, std::size_t) const { return lanes; }
};

template <class Operation, subnormals Subnormals, class Y, class Z>
HWY_INLINE void loop(many x, Y y, Z z, f32_code* out, std::size_t count) {
  std::size_t i = 0;
  for (; i + lane_count <= count; i += lane_count) store(result_of<Operation, Subnormals>(x.at(i), y.at(i), z.at(i)), out + i);
  const std::size_t rest = count - i;
  if (rest == 0) return;
  store_some(result_of<Operation, Subnormals>(x.some_at(i, rest), y.some_at(i, rest), z.some_at(i, rest)), out + i, rest);
}

template <class Operation, class Y, class Z>
HWY_INLINE void apply(f32_code const* x, Y y, Z z, f32_code* out, std::size_t count, subnormals s) {
  if (s == subnormals::flushed) loop<Operation, subnormals::flushed>({x}, y, z, out, count);
  else loop<Operation, subnormals::kept>({x}, y, z, out, count);
}

HWY_INLINE one each(f32_code c) { return {all(c)}; }

void mul_one(f32_code const* x, f32_code y, f32_code* out, std::size_t n, subnormals s) { apply<product>(x, each(y), each(y), out, n, s); }
void mul_many(f32_code const* x, f32_code const* y, f32_code* out, std::size_t n, subnormals s) {
  apply<product>(x, many{y}, each(f32_code()), out, n, s);
}
void add_one(f32_code const* x, f32_code y, f32_code* out, std::size_t n, subnormals s) { apply<sum>(x, each(y), each(y), out, n, s); }
void add_many(f32_code const* x, f32_code const* y, f32_code* out, std::size_t n, subnormals s) {
  apply<sum>(x, many{y}, each(f32_code()), out, n, s);
}
void fma_one_one(f32_code const* x, f32_code y, f32_code z, f32_code* out, std::size_t n, subnormals s) {
  apply<product_and_sum>(x, each(y), each(z), out, n, s);
}
void fma_one_many(f32_code const* x, f32_code y, f32_code const* z, f32_code* out, std::size_t n, subnormals s) {
  apply<product_and_sum>(x, each(y), many{z}, out, n, s);
}
void fma_many_many(f32_code const* x, f32_code const* y, f32_code const* z, f32_code* out, std::size_t n, subnormals s) {
  apply<product_and_sum>(x, many{y}, many{z}, out, n, s);
}

/// The order of stickybit::max as signed integers: sign and magnitude made two's complement, then moved up by 7fffff, which wraps
/// the positive NaN around. So −0 is next below +0, and all NaN are below −infinity (80fffffe).
HWY_INLINE hn::Vec<hn::RebindToSigned<f32_tag>> ranks_of(f32_lanes x) {
  const hn::RebindToSigned<f32_tag> d;
  const auto code = hn::BitCast(d, x);
  const auto mask = hn::BitCast(d, hn::ShiftRight<1>(hn::BitCast(u32_tag(), hn::BroadcastSignBit(code))));
  return hn::Add(hn::Xor(code, mask), hn::Set(d, 0x007fffff));
}
f32_code code_of_rank(std::int32_t rank) noexcept {
  if (rank < std::int32_t(0x80fffffe)) return f32_code::nan();
  const auto ordered = std::uint32_t(rank) - 0x007fffffu;
  return f32_code::from_bits(ordered ^ (ordered >> 31 != 0 ? 0x7fffffffu : 0u));
}

f32_code max_of(f32_code const* x, std::size_t n, f32_code start, subnormals s) {
  if (n == 0) return start;
  const hn::RebindToSigned<f32_tag> d;
  auto best = ranks_of(all(start)), best2 = best, best3 = best, best4 = best;
  std::size_t i = 0;
  for (; i + 4 * lane_count <= n; i += 4 * lane_count) {
    best = hn::Max(best, ranks_of(load(x + i)));
    best2 = hn::Max(best2, ranks_of(load(x + i + lane_count)));
    best3 = hn::Max(best3, ranks_of(load(x + i + 2 * lane_count)));
    best4 = hn::Max(best4, ranks_of(load(x + i + 3 * lane_count)));
  }
  for (; i + lane_count <= n; i += lane_count) best = hn::Max(best, ranks_of(load(x + i)));
  best = hn::Max(hn::Max(best, best2), hn::Max(best3, best4));
  HWY_ALIGN std::int32_t lanes[lane_count];
  hn::Store(best, d, lanes);
  std::int32_t rank = *std::max_element(lanes, lanes + lane_count);
  for (; i < n; ++i) rank = std::max(rank, hn::GetLane(ranks_of(all(x[i]))));
  // Flushing keeps the order, so the largest flushed operand is the largest operand, flushed.
  const f32_code largest = code_of_rank(rank);
  return s == subnormals::flushed ? flush_subnormal(largest) : largest;
}

/// Eight or so bf16 codes beside as many lanes of FP32.
using u16_tag = hn::Rebind<std::uint16_t, f32_tag>;

/// As host::to_bf16(f32_code): half of the last kept bit's weight, less one or not, is added; a carry raises the exponent.
HWY_INLINE hn::Vec<u16_tag> rounded_to_bf16(f32_lanes x) {
  const hn::RebindToSigned<f32_tag> d;
  const u32_lanes bits = as_bits(x), odd = hn::And(hn::ShiftRight<16>(bits), all(1u));
  const u32_lanes kept = hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, all(0x7fffu))));
  const u32_lanes result = as_bits(hn::IfThenElse(hn::IsNaN(x), as_float(all(0x7fffu)), as_float(kept)));
  return hn::DemoteTo(u16_tag(), hn::BitCast(d, result));  // at most ffff: nothing is saturated
}
void to_bf16_all(f32_code const* x, bf16_code* out, std::size_t n) {
  std::size_t i = 0;
  for (; i + lane_count <= n; i += lane_count) hn::StoreU(rounded_to_bf16(load(x + i)), u16_tag(), bits_of(out + i));
  if (i == n) return;
  HWY_ALIGN std::uint16_t lanes[lane_count];
  hn::Store(rounded_to_bf16(load_some(x + i, n - i)), u16_tag(), lanes);
  std::memcpy(static_cast<void*>(out + i), lanes, (n - i) * sizeof(bf16_code));
}

HWY_INLINE f32_lanes widened(hn::Vec<u16_tag> bits) { return as_float(hn::ShiftLeft<16>(hn::PromoteTo(u32_tag(), bits))); }
void widen_all(bf16_code const* x, f32_code* out, std::size_t n) {
  std::size_t i = 0;
  for (; i + lane_count <= n; i += lane_count) store(widened(hn::LoadU(u16_tag(), bits_of(x + i))), out + i);
  if (i == n) return;
  HWY_ALIGN std::uint16_t lanes[lane_count] = {};
  std::memcpy(lanes, x + i, (n - i) * sizeof(bf16_code));
  store_some(widened(hn::Load(u16_tag(), lanes)), out + i, n - i);
}

}  // namespace
}  // namespace stickybit::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stickybit::host {
namespace {

HWY_EXPORT(mul_one);
HWY_EXPORT(mul_many);
HWY_EXPORT(add_one);
HWY_EXPORT(add_many);
HWY_EXPORT(fma_one_one);
HWY_EXPORT(fma_one_many);
HWY_EXPORT(fma_many_many);
HWY_EXPORT(max_of);
HWY_EXPORT(to_bf16_all);
HWY_EXPORT(widen_all);

}  // namespace

using codes = std::span<f32_code const>;

void mul(codes x, f32_code y, std::span<f32_code> out, subnormals s) noexcept {
  assert(x.size() == out.size());
  HWY_DYNAMIC_DISPATCH(mul_one)(x.data(), y, out.data(), out.size(), s);
}
void mul(codes x, codes y, std::span<f32_code> out, subnormals s) noexcept {
  assert(x.size() == out.size() && y.size() == out.size());
  HWY_DYNAMIC_DISPATCH(mul_many)(x.data(), y.data(), out.data(), out.size(), s);
}
void add(codes x, f32_code y, std::span<f32_code> out, subnormals s) noexcept {
  assert(x.size() == out.size());
  HWY_DYNAMIC_DISPATCH(add_one)(x.data(), y, out.data(), out.size(), s);
}
void add(codes x, codes y, std::span<f32_code> out, subnormals s) noexcept {
  assert(x.size() == out.size() && y.size() == out.size());
  HWY_DYNAMIC_DISPATCH(add_many)(x.data(), y.data(), out.data(), out.size(), s);
}
void fma(codes x, f32_code y, f32_code z, std::span<f32_code> out, subnormals s) noexcept {
  assert(x.size() == out.size());
  HWY_DYNAMIC_DISPATCH(fma_one_one)(x.data(), y, z, out.data(), out.size(), s);
}
void fma(codes x, f32_code y, codes z, std::span<f32_code> out, subnormals s) noexcept {
  assert(x.size() == out.size() && z.size() == out.size());
  HWY_DYNAMIC_DISPATCH(fma_one_many)(x.data(), y, z.data(), out.data(), out.size(), s);
}
void fma(codes x, codes y, codes z, std::span<f32_code> out, subnormals s) noexcept {
  assert(x.size() == out.size() && y.size() == out.size() && z.size() == out.size());
  HWY_DYNAMIC_DISPATCH(fma_many_many)(x.data(), y.data(), z.data(), out.data(), out.size(), s);
}
f32_code max(codes x, f32_code start, subnormals s) noexcept { return HWY_DYNAMIC_DISPATCH(max_of)(x.data(), x.size(), start, s); }
void to_bf16(codes x, std::span<bf16_code> out) noexcept {
  assert(x.size() == out.size());
  HWY_DYNAMIC_DISPATCH(to_bf16_all)(x.data(), out.data(), out.size());
}
void widen(std::span<bf16_code const> x, std::span<f32_code> out) noexcept {
  assert(x.size() == out.size());
  HWY_DYNAMIC_DISPATCH(widen_all)(x.data(), out.data(), out.size());
}

}  // namespace stickybit::host
#endif  // HWY_ONCE
