// Reports about exp: what an approximate exponential costs, and when flushing does not matter.
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "account.hpp"
#include "sections.hpp"
#include "stickybit/exact/constants.hpp"
#include "stickybit/format/text.hpp"
#include "stickybit/format/value.hpp"
#include "stickybit/machine/machine.hpp"
#include "stickybit/rounding/arithmetic.hpp"
#include "stickybit/sfu/cuda_math.hpp"
#include "stickybit/sfu/sfu.hpp"

namespace stickybit::detail {
namespace {

constexpr subnormals kept = subnormals::kept;

double_double exact_ex2(f32_code x) { return exp(exact_ln_2 * to_double(x)); }
f32_code unit_ex2(f32_code x) { return ex2(*sm90().special_functions, x); }

/// The worst of 4096 arguments spread over (-1, 0].
std::vector<report_finding> hardware_exp2() {
  f32_code worst = f32_code::zero();
  double largest = 0;
  for (int i = 0; i < 4096; ++i) {
    const f32_code x = code_of(float(-(i + 0.5) / 4096));
    const double_double exact = exact_ex2(x);
    const double error = std::fabs(to_double((double_double{to_double(unit_ex2(x)), 0} - exact) / exact));
    if (error <= largest) continue;
    largest = error;
    worst = x;
  }
  const double_double exact = exact_ex2(worst);
  return {{fmt::format("2^{}, the worst of 4096 arguments between -1 and 0", decimal(worst)),
           text_of(exact),
           {judged("EX2, the special-function unit of sm90", unit_ex2(worst), exact)}},
          {"largest relative error over these arguments", "0", {measured("EX2, the special-function unit of sm90", largest, 0, 2.4e-7)}}};
}

std::vector<report_finding> harmless_flush() {
  const f32_code x = parse_f32("-126.5"), one = parse_f32("1");
  const double_double exact = exact_ex2(x);
  const f32_code flushed = unit_ex2(x), subnormal = exp2_keeping_subnormals(*sm90().special_functions, x);
  return {{"2^-126.5, a subnormal number", text_of(exact), {judged("EX2 with .ftz", flushed, exact), judged("exp2 that keeps subnormals", subnormal, exact)}},
          {"a row sum of 1 and that weight",
           "1 and a little: 1 in FP32",
           {judged("EX2 with .ftz", add(one, flushed, kept), double_double{1, 0} + exact),
            judged("exp2 that keeps subnormals", add(one, subnormal, kept), double_double{1, 0} + exact)}}};
}

/// 2^x by the straight line c (1 + f) on the fraction f of x, c such that the largest relative error is least.
f32_code straight_line(f32_code x) {
  const double least = 0.97017879;  // 2 / (1 + the largest of (1 + f) / 2^f, which is 1.0614757)
  const double value = to_double(x), n = std::floor(value);
  const f32_code c = code_of(float(least)), f = code_of(float(value - n));
  return mul(fma(c, f, c, kept), code_of(float(std::ldexp(1.0, int(n)))), kept);
}

std::vector<report_finding> straight_line_softmax() {
  const f32_code zero = f32_code::zero(), x = parse_f32("-0.5573"), one = parse_f32("1");
  const double_double exact = double_double{1, 0} / (double_double{1, 0} + exact_ex2(x));
  const auto winner = [&](auto&& power) {
    const f32_code first = power(zero);
    return div(first, add(first, power(x), kept), kept);
  };
  return {{"P of the larger of two scores, 0 and -0.5573 in units of log 2",
           text_of(exact),
           {judged("exponential of one straight line, then normalised", winner(straight_line), exact), judged("EX2, then normalised", winner(unit_ex2), exact)}},
          {"2^0 by that straight line", "1", {judged("one straight line", straight_line(zero), {to_double(one), 0})}}};
}

constexpr std::array<std::string_view, 1> liger{"https://github.com/linkedin/Liger-Kernel/pull/1266"};
constexpr std::array<std::string_view, 1> helion{"https://github.com/pytorch/helion/pull/3538"};
constexpr std::array<std::string_view, 1> openvino{"https://github.com/openvinotoolkit/openvino/pull/37857"};

constexpr std::array reports{
    public_report{
        .number = 49,
        .id = "liger-1266-exp2",
        .addresses = liger,
        .symptom = "exp is replaced by the hardware's exp2, quoted at a relative error of 2.4e-7",
        .input = "4096 arguments between -1 and 0",
        .cause = "The special-function unit interpolates a table of 64 quadratics: more than an ulp off at worst, and below 2.4e-7 everywhere tried. An exact argument of 0 "
                 "gives exactly 1.",
        .caveat = {},
        .compute = hardware_exp2},
    public_report{.number = 50,
                  .id = "helion-3538-ftz",
                  .addresses = helion,
                  .symptom = "when is flushing subnormal results of exp2 harmless?",
                  .input = "2^-126.5 beside a weight of 1",
                  .cause = "The flushed result is zero and wrong by itself. In a softmax the largest weight is 1, so its sum cannot see a term below 2^-126, and O only where V is near the end of its range.",
                  .caveat = {},
                  .compute = harmless_flush},
    public_report{
        .number = 51,
        .id = "openvino-37857-minimax",
        .addresses = openvino,
        .symptom = "does the error of a cheap exponential cancel when a softmax is normalised?",
        .input = "two scores, 0 and -0.5573 in units of log 2",
        .cause = "A minimax polynomial errs by +3 % at some fractions and by -3 % at others, and two scores of one row need not have the same fraction. Only a common "
                 "factor cancels.",
        .caveat = {},
        .compute = straight_line_softmax},
};

}  // namespace

std::span<public_report const> exponential_reports() noexcept { return reports; }

}  // namespace stickybit::detail
