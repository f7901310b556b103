#pragma once
#include "stickybit/rounding/arithmetic.hpp"
#include "stickybit/rounding/host_arithmetic.hpp"
#include "stickybit/sfu/cuda_math.hpp"

namespace stickybit {

inline constexpr f32_code f32_log2_e = f32_code::from_bits(0x3fb8aa3b);  // float(M_LOG2E)

/// A kernel's FP32 scalar arithmetic by the integer definitions: `.ftz` or with subnormals kept.
template <subnormals S>
struct defined_scalars {
  static f32_code fma(f32_code a, f32_code b, f32_code c) { return stickybit::fma(a, b, c, S); }
  static f32_code add(f32_code a, f32_code b) { return stickybit::add(a, b, S); }
  static f32_code mul(f32_code a, f32_code b) { return stickybit::mul(a, b, S); }
  static f32_code div(f32_code a, f32_code b) { return stickybit::div(a, b, S); }
  static f32_code max(f32_code a, f32_code b) { return stickybit::max(a, b, S); }
  static bf16_code to_bf16(f32_code c) { return convert<format::bf16>(c); }
  /// exp2f as the compiler makes it: the bare EX2 with `.ftz`, with a detour for subnormal results otherwise.
  static f32_code exp2(special_function_tables const& t, f32_code x) { return S == subnormals::flushed ? ex2(t, x) : exp2_keeping_subnormals(t, x); }
};

/// The same by the host; equal code for code.
template <subnormals S>
struct host_scalars : defined_scalars<S> {
  static f32_code fma(f32_code a, f32_code b, f32_code c) noexcept { return S == subnormals::flushed ? host::fma_ftz(a, b, c) : host::fma(a, b, c); }
  static f32_code add(f32_code a, f32_code b) noexcept { return S == subnormals::flushed ? host::add_ftz(a, b) : host::add(a, b); }
  static f32_code mul(f32_code a, f32_code b) noexcept { return S == subnormals::flushed ? host::mul_ftz(a, b) : host::mul(a, b); }
  static f32_code div(f32_code a, f32_code b) noexcept { return S == subnormals::flushed ? host::div_ftz(a, b) : host::div(a, b); }
  static bf16_code to_bf16(f32_code c) noexcept { return host::to_bf16(c); }
};

}  // namespace stickybit
