#pragma once
#include <algorithm>
#include <array>
#include <span>

#include "stickybit/rounding/arithmetic.hpp"
#include "stickybit/rounding/host_arithmetic.hpp"
#include "stickybit/rounding/host_arrays.hpp"
#include "stickybit/sfu/arrays.hpp"
#include "stickybit/sfu/cuda_math.hpp"
#include "stickybit/softmax/lane_sums.hpp"

namespace stickybit {

inline constexpr f32_code f32_log2_e = f32_code::from_bits(0x3fb8aa3b);  // float(M_LOG2E)

/// A kernel's FP32 arithmetic by the integer definitions: `.ftz` or with subnormals kept. Operations on arrays are those on their
/// elements; out may be an input.
template <subnormals S>
struct defined_scalars {
  using number = f32_code;    ///< FP32: what the law of a kernel computes with; an account has numbers that remember where they come from
  using narrow = bf16_code;  ///< what to_bf16 gives
  using input = bf16_code;   ///< an element of Q, K, V or dO

  static f32_code fma(f32_code a, f32_code b, f32_code c) { return stickybit::fma(a, b, c, S); }
  static f32_code add(f32_code a, f32_code b) { return stickybit::add(a, b, S); }
  static f32_code mul(f32_code a, f32_code b) { return stickybit::mul(a, b, S); }
  static f32_code div(f32_code a, f32_code b) { return stickybit::div(a, b, S); }
  static f32_code max(f32_code a, f32_code b) { return stickybit::max(a, b, S); }
  static bf16_code to_bf16(f32_code c) { return convert<format::bf16>(c); }
  /// exp2f as the compiler makes it: the bare EX2 with `.ftz`, with a detour for subnormal results otherwise.
  static f32_code exp2(special_function_tables const& t, f32_code x) { return S == subnormals::flushed ? stickybit::ex2(t, x) : exp2_keeping_subnormals(t, x); }

  using array = std::span<f32_code const>;
  using result = std::span<f32_code>;
  static void mul(array x, f32_code y, result out) { each(x, out, [y](f32_code a) { return mul(a, y); }); }
  static void mul(array x, array y, result out) { each(x, out, [&y, i = std::size_t{0}](f32_code a) mutable { return mul(a, y[i++]); }); }
  static void add(array x, f32_code y, result out) { each(x, out, [y](f32_code a) { return add(a, y); }); }
  static void add(array x, array y, result out) { each(x, out, [&y, i = std::size_t{0}](f32_code a) mutable { return add(a, y[i++]); }); }
  static void fma(array x, f32_code y, f32_code z, result out) { each(x, out, [y, z](f32_code a) { return fma(a, y, z); }); }
  static void fma(array x, f32_code y, array z, result out) { each(x, out, [y, &z, i = std::size_t{0}](f32_code a) mutable { return fma(a, y, z[i++]); }); }
  static void fma(array x, array y, array z, result out) { each(x, out, [&y, &z, i = std::size_t{0}](f32_code a) mutable { const std::size_t j = i++; return fma(a, y[j], z[j]); }); }
  static f32_code max(array x, f32_code start) {
    for (f32_code a : x) start = max(start, a);
    return start;
  }
  static void to_bf16(array x, std::span<bf16_code> out) { std::transform(x.begin(), x.end(), out.begin(), [](f32_code a) { return to_bf16(a); }); }
  static void widen(std::span<bf16_code const> x, result out) { std::transform(x.begin(), x.end(), out.begin(), [](bf16_code a) { return stickybit::widen(a); }); }
  static void add_in_lanes(array x, std::array<f32_code, 4>& sums) {
    for (std::size_t i = 0; i < x.size(); ++i) sums[lane_of(i)] = add(sums[lane_of(i)], x[i]);
  }
  static void ex2(ex2_rows const& t, array x, result out) { each(x, out, [&t](f32_code a) { return stickybit::ex2(t.tables(), a); }); }
  static void exp2(ex2_rows const& t, array x, result out) { each(x, out, [&t](f32_code a) { return exp2(t.tables(), a); }); }
  static void expf(ex2_rows const& t, array x, result out) { each(x, out, [&t](f32_code a) { return cuda_expf(t.tables(), a); }); }

 private:
  template <class Operation>
  static void each(array x, result out, Operation operation) {
    std::transform(x.begin(), x.end(), out.begin(), operation);
  }
};

/// The same by the host; equal code for code.
template <subnormals S>
struct host_scalars : defined_scalars<S> {
  using defined_scalars<S>::exp2;
  using defined_scalars<S>::max;
  static f32_code fma(f32_code a, f32_code b, f32_code c) noexcept { return S == subnormals::flushed ? host::fma_ftz(a, b, c) : host::fma(a, b, c); }
  static f32_code add(f32_code a, f32_code b) noexcept { return S == subnormals::flushed ? host::add_ftz(a, b) : host::add(a, b); }
  static f32_code mul(f32_code a, f32_code b) noexcept { return S == subnormals::flushed ? host::mul_ftz(a, b) : host::mul(a, b); }
  static f32_code div(f32_code a, f32_code b) noexcept { return S == subnormals::flushed ? host::div_ftz(a, b) : host::div(a, b); }
  static bf16_code to_bf16(f32_code c) noexcept { return host::to_bf16(c); }

  using array = std::span<f32_code const>;
  using result = std::span<f32_code>;
  static void mul(array x, f32_code y, result out) noexcept { host::mul(x, y, out, S); }
  static void mul(array x, array y, result out) noexcept { host::mul(x, y, out, S); }
  static void add(array x, f32_code y, result out) noexcept { host::add(x, y, out, S); }
  static void add(array x, array y, result out) noexcept { host::add(x, y, out, S); }
  static void fma(array x, f32_code y, f32_code z, result out) noexcept { host::fma(x, y, z, out, S); }
  static void fma(array x, f32_code y, array z, result out) noexcept { host::fma(x, y, z, out, S); }
  static void fma(array x, array y, array z, result out) noexcept { host::fma(x, y, z, out, S); }
  static f32_code max(array x, f32_code start) noexcept { return host::max(x, start, S); }
  static void to_bf16(array x, std::span<bf16_code> out) noexcept { host::to_bf16(x, out); }
  static void widen(std::span<bf16_code const> x, result out) noexcept { host::widen(x, out); }
  static void add_in_lanes(array x, std::array<f32_code, 4>& sums) noexcept { host::add_in_lanes(x, sums, S); }
  static void ex2(ex2_rows const& t, array x, result out) noexcept { stickybit::ex2(t, x, out); }
  static void exp2(ex2_rows const& t, array x, result out) noexcept {
    if constexpr (S == subnormals::flushed) stickybit::ex2(t, x, out);
    else exp2_keeping_subnormals(t, x, out);
  }
  static void expf(ex2_rows const& t, array x, result out) noexcept { cuda_expf(t, x, out); }
};

}  // namespace stickybit
