#pragma once
#include <bit>
#include <cstdint>

#include "stickybit/format/code.hpp"
#include "stickybit/rounding/arithmetic.hpp"
#include "stickybit/sfu/sfu.hpp"

// CUDA's own expf and logf (not the intrinsics __expf, __logf), and exp2f where the compiler keeps subnormals: a few FP32
// operations around MUFU, subnormals kept. Constants are those of the library.
// @source PTX of nvcc 13.0 for expf, logf, exp2f without fast math
// @checked H200: PyTorch's split attention, every captured call (another form of expf breaks 23 codes of O, of logf 13)

namespace stickybit {

/// exp2f without fast math: EX2, and below −126, where EX2 gives 0, rn(EX2(x/2)²), which may be subnormal.
[[nodiscard]] constexpr f32_code exp2_keeping_subnormals(special_function_tables const& tables, f32_code x) {
  const f32_code minus_126 = f32_code::from_bits(0xc2fc0000), half = f32_code::from_bits(0x3f000000);
  const bool below = x.negative() && !x.is_nan() && x.to_bits() > minus_126.to_bits();  // codes of negative numbers grow downwards
  if (!below) return ex2(tables, x);
  const f32_code root = ex2(tables, mul(x, half, subnormals::kept));
  return mul(root, root, subnormals::kept);
}

/// expf: e^x within 1 ulp or so. Exactly +0 for −infinity; overflows to infinity from 88.7 on.
[[nodiscard]] constexpr f32_code cuda_expf(special_function_tables const& tables, f32_code x) {
  const auto fused = [](f32_code a, std::uint32_t b, f32_code c, rounding mode = rounding::nearest_even) {
    return fma(a, f32_code::from_bits(b), c, subnormals::kept, null_sink{}, mode);
  };
  const f32_code zero = f32_code::zero(), one = f32_code::from_bits(0x3f800000);
  // Which power of two: x·log2(e)/252 + 1/2, kept in [0, 1], then 252 times that rounded down onto 2^23 + 127 + ...
  f32_code t = fused(x, 0x3bbb989d, f32_code::from_bits(0x3f000000));
  if (t.is_nan() || t.negative()) t = zero;
  else if (t.to_bits() > one.to_bits()) t = one;
  const f32_code shifted = fused(t, 0x437c0000, f32_code::from_bits(0x4b400001), rounding::toward_negative);
  const f32_code power = add(shifted, f32_code::from_bits(0xcb40007f), subnormals::kept);  // − 12583039
  f32_code rest = fused(x, 0x3fb8aa3b, power.negated());
  rest = fused(x, 0x32a57060, rest);
  return mul(ex2(tables, rest), f32_code::from_bits(shifted.to_bits() << 23), subnormals::kept);
}

/// logf: natural logarithm within 1 ulp. ±0 gives −infinity, negative numbers NaN, +infinity itself.
[[nodiscard]] constexpr f32_code cuda_logf(f32_code a) {
  if (a.is_nan() || (a.negative() && !a.is_zero())) return f32_code::nan();
  if (a.is_zero()) return f32_code::infinity(true);
  if (a.is_infinite()) return a;
  const auto fused = [](f32_code x, f32_code y, std::uint32_t z) { return fma(x, y, f32_code::from_bits(z), subnormals::kept); };
  f32_code base = f32_code::zero();
  if (a.is_subnormal()) {
    a = mul(a, f32_code::from_bits(0x4b000000), subnormals::kept);  // 2^23
    base = f32_code::from_bits(0xc1b80000);                         // −23
  }
  const std::uint32_t exponent = (a.to_bits() - 0x3f2aaaab) & 0xff800000;
  const f32_code f = add(f32_code::from_bits(a.to_bits() - exponent), f32_code::from_bits(0xbf800000), subnormals::kept);
  // The exponent as a number: an integer below 2^31 in magnitude with 23 low zeros, so the conversion is exact; times 2^-23.
  const f32_code exponent_value = f32_code::from_bits(std::bit_cast<std::uint32_t>(float(std::bit_cast<std::int32_t>(exponent))));
  const f32_code i = fma(exponent_value, f32_code::from_bits(0x34000000), base, subnormals::kept);
  f32_code r = f32_code::from_bits(0xbe055027);
  for (std::uint32_t coefficient : {0x3e1039f6u, 0xbdf8cdccu, 0x3e0f2955u, 0xbe2ad8b9u, 0x3e4ced0bu, 0xbe7fff22u, 0x3eaaaa78u, 0xbf000000u}) r = fused(r, f, coefficient);
  r = mul(r, f, subnormals::kept);
  r = fma(r, f, f, subnormals::kept);
  return fma(i, f32_code::from_bits(0x3f317218), r, subnormals::kept);
}

}  // namespace stickybit
