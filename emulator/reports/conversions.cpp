// Reports about conversions, small updates and tolerances.
#include <array>

#include "account.hpp"
#include "sections.hpp"
#include "stickybit/exact/round_to.hpp"
#include "stickybit/format/text.hpp"
#include "stickybit/format/value.hpp"
#include "stickybit/rounding/arithmetic.hpp"

namespace stickybit::detail {
namespace {

constexpr subnormals kept = subnormals::kept;

report_result cast_of(std::string who, f32_code x, rounding mode = rounding::nearest_even) {
  return judged(std::move(who), convert<format::bf16>(x, mode), {to_double(x), 0});
}

std::vector<report_finding> truncation() {
  const f32_code x = parse_f32("0.26914087703"), quiet_bits_low = f32_code::from_bits(0x7f800001), all_ones = f32_code::from_bits(0x7fffffff);
  const auto upper_half = [](std::uint32_t bits) { return bf16_code::from_bits(std::uint16_t(bits >> 16)); };
  const auto with_bias = [&](f32_code c) { return upper_half(c.to_bits() + 0x7fff + (c.to_bits() >> 16 & 1)); };
  const auto nan_result = [](std::string who, bf16_code c) { return stated(std::move(who), c, c.is_nan() ? accuracy::exact : accuracy::wrong); };
  return {{"0.26914087703 in BF16", text_of(to_double(x)), {cast_of("the upper half of the FP32 code", x, rounding::toward_zero), cast_of("to nearest even", x)}},
          {"the NaN 0x7F800001 in BF16",
           "NaN",
           {nan_result("the upper half of the FP32 code", upper_half(quiet_bits_low.to_bits())), nan_result("convert", convert<format::bf16>(quiet_bits_low))}},
          {"the NaN 0x7FFFFFFF in BF16",
           "NaN",
           {nan_result("rounding by adding 0x7FFF to the code", with_bias(all_ones)), nan_result("convert", convert<format::bf16>(all_ones))}}};
}

std::vector<report_finding> beyond_e4m3() {
  report_finding tie{"464 in E4M3, a tie between 448 and what would be 480", "448 (to even)", {}},
      beyond{"465 in E4M3", "none: the format has no infinity, and what stands for it is a convention", {}};
  for (auto const& [who, rule] :
       {std::pair{"overflow to NaN", rounding_rule{.beyond = overflow::to_infinity}}, {"saturating", rounding_rule{.beyond = overflow::saturate}}}) {
    const e4m3fn_code c = convert<format::e4m3fn>(parse_f32("464"), rule);
    tie.results.push_back(stated(who, c, c == e4m3fn_code::largest() ? accuracy::nearest : accuracy::wrong));
    beyond.results.push_back(stated(who, convert<format::e4m3fn>(parse_f32("465"), rule), accuracy::open));
  }
  return {beyond, tie};
}

std::vector<report_finding> lost_sticky() {
  const f32_code sum = parse_f32("-4.703990459442139"), a = parse_f32("1.75"), b = parse_f32("0.578125"), c = parse_f32("-0x1p-40");
  const f32_code without = f32_code::from_bits(sum.to_bits() & 0xffff8000);  // the round bit is the last one left
  const double_double exact{to_double(sum), 0}, product = double_double{1.01171875, 0} + -0x1p-40;
  const auto narrow = [](f32_code x) { return convert<format::bf16>(x); };
  return {{"-4.703990459442139 in BF16", text_of(exact), {judged("rounded without the sticky bit", narrow(without), exact), judged("convert", narrow(sum), exact)}},
          {"fma(1.75, 0.578125, -2^-40) in BF16",
           text_of(product),
           {judged("rounded to FP32, then to BF16", narrow(fma(a, b, c, kept)), product), judged("rounded once", fma(narrow(a), narrow(b), narrow(c), kept), product)}}};
}

/// 1000 additions of 0.001 to 1.
std::vector<report_finding> vanishing_updates() {
  const f32_code step = parse_f32("0.001"), start = parse_f32("1"), sum = add(start, step, kept);
  const double tail = (to_double(sum) - 1) * 128;
  std::int64_t ups = 0;
  bf16_code nearest = convert<format::bf16>(start), stochastic = nearest;
  for (std::uint32_t word = 0; word < 0x10000; ++word) ups += convert<format::bf16>(sum, rounding_rule{.mode = rounding::stochastic, .random = {word, 16}}) != nearest;
  f32_code wide = start;
  random_words random(1);
  for (int i = 0; i < 1000; ++i) {
    nearest = convert<format::bf16>(add(widen(nearest), step, kept));
    stochastic = convert<format::bf16>(add(widen(stochastic), step, kept), rounding_rule{.mode = rounding::stochastic, .random = random()});
    wide = add(wide, step, kept);
  }
  const double exact = 1 + 1000 * to_double(step);
  return {{"1 + 0.001 a thousand times",
           text_of(exact),
           {judged("BF16, to nearest even", nearest, {exact, 0}), judged("BF16, stochastic, seed 1", stochastic, {exact, 0}), judged("FP32", wide, {exact, 0})}},
          {"probability that 1 + 0.001 becomes 1.0078125",
           text_of(tail),
           {measured("to nearest even", 0, tail, 0), measured("stochastic, over all 2^16 random words", double(ups) / 0x10000, tail, 0)}}};
}

std::vector<report_finding> tolerances() {
  const f32_code x = parse_f32("16.0625"), y = parse_f32("65.75");
  return {
      {"16.0625 in BF16; a test allows 0.06", text_of(to_double(x)), {cast_of("to nearest even: 0.0625 off, and as good as BF16 can be", x)}},
      {"65.75 in BF16; a test allows 1.6 %, that is 1.05", text_of(to_double(y)), {cast_of("to nearest even", y), cast_of("cut toward zero", y, rounding::toward_zero)}}};
}

constexpr std::array<std::string_view, 3> truncating{"https://github.com/stillwater-sc/universal/issues/1133", "https://github.com/tenstorrent/tt-metal/pull/19882",
                                                     "https://github.com/dotnet/runtime/pull/130583"};
constexpr std::array<std::string_view, 5> e4m3{"https://github.com/jax-ml/ml_dtypes/issues/400", "https://github.com/jax-ml/ml_dtypes/issues/260",
                                               "https://github.com/jax-ml/ml_dtypes/issues/147", "https://github.com/onnx/onnx/issues/6220",
                                               "https://github.com/stillwater-sc/universal/issues/1302"};
constexpr std::array<std::string_view, 1> sticky{"https://github.com/Z3Prover/z3/issues/10608"};
constexpr std::array<std::string_view, 4> updates{"https://github.com/pytorch/pytorch/issues/120376", "https://github.com/pytorch/ao/pull/1124",
                                                  "https://github.com/Nerogar/OneTrainer/issues/996",
                                                  "https://github.com/bitsandbytes-foundation/bitsandbytes/issues/1165"};
constexpr std::array<std::string_view, 7> flaky{"https://github.com/sgl-project/sglang/pull/35795",   "https://github.com/sgl-project/sglang/pull/28226",
                                                "https://github.com/unslothai/unsloth/pull/9795",     "https://github.com/ROCm/rocm-libraries/pull/4556",
                                                "https://github.com/tenstorrent/tt-metal/pull/52816", "https://github.com/MoonshotAI/FlashKDA/pull/16",
                                                "https://github.com/intel/sycl-tla/pull/695"};

constexpr std::array reports{
    public_report{.number = 43,
                  .id = "bf16-by-truncation",
                  .addresses = truncating,
                  .symptom = "conversion to BF16 truncates, and some NaN become infinity or -0",
                  .input = "0.26914087703 and two NaN",
                  .cause = "The upper half of an FP32 code is the number cut toward zero, and a NaN whose payload lies in the lower half becomes infinity. "
                           "Rounding by an integer addition to the code carries NaN over into the sign bit.",
                  .caveat = {},
                  .compute = truncation},
    public_report{
        .number = 44,
        .id = "e4m3-overflow",
        .addresses = e4m3,
        .symptom = "is a number beyond E4M3's largest NaN or 448?",
        .input = "464 and 465",
        .cause = "E4M3 spends infinity's codes on numbers, so overflow is NaN or the largest number, as a parameter says; libraries differ in its default. 464 is a tie "
                 "with 448 and stays inside either way.",
        .caveat = {},
        .compute = beyond_e4m3},
    public_report{.number = 46,
                  .id = "z3-10608-sticky",
                  .addresses = sticky,
                  .symptom = "a fused multiply-add used the wrong sticky bits",
                  .input = "the sum of report 1, and fma(1.75, 0.578125, -2^-40)",
                  .cause = "Whether what was cut is more than half decides the rounding, and the sticky bit alone tells a tie from just above or below one. "
                           "Rounding first to FP32 loses it too: a double rounding.",
                  .caveat = {},
                  .compute = lost_sticky},
    public_report{.number = 47,
                  .id = "vanishing-updates",
                  .addresses = updates,
                  .symptom = "weight updates and weight decay vanish in BF16; stochastic rounding is wanted",
                  .input = "1 + 0.001, a thousand times",
                  .cause =
                      "0.001 is less than half the distance from 1 to the next BF16 number, so each sum rounds back to 1. Rounded up with probability 0.128, the sum is "
                      "right on average.",
                  .caveat = {},
                  .compute = vanishing_updates},
    public_report{.number = 48,
                  .id = "fixed-tolerances",
                  .addresses = flaky,
                  .symptom = "tests with fixed tolerances flake, or hide bugs",
                  .input = "16.0625 and 65.75 in BF16",
                  .cause =
                      "Half an ulp between 16 and 32 is 0.0625, so an absolute tolerance of 0.06 fails perfect casts, while a relative one of 1.6 % admits four numbers "
                      "near 65.75, two of them not even next to it. "
                      "An error in ulp says what happened.",
                  .caveat = {},
                  .compute = tolerances},
};

}  // namespace

std::span<public_report const> conversion_reports() noexcept { return reports; }

}  // namespace stickybit::detail
