#pragma once
#include "stickybit/format/code.hpp"

// The same operations as arithmetic.hpp by the host's IEEE floating point, to nearest even: fast forms, tested equal to the
// integer definitions code for code. With `_ftz`: subnormals::flushed, without: kept. Compiled in the library, never inlined into a caller, so that a
// caller's -ffast-math or contraction cannot reach them.

namespace stickybit::host {

/// Does this thread's floating point round to nearest even and keep subnormals, as IEEE 754 has it by default? A program
/// linked with -ffast-math, or a library that sets MXCSR, may have changed that: then the definitions must be used.
[[nodiscard]] bool is_ieee() noexcept;

[[nodiscard]] f32_code fma_ftz(f32_code a, f32_code b, f32_code c) noexcept;
[[nodiscard]] f32_code add_ftz(f32_code a, f32_code b) noexcept;
[[nodiscard]] f32_code mul_ftz(f32_code a, f32_code b) noexcept;
[[nodiscard]] f32_code div_ftz(f32_code a, f32_code b) noexcept;

[[nodiscard]] f32_code fma(f32_code a, f32_code b, f32_code c) noexcept;
[[nodiscard]] f32_code add(f32_code a, f32_code b) noexcept;
[[nodiscard]] f32_code mul(f32_code a, f32_code b) noexcept;
[[nodiscard]] f32_code div(f32_code a, f32_code b) noexcept;

[[nodiscard]] bf16_code to_bf16(f32_code c) noexcept;

}  // namespace stickybit::host
