#include "stickybit/rounding/host_arithmetic.hpp"

#include <bit>
#include <cfloat>
#include <cmath>
#include <limits>

#include "stickybit/format/value.hpp"
#include "stickybit/rounding/arithmetic.hpp"

static_assert(FLT_EVAL_METHOD == 0, "host float expressions must be evaluated in float");

namespace stickybit::host {
namespace {

constexpr float smallest_normal = std::numeric_limits<float>::min();

/// An IEEE result made `.ftz`. `definition` is called where IEEE and `.ftz` may part in a way the result alone does not tell:
/// when it is ±2^-126, which is kept or flushed by what it was before rounding.
template <class Definition>
f32_code finish(float r, Definition definition) noexcept {
  if (std::isnan(r)) return f32_code::nan();
  const float magnitude = std::fabs(r);
  if (magnitude < smallest_normal) return f32_code::zero(std::signbit(r));
  return magnitude == smallest_normal ? definition() : code_of(r);
}

f32_code canonical(float r) noexcept { return std::isnan(r) ? f32_code::nan() : code_of(r); }

float operand(f32_code c) noexcept { return to_float(flush_subnormal(c)); }

}  // namespace

bool is_ieee() noexcept {
  // volatile: the compiler must ask the machine, in the mode it is in now.
  volatile float const tiny = smallest_normal, half = 0.5f, one = 1.0f, quarter_ulp = 0x1p-25f, subnormal = 0x1p-149f;
  volatile float const kept = tiny * half, read = subnormal + subnormal;
  volatile float const up = one + quarter_ulp, down = -one - quarter_ulp, below = one - 0x1p-26f;
  // Bits, not numbers: a mode that reads subnormals as zero would compare them so, too.
  const auto is = [](float x, std::uint32_t bits) { return std::bit_cast<std::uint32_t>(x) == bits; };
  return is(kept, 0x00400000) && is(read, 0x00000002) && is(up, 0x3f800000) && is(down, 0xbf800000) && is(below, 0x3f800000);
}

f32_code fma_ftz(f32_code a, f32_code b, f32_code c) noexcept {
  return finish(std::fma(operand(a), operand(b), operand(c)), [=] { return stickybit::fma(a, b, c, subnormals::flushed); });
}

f32_code add_ftz(f32_code a, f32_code b) noexcept {
  return finish(operand(a) + operand(b), [=] { return stickybit::add(a, b, subnormals::flushed); });
}

f32_code mul_ftz(f32_code a, f32_code b) noexcept {
  return finish(operand(a) * operand(b), [=] { return stickybit::mul(a, b, subnormals::flushed); });
}

f32_code div_ftz(f32_code a, f32_code b) noexcept {
  return finish(operand(a) / operand(b), [=] { return stickybit::div(a, b, subnormals::flushed); });
}

f32_code fma(f32_code a, f32_code b, f32_code c) noexcept { return canonical(std::fma(to_float(a), to_float(b), to_float(c))); }
f32_code add(f32_code a, f32_code b) noexcept { return canonical(to_float(a) + to_float(b)); }
f32_code mul(f32_code a, f32_code b) noexcept { return canonical(to_float(a) * to_float(b)); }
f32_code div(f32_code a, f32_code b) noexcept { return canonical(to_float(a) / to_float(b)); }

bf16_code to_bf16(f32_code c) noexcept {
  if (c.is_nan()) return bf16_code::nan();
  // Round the low half away by adding just under half of its weight, and the last kept bit for ties. A carry raises the
  // exponent, up to infinity, as rounding to nearest even does.
  const std::uint32_t bits = c.to_bits();
  return bf16_code::from_bits(std::uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16));
}

}  // namespace stickybit::host
