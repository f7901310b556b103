#include "selective_arithmetic.hpp"

#include <cmath>

#include "stickybit/exact/round_to.hpp"
#include "stickybit/format/value.hpp"
#include "stickybit/sfu/cuda_math.hpp"
#include "stickybit/sfu/sfu.hpp"

namespace stickybit::detail {
namespace {

bool below(double_double x, double bound) noexcept { return (x.hi < 0 ? -x : x) < double_double{bound, 0}; }
double_double zero_like(double_double x) noexcept { return {std::copysign(0.0, x.hi), 0}; }

/// The sign of a zero factor, which a double_double product loses.
double_double product(double_double a, double_double b) noexcept { return a.hi == 0 || b.hi == 0 ? double_double{a.hi * b.hi, 0} : a * b; }

}  // namespace

selective_arithmetic::selective_arithmetic(call_plan const& plan, double softmax_scale)
    : plan_(plan), flushed_(plan.rules->scalars == subnormals::flushed), ln2_(log(double_double{2, 0})) {
  const double_double log2_e = double_double{1, 0} / ln2_;
  exact_factors_ = {{softmax_scale, 0}, log2_e, log2_e * softmax_scale};
  rounded_factors_ = {real(plan.scales.scale), real(round_to<format::f32>(log2_e)), real(plan.scales.scale_log2)};
}

double_double selective_arithmetic::operand(double_double x) const noexcept { return flushed_ && below(x, 0x1p-126) ? zero_like(x) : x; }

double_double selective_arithmetic::to_f32(double_double x) const noexcept {
  // `.ftz` decides on the value rounded to 24 bits: from 2^-126·(1 − 2^-25) on that is 2^-126.
  if (flushed_ && below(x, 0x1p-126 - 0x1p-151)) return zero_like(x);
  return real(round_to<format::f32>(x));
}

double_double selective_arithmetic::add(rounding_point p, double_double a, double_double b) const {
  return rounds(p) ? to_f32(operand(a) + operand(b)) : a + b;
}

double_double selective_arithmetic::mul(rounding_point p, double_double a, double_double b) const {
  return rounds(p) ? to_f32(product(operand(a), operand(b))) : product(a, b);
}

double_double selective_arithmetic::fma(rounding_point p, double_double a, double_double b, double_double c) const {
  return rounds(p) ? to_f32(product(operand(a), operand(b)) + operand(c)) : product(a, b) + c;
}

double_double selective_arithmetic::div(rounding_point p, double_double a, double_double b) const {
  return rounds(p) ? to_f32(operand(a) / operand(b)) : a / b;
}

double_double selective_arithmetic::exponential(rounding_point p, double_double x) const {
  const bool natural = plan_.rules->exponent == exponent_form::natural;
  if (!rounds(p)) return natural ? exp(x) : exp(x * ln2_);
  const f32_code argument = round_to<format::f32>(x);
  const bool bare = flushed_ || plan_.rules->exp2 == exp2_form::bare;
  const f32_code result = natural ? cuda_expf(*plan_.tables, argument) : bare ? ex2(*plan_.tables, argument) : exp2_keeping_subnormals(*plan_.tables, argument);
  const double_double lost = x - real(argument);
  if (lost.hi == 0 || !result.is_finite() || result.is_zero()) return real(result);
  return real(result) * exp(natural ? lost : lost * ln2_);
}

double_double selective_arithmetic::reciprocal(rounding_point p, double_double sum) const {
  if (!rounds(p)) return double_double{1, 0} / sum;
  const f32_code argument = round_to<format::f32>(sum), result = rcp(*plan_.tables, argument);
  if (real(argument) == sum || !result.is_finite() || result.is_zero()) return real(result);
  return real(result) * (real(argument) / sum);
}

}  // namespace stickybit::detail
