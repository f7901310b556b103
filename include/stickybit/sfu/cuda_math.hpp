#pragma once
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "stickybit/format/code.hpp"
#include "stickybit/rounding/arithmetic.hpp"
#include "stickybit/sfu/sfu.hpp"

// CUDA's own expf and logf (not the intrinsics __expf, __logf), and exp2f where the compiler keeps subnormals: a few FP32
// operations around MUFU, subnormals kept. Constants are those of the library.
// @source PTX of nvcc 13.0 for expf, logf, exp2f without fast math
// @checked H200: PyTorch's split attention, every captured call (another form of expf breaks 23 codes of O, of logf 13)

namespace stickybit {

/// The inner results of the functions below, in the order they come.
enum class function_part : std::uint8_t {
  half_argument,   ///< exp2f below −126: x/2
  root,            ///< EX2(x/2)
  scaled_position, ///< expf: fma(x, log2(e)/252, 1/2), kept in [0, 1]
  shifted,         ///< fma(that, 252, 2^23 + 2^22 + 1), rounded down: the power of two in its low bits
  power,           ///< the power of two as a number
  rest,            ///< fma(x, log2(e), −power)
  corrected_rest,  ///< fma(x, low part of log2(e), rest)
  ex2_of_rest,     ///< MUFU
  two_to_power,    ///< the last factor, made of bits
  exponent,        ///< logf, log2f: of a = 2^exponent·(1 + fraction)
  fraction,        ///< exact
  polynomial,      ///< logf: fraction²·p(fraction) + fraction; log2f: without its exponent
};

/// Event: an inner result. EX2 also sends its own, and the last operation `rounded` or special_result.
struct function_step {
  function_part part;
  f32_code value;
};

/// exp2f without fast math: EX2, and below −126, where EX2 gives 0, rn(EX2(x/2)²), which may be subnormal.
template <class Sink = null_sink>
[[nodiscard]] constexpr f32_code exp2_keeping_subnormals(special_function_tables const& tables, f32_code x, Sink&& sink = {}) {
  const f32_code minus_126 = f32_code::from_bits(0xc2fc0000), half = f32_code::from_bits(0x3f000000);
  const bool below = x.negative() && !x.is_nan() && x.to_bits() > minus_126.to_bits();  // codes of negative numbers grow downwards
  if (!below) return ex2(tables, x, sink);
  const f32_code halved = mul(x, half, subnormals::kept);
  sink(function_step{function_part::half_argument, halved});
  const f32_code root = ex2(tables, halved, sink);
  sink(function_step{function_part::root, root});
  return mul(root, root, subnormals::kept, sink);
}

/// expf: e^x within 1 ulp or so. Exactly +0 for −infinity; overflows to infinity from 88.7 on.
template <class Sink = null_sink>
[[nodiscard]] constexpr f32_code cuda_expf(special_function_tables const& tables, f32_code x, Sink&& sink = {}) {
  const auto told = [&sink](function_part part, f32_code value) {
    sink(function_step{part, value});
    return value;
  };
  const auto fused = [](f32_code a, std::uint32_t b, f32_code c, rounding mode = rounding::nearest_even) {
    return fma(a, f32_code::from_bits(b), c, subnormals::kept, null_sink{}, mode);
  };
  const f32_code zero = f32_code::zero(), one = f32_code::from_bits(0x3f800000);
  // Which power of two: x·log2(e)/252 + 1/2, kept in [0, 1], then 252 times that rounded down onto 2^23 + 127 + ...
  f32_code t = fused(x, 0x3bbb989d, f32_code::from_bits(0x3f000000));
  if (t.is_nan() || t.negative()) t = zero;
  else if (t.to_bits() > one.to_bits()) t = one;
  told(function_part::scaled_position, t);
  const f32_code shifted = told(function_part::shifted, fused(t, 0x437c0000, f32_code::from_bits(0x4b400001), rounding::toward_negative));
  const f32_code power = told(function_part::power, add(shifted, f32_code::from_bits(0xcb40007f), subnormals::kept));  // − 12583039
  f32_code rest = told(function_part::rest, fused(x, 0x3fb8aa3b, power.negated()));
  rest = told(function_part::corrected_rest, fused(x, 0x32a57060, rest));
  const f32_code of_rest = told(function_part::ex2_of_rest, ex2(tables, rest, sink));
  return mul(of_rest, told(function_part::two_to_power, f32_code::from_bits(shifted.to_bits() << 23)), subnormals::kept, sink);
}

namespace detail {

/// What logf and log2f begin with: a = 2^exponent · (1 + fraction), 1 + fraction from `lowest` to twice that.
struct log_reduction {
  f32_code exponent, fraction;
};

/// @pre a is finite and above 0
[[nodiscard]] constexpr log_reduction reduce_for_log(f32_code a, f32_code lowest) {
  f32_code base = f32_code::zero();
  if (a.is_subnormal()) {
    a = mul(a, f32_code::from_bits(0x4b000000), subnormals::kept);  // 2^23
    base = f32_code::from_bits(0xc1b80000);                         // −23
  }
  const std::uint32_t exponent = (a.to_bits() - lowest.to_bits()) & 0xff800000;
  const f32_code fraction = add(f32_code::from_bits(a.to_bits() - exponent), f32_code::from_bits(0xbf800000), subnormals::kept);
  // The exponent as a number: an integer with 23 low zeros, so the conversion is exact; times 2^-23.
  const f32_code value = f32_code::from_bits(std::bit_cast<std::uint32_t>(float(std::bit_cast<std::int32_t>(exponent))));
  return {fma(value, f32_code::from_bits(0x34000000), base, subnormals::kept), fraction};
}

/// The logarithm of what is not a positive finite number; nothing to reduce.
[[nodiscard]] constexpr bool is_log_special(f32_code a, f32_code& result) {
  if (a.is_nan() || (a.negative() && !a.is_zero())) result = f32_code::nan();
  else if (a.is_zero()) result = f32_code::infinity(true);
  else if (a.is_infinite()) result = a;
  else return false;
  return true;
}

template <std::size_t N>
[[nodiscard]] constexpr f32_code horner(std::array<std::uint32_t, N> const& coefficients, f32_code x) {
  f32_code r = f32_code::from_bits(coefficients[0]);
  for (std::size_t i = 1; i < N; ++i) r = fma(r, x, f32_code::from_bits(coefficients[i]), subnormals::kept);
  return r;
}

}  // namespace detail

/// logf: natural logarithm within 1 ulp. ±0 gives −infinity, negative numbers NaN, +infinity itself.
template <class Sink = null_sink>
[[nodiscard]] constexpr f32_code cuda_logf(f32_code a, Sink&& sink = {}) {
  f32_code special;
  if (detail::is_log_special(a, special)) return special;
  const auto [exponent, f] = detail::reduce_for_log(a, f32_code::from_bits(0x3f2aaaab));  // 2/3
  constexpr std::array<std::uint32_t, 9> coefficients{0xbe055027, 0x3e1039f6, 0xbdf8cdcc, 0x3e0f2955, 0xbe2ad8b9, 0x3e4ced0b, 0xbe7fff22, 0x3eaaaa78, 0xbf000000};
  f32_code r = mul(detail::horner(coefficients, f), f, subnormals::kept);
  r = fma(r, f, f, subnormals::kept);
  sink(function_step{function_part::exponent, exponent});
  sink(function_step{function_part::fraction, f});
  sink(function_step{function_part::polynomial, r});
  return fma(exponent, f32_code::from_bits(0x3f317218), r, subnormals::kept, sink);
}

/// log2f: base-2 logarithm within 1 ulp; specials as logf.
/// @source PTX of Triton 3.6's libdevice log2f  @checked H200: flex attention's LSE, 8 captured calls
template <class Sink = null_sink>
[[nodiscard]] constexpr f32_code cuda_log2f(f32_code a, Sink&& sink = {}) {
  f32_code special;
  if (detail::is_log_special(a, special)) return special;
  const auto [exponent, f] = detail::reduce_for_log(a, f32_code::from_bits(0x3f3504f3));  // √½
  constexpr std::array<std::uint32_t, 10> coefficients{0x3dc6b27f, 0xbe2c7f30, 0x3e2fcf2a, 0xbe374e43, 0x3e520bf4, 0xbe763c8b, 0x3e93bf99, 0xbeb8aa49, 0x3ef6384a, 0xbf38aa3b};
  const f32_code linear = mul(f, detail::horner(coefficients, f), subnormals::kept), square = mul(f, linear, subnormals::kept);
  const f32_code r = fma(f, f32_code::from_bits(0x3fb8aa3b), square, subnormals::kept);
  sink(function_step{function_part::exponent, exponent});
  sink(function_step{function_part::fraction, f});
  sink(function_step{function_part::polynomial, r});
  return add(exponent, r, subnormals::kept, sink);
}

}  // namespace stickybit
