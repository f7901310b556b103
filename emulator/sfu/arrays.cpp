#include "stickybit/sfu/arrays.hpp"

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "stickybit/sfu/cuda_math.hpp"
#include "stickybit/sfu/sfu.hpp"

// This file is compiled once a target: everything up to HWY_ONCE.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sfu/arrays.cpp"
#include "hwy/foreach_target.h"

#include "rounding/f32_lanes-inl.hpp"
#include "hwy/highway.h"
#include "sfu/ex2_lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace stickybit::HWY_NAMESPACE {
namespace {

template <class Function>
void by_definition(f32_code const* x, f32_code* out, std::size_t count, Function function) {
  for (std::size_t i = 0; i < count; ++i) out[i] = function(x[i]);
}
void ex2_by_definition(ex2_rows const& rows, f32_code const* x, f32_code* out, std::size_t count) {
  by_definition(x, out, count, [&](f32_code v) { return stickybit::ex2(rows.tables(), v); });
}
void exp2_by_definition(ex2_rows const& rows, f32_code const* x, f32_code* out, std::size_t count) {
  by_definition(x, out, count, [&](f32_code v) { return stickybit::exp2_keeping_subnormals(rows.tables(), v); });
}
void expf_by_definition(ex2_rows const& rows, f32_code const* x, f32_code* out, std::size_t count) {
  by_definition(x, out, count, [&](f32_code v) { return stickybit::cuda_expf(rows.tables(), v); });
}

#if HWY_TARGET == HWY_SCALAR

void ex2_all(ex2_rows const& rows, f32_code const* x, f32_code* out, std::size_t count) { ex2_by_definition(rows, x, out, count); }
void exp2_all(ex2_rows const& rows, f32_code const* x, f32_code* out, std::size_t count) { exp2_by_definition(rows, x, out, count); }
void expf_all(ex2_rows const& rows, f32_code const* x, f32_code* out, std::size_t count) { expf_by_definition(rows, x, out, count); }

#else

HWY_INLINE f32_lanes all_of(std::uint32_t bits) { return all(f32_code::from_bits(bits)); }

/// As exp2_keeping_subnormals(): below −126 the square of the root.
HWY_INLINE f32_lanes exp2_of(std::uint64_t const* rows, f32_lanes x) {
  const auto below = hn::Lt(x, all_of(0xc2fc0000));
  const f32_lanes r = ex2_of(rows, hn::IfThenElse(below, hn::Mul(x, all_of(0x3f000000)), x));
  return hn::IfThenElse(below, hn::Mul(r, r), r);
}

/// As cuda_expf(), step by step. NaN payloads do not matter before the last product.
HWY_INLINE f32_lanes expf_of(std::uint64_t const* rows, f32_lanes x) {
  const auto fused = [](f32_lanes a, std::uint32_t b, f32_lanes c) HWY_ATTR { return lanes::fused(a, all_of(b), c); };
  const f32_lanes zero = hn::Zero(f32_tag()), one = all_of(0x3f800000), scale_bias = all_of(0x4b400001);
  const f32_lanes raw = fused(x, 0x3bbb989d, all_of(0x3f000000));
  const f32_lanes t = hn::Min(hn::IfThenElseZero(hn::Gt(raw, zero), raw), one);  // NaN gives 0
  // 252·t + 12582913 toward −infinity: rounded to nearest, and one unit less where that was above. The difference is exact.
  const f32_lanes nearest = fused(t, 0x437c0000, scale_bias), excess = fused(t, 0x437c0000, hn::Sub(scale_bias, nearest));
  const u32_lanes shifted = hn::Add(lanes::as_bits(nearest), lanes::as_bits(hn::VecFromMask(f32_tag(), hn::Lt(excess, zero))));
  const f32_lanes power = hn::Add(lanes::as_float(shifted), all_of(0xcb40007f));
  const f32_lanes rest = fused(x, 0x32a57060, fused(x, 0x3fb8aa3b, hn::Neg(power)));
  return lanes::canonical(hn::Mul(ex2_of(rows, rest), lanes::as_float(hn::ShiftLeft<23>(shifted))));
}

void ex2_all(ex2_rows const& rows, f32_code const* x, f32_code* out, std::size_t count) {
  if (!rows.fit()) return ex2_by_definition(rows, x, out, count);
  lanes::map_lanes(x, out, count, [packed = rows.packed().data()](f32_lanes v) HWY_ATTR { return ex2_of(packed, v); });
}
void exp2_all(ex2_rows const& rows, f32_code const* x, f32_code* out, std::size_t count) {
  if (!rows.fit()) return exp2_by_definition(rows, x, out, count);
  lanes::map_lanes(x, out, count, [packed = rows.packed().data()](f32_lanes v) HWY_ATTR { return exp2_of(packed, v); });
}
void expf_all(ex2_rows const& rows, f32_code const* x, f32_code* out, std::size_t count) {
  if (!rows.fit()) return expf_by_definition(rows, x, out, count);
  lanes::map_lanes(x, out, count, [packed = rows.packed().data()](f32_lanes v) HWY_ATTR { return expf_of(packed, v); });
}

#endif

}  // namespace
}  // namespace stickybit::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stickybit {
namespace {

HWY_EXPORT(ex2_all);
HWY_EXPORT(exp2_all);
HWY_EXPORT(expf_all);

/// Does every step of ex2_of() with this row stay in its bits, and give what ex2() gives? `base`: a′ of the row without 2^23 and row·2^17.
bool fits(interpolation_row row, std::int64_t base) noexcept {
  constexpr std::int64_t largest_low = 0x1ffff, largest_square = 0x7fff, constant = 0xffff;
  const std::int64_t b = std::int64_t{row.b} - 0x8000;
  const std::int64_t linear = b * largest_low, square = row.c * largest_square;
  return b >= -0x8000 && b < 0x8000 && row.b >= 0 && row.c >= 0 && row.c < 0x400 && base >= -0x200000 && base < 0x200000 &&
         linear >= std::numeric_limits<std::int32_t>::min() && linear + square + constant <= std::numeric_limits<std::int32_t>::max() &&
         // R ≥ 2^23: no result with n ≥ −126 is below the smallest normal.
         (std::int64_t{row.a} << 13) + 0x77e2 >= std::int64_t{1} << 38;
}

}  // namespace

ex2_rows::ex2_rows(special_function_tables const& tables) noexcept : tables_(&tables) {
  for (std::size_t i = 0; i < packed_.size(); ++i) {
    interpolation_row const& row = tables.ex2[i];
    const std::int64_t base = (row.a >> 2) - (std::int64_t{1} << 23) - (std::int64_t(i) << 17);
    fit_ = fit_ && fits(row, base);
    const std::uint32_t upper = (std::uint32_t(row.b - 0x8000) << 16) | ((std::uint32_t(row.a & 3) << 13) + 0x77e2);
    const std::uint32_t lower = (std::uint32_t(base) << 10) | (std::uint32_t(row.c) & 0x3ff);
    packed_[i] = std::uint64_t{upper} << 32 | lower;
  }
  // 2^128 is infinity because 2^0 is exactly 1.
  fit_ = fit_ && ((std::int64_t{tables.ex2[0].a} << 13) + 0x77e2) >> 15 == 1 << 23;
}

void ex2(ex2_rows const& rows, std::span<f32_code const> x, std::span<f32_code> out) noexcept {
  assert(x.size() == out.size());
  HWY_DYNAMIC_DISPATCH(ex2_all)(rows, x.data(), out.data(), out.size());
}
void exp2_keeping_subnormals(ex2_rows const& rows, std::span<f32_code const> x, std::span<f32_code> out) noexcept {
  assert(x.size() == out.size());
  HWY_DYNAMIC_DISPATCH(exp2_all)(rows, x.data(), out.data(), out.size());
}
void cuda_expf(ex2_rows const& rows, std::span<f32_code const> x, std::span<f32_code> out) noexcept {
  assert(x.size() == out.size());
  HWY_DYNAMIC_DISPATCH(expf_all)(rows, x.data(), out.data(), out.size());
}

}  // namespace stickybit
#endif  // HWY_ONCE
