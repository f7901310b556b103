#pragma once
#include <span>

#include "stickybit/format/code.hpp"
#include "stickybit/rounding/round_pack.hpp"

// The operations of host_arithmetic.hpp over arrays, in the vector registers of the machine that runs them (chosen at run time).
// Each element is, code for code, what the integer definition gives (arithmetic.hpp, convert.hpp) with nearest_even and the given
// `subnormals`; nothing depends on the length or on an element's place. As there: valid where is_ieee() is true.
// Arrays of a call have one size (@pre), need no alignment, and are read and written nowhere else. `out` may be an input of the
// same type, from the same first element on; else it must not overlap one.
// @checked  on every target that the machine has: tests/rounding/host_arrays.cpp

namespace stickybit::host {

/// out[i] = x[i]·y
void mul(std::span<f32_code const> x, f32_code y, std::span<f32_code> out, subnormals s) noexcept;
/// out[i] = x[i]·y[i]
void mul(std::span<f32_code const> x, std::span<f32_code const> y, std::span<f32_code> out, subnormals s) noexcept;

/// out[i] = x[i] + y
void add(std::span<f32_code const> x, f32_code y, std::span<f32_code> out, subnormals s) noexcept;
/// out[i] = x[i] + y[i]
void add(std::span<f32_code const> x, std::span<f32_code const> y, std::span<f32_code> out, subnormals s) noexcept;

/// out[i] = x[i]·y + z, rounded once
void fma(std::span<f32_code const> x, f32_code y, f32_code z, std::span<f32_code> out, subnormals s) noexcept;
/// out[i] = x[i]·y + z[i], rounded once
void fma(std::span<f32_code const> x, f32_code y, std::span<f32_code const> z, std::span<f32_code> out, subnormals s) noexcept;
/// out[i] = x[i]·y[i] + z[i], rounded once
void fma(std::span<f32_code const> x, std::span<f32_code const> y, std::span<f32_code const> z, std::span<f32_code> out, subnormals s) noexcept;

/// stickybit::max folded over x from `start`: max(… max(max(start, x[0]), x[1]) …); `start` itself where x is empty.
[[nodiscard]] f32_code max(std::span<f32_code const> x, f32_code start, subnormals s) noexcept;

/// out[i] = convert<format::bf16>(x[i])
void to_bf16(std::span<f32_code const> x, std::span<bf16_code> out) noexcept;
/// out[i] = widen(x[i])
void widen(std::span<bf16_code const> x, std::span<f32_code> out) noexcept;

}  // namespace stickybit::host
