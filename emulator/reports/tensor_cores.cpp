// Reports about what a tensor core keeps: guard bits, FP8 accumulators, TF32 operands, subnormal products.
#include <array>

#include "account.hpp"
#include "products.hpp"
#include "sections.hpp"
#include "stickybit/format/text.hpp"
#include "stickybit/rounding/arithmetic.hpp"

namespace stickybit::detail {
namespace {

constexpr f32_code one = f32_code::from_bits(0x3f800000);
constexpr std::string_view fp8 = "sm90.wgmma.e4m3.f32", hopper = "sm90.wgmma.bf16.f32", ampere = "sm80.mma.bf16.f32";

/// `count` products of 2^-14, each 2^-7 x 2^-7.
template <format In>
operands<In> small_products(std::size_t count) {
  std::vector<sparse_term> terms;
  for (std::size_t k = 0; k < count; ++k) terms.push_back({k, 0x1p-7, 0x1p-7});
  return operands_of<In>(32, terms);
}

std::vector<report_finding> two_levels() {
  machine_unit const& unit = unit_named(fp8);
  const double_double exact{1 + 0x1p-9, 0};
  f32_code chained = one;
  for (int i = 0; i < 32; ++i) chained = product_on(unit, small_products<format::e4m3fn>(1), chained);
  const f32_code block = product_on(unit, small_products<format::e4m3fn>(32), f32_code::zero());
  return {{"1 + 32 x 2^-14",
           text_of(exact),
           {judged("sm90.wgmma.e4m3.f32, one product a step", chained, exact),
            judged("sm90.wgmma.e4m3.f32, all 32 in one step onto 1", product_on(unit, small_products<format::e4m3fn>(32), one), exact),
            judged("two levels: the 32 from 0, then one FP32 addition", add(one, block, subnormals::kept), exact)}}};
}

std::vector<report_finding> fourteen_bits() {
  const f32_code c = f32_code::from_bits(0x3f800600);
  const double_double exact{1 + 0x1p-13 + 0x1p-14, 0};
  const auto nothing = operands_of<format::e4m3fn>(32, {});
  return {{"an accumulator of 1 + 2^-13 + 2^-14 after one step of zero products",
           text_of(exact),
           {judged("sm90.wgmma.e4m3.f32", product_on(unit_named(fp8), nothing, c), exact),
            judged("sm89.mma.e4m3.f32", product_on(unit_named("sm89.mma.e4m3.f32"), nothing, c), exact),
            judged("sm90.wgmma.bf16.f32", product_on(unit_named(hopper), operands_of<format::bf16>(16, {}), c), exact)}}};
}

/// 1 and four products of 2^-25.
report_finding guard_bits() {
  std::vector<sparse_term> terms;
  for (std::size_t k = 0; k < 4; ++k) terms.push_back({k, 0x1p-12, 0x1p-13});
  const auto o = operands_of<format::bf16>(16, terms);
  const double_double exact{1 + 0x1p-23, 0};
  report_finding f{"1 + 4 x 2^-25", text_of(exact), {}};
  for (std::string_view unit : {ampere, hopper, std::string_view("sm100.mma.bf16.f32")})
    f.results.push_back(judged(std::string(unit), product_on(unit_named(unit), o, one), exact));
  f.results.push_back(judged("FP32 fused multiply-adds", sequential(o, one), exact));
  return f;
}
std::vector<report_finding> machines_differ() { return {guard_bits()}; }

std::vector<report_finding> published_models() {
  std::vector<sparse_term> terms;
  for (std::size_t k = 0; k < 16; ++k) terms.push_back({k, 0x1p-76, 0x1p-76});
  machine_unit clamped = unit_named(hopper);
  clamped.min_alignment_exponent = -126;
  const auto tiny = operands_of<format::bf16>(16, terms), subnormal = operands_of<format::bf16>(16, {{0, 0x1p-130, 1}});
  auto flushed = subnormal;
  flushed.a[0] = flush_subnormal(flushed.a[0]);
  const auto on = [&](machine_unit const& unit, operands<format::bf16> const& o) { return product_on(unit, o, f32_code::zero()); };
  const double_double sum{0x1p-148, 0}, single{0x1p-130, 0};
  return {{"16 x 2^-152",
           text_of(sum),
           {judged("a model that aligns at 2^-126 or above", on(clamped, tiny), sum), judged("sm90.wgmma.bf16.f32", on(unit_named(hopper), tiny), sum)}},
          {"2^-130 x 1, a subnormal operand",
           text_of(single),
           {judged("a model that flushes subnormal operands", on(unit_named(hopper), flushed), single),
            judged("sm90.wgmma.bf16.f32", on(unit_named(hopper), subnormal), single)}},
          guard_bits()};
}

std::vector<report_finding> tf32_operands() {
  const f32_code x = parse_f32("1024.5");
  const double_double exact{1024.5, 0};
  return {{"1024.5 x 1",
           "1024.5",
           {judged("operand rounded to TF32, ties away (the conversion instruction)", convert<format::tf32>(x, rounding::nearest_away), exact),
            judged("operand rounded to TF32, ties to even", convert<format::tf32>(x, rounding::nearest_even), exact),
            judged("operand's low 13 bits cut (the tensor core itself)", convert<format::tf32>(x, rounding::toward_zero), exact),
            judged("FP32", mul(x, one, subnormals::kept), exact)}}};
}

std::vector<report_finding> fp8_cancellation() {
  const std::vector<sparse_term> terms{{0, 448, 448}, {1, 1, 1}, {2, -448, 448}};
  const double_double exact{1, 0};
  const auto e4m3 = operands_of<format::e4m3fn>(32, terms);
  return {{"448 x 448 + 1 x 1 - 448 x 448 in E4M3",
           "1",
           {judged("sm90.wgmma.e4m3.f32", product_on(unit_named(fp8), e4m3, f32_code::zero()), exact),
            judged("the same numbers on sm90.wgmma.bf16.f32", product_on(unit_named(hopper), operands_of<format::bf16>(16, terms), f32_code::zero()), exact),
            judged("FP32 fused multiply-adds", sequential(e4m3, f32_code::zero()), exact)}}};
}

constexpr std::array<std::string_view, 2> needle{"https://vllm.ai/blog/2026-04-22-fp8-kvcache",
                                                 "https://vllm-website-pdzeaspbm-inferact-inc.vercel.app/blog/fp8-kvcache"};
constexpr std::array<std::string_view, 5> fp8_bits{"https://github.com/deepseek-ai/DeepGEMM/issues/37", "https://github.com/deepseek-ai/DeepGEMM/issues/43",
                                                   "https://github.com/deepseek-ai/DeepGEMM/issues/50", "https://github.com/deepseek-ai/DeepSeek-V3/issues/197",
                                                   "https://github.com/deepseek-ai/DeepSeek-V3/issues/847"};
constexpr std::array<std::string_view, 3> disagree{"https://github.com/pytorch/pytorch/issues/105726", "https://github.com/pytorch/pytorch/issues/108627",
                                                   "https://github.com/microsoft/onnxruntime/issues/24027"};
constexpr std::array<std::string_view, 2> models{"https://github.com/north-numerical-computing/MATLAB-tensor-core/issues/2",
                                                 "https://github.com/north-numerical-computing/tensor-cores-numerical-behavior/issues/2"};
constexpr std::array<std::string_view, 4> tf32{"https://github.com/pytorch/pytorch/issues/53635", "https://github.com/pytorch/pytorch/issues/55355",
                                               "https://github.com/jax-ml/jax/issues/14022", "https://github.com/ml-explore/mlx/issues/3860"};
constexpr std::array<std::string_view, 1> hardening{"https://github.com/ashvardanian/NumKong/issues/308"};

constexpr std::array reports{
    public_report{.number = 23,
                  .id = "vllm-fp8-needle",
                  .addresses = needle,
                  .symptom = "FlashAttention-3 in FP8: a needle test at 128k tokens falls from 91 % to 13 %, and is back at 89 % with sums of two levels",
                  .input = "1 + 32 x 2^-14 in E4M3",
                  .cause = "Hopper's FP8 unit keeps 13 fraction bits of its accumulator, so terms below 2^-13 of a long sum are lost one by one. "
                           "Short sums that begin at 0 and meet in FP32 keep them.",
                  .caveat = "The example shows the accumulator's loss, not the model's accuracy.",
                  .compute = two_levels},
    public_report{.number = 30,
                  .id = "deepgemm-37-fp8-accumulator",
                  .addresses = fp8_bits,
                  .symptom = "does the FP8 accumulator have 14 bits or 22?",
                  .input = "an accumulator of 1 + 2^-13 + 2^-14 and zero products",
                  .cause =
                      "The accumulator is aligned and cut with the products at 2^(E-13), and the result has 13 fraction bits, 14 bits with the hidden one; even zero "
                      "products shorten it. "
                      "BF16 products keep all 24.",
                  .caveat = {},
                  .compute = fourteen_bits},
    public_report{
        .number = 32,
        .id = "pytorch-105726-two-gpus",
        .addresses = disagree,
        .symptom = "A100 and H100 (or RTX 3090, A6000) give different results for the same product",
        .input = "1 and four products of 2^-25",
        .cause = "Both machines cut every term at a fixed distance below the largest: the A100 keeps 24 fraction bits, the H100 25, so the four terms are lost on the "
                 "one and kept on the other. "
                 "A sequential FP32 sum loses them too.",
        .caveat = {},
        .compute = machines_differ},
    public_report{
        .number = 33,
        .id = "published-models-subnormals",
        .addresses = models,
        .symptom = "published models of tensor cores are wrong on subnormal products, or on the number of extra bits",
        .input = "products of 2^-152, a subnormal operand, and the guard bits of report 32",
        .cause =
            "The exponent at which terms are aligned has its own smallest value, -133 on Hopper, far below FP32's smallest normal, and subnormal operands are numbers. "
            "A model that aligns no lower than 2^-126, or flushes, loses such sums.",
        .caveat = {},
        .compute = published_models},
    public_report{
        .number = 35,
        .id = "tf32-by-default",
        .addresses = tf32,
        .symptom = "FP32 matrix products are only right to three digits",
        .input = "1024.5 x 1",
        .cause = "By default the library rounds the operands to TF32, which has 10 fraction bits: 1024.5 is a tie. Which neighbour it becomes depends on who converts.",
        .caveat = {},
        .compute = tf32_operands},
    public_report{
        .number = 52,
        .id = "numkong-308-fp8-cancellation",
        .addresses = hardening,
        .symptom = "inner products of FP8 numbers lose everything where large terms cancel",
        .input = "448 x 448 + 1 x 1 - 448 x 448",
        .cause =
            "With 13 fraction bits below the largest product, 2^17, terms below 2^4 are gone before the large ones cancel. In FP32 every one of these sums is exact.",
        .caveat = "The report is about other processors' kernels: the example shows the same inputs on a tensor core.",
        .compute = fp8_cancellation},
};

}  // namespace

std::span<public_report const> tensor_core_reports() noexcept { return reports; }

}  // namespace stickybit::detail
