// Reports about sums: short accumulators, split sums, and what depends on the order.
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "account.hpp"
#include "products.hpp"
#include "sections.hpp"
#include "stickybit/format/text.hpp"
#include "stickybit/gemm/gemm.hpp"
#include "stickybit/rounding/arithmetic.hpp"

namespace stickybit::detail {
namespace {

constexpr subnormals kept = subnormals::kept;

/// `count` ones added one by one in format F.
template <format F>
code<F> running_sum(int count) {
  const code<F> one = convert<F>(parse_f32("1"));
  code<F> sum = code<F>::zero();
  for (int i = 0; i < count; ++i) sum = add(sum, one, kept);
  return sum;
}

std::vector<report_finding> stopped_sums() {
  report_finding bf16{
      "257 ones added one by one", "257", {judged("in BF16", running_sum<format::bf16>(257), {257, 0}), judged("in FP32", running_sum<format::f32>(257), {257, 0})}};
  report_finding f16{
      "2049 ones added one by one", "2049", {judged("in FP16", running_sum<format::f16>(2049), {2049, 0}), judged("in FP32", running_sum<format::f32>(2049), {2049, 0})}};
  report_finding thousand{"1000 ones added one by one",
                          "1000",
                          {judged("in BF16", running_sum<format::bf16>(1000), {1000, 0}), judged("in FP16", running_sum<format::f16>(1000), {1000, 0})}};
  return {bf16, f16, thousand};
}

/// A row of ones times a column of ones.
report_finding ones(std::size_t length, std::vector<const char*> const& units) {
  operands<format::bf16> o;
  o.a.assign(length, convert<format::bf16>(parse_f32("1")));
  o.b = o.a;
  const double_double exact{double(length), 0};
  report_finding f{
      fmt::format("the inner product of {} ones with ones", length), text_of(exact), {judged("products added in BF16", running_sum<format::bf16>(int(length)), exact)}};
  f.results.push_back(judged("FP32 fused multiply-adds, one cast to BF16", convert<format::bf16>(sequential(o, f32_code::zero())), exact));
  for (const char* unit : units) f.results.push_back(judged(unit, product_on(unit_named(unit), o, f32_code::zero()), exact));
  return f;
}
std::vector<report_finding> ones_on_a_processor() { return {ones(1024, {"sm80.mma.bf16.f32"})}; }
std::vector<report_finding> ones_in_templates() { return {ones(300, {"sm90.wgmma.bf16.f32"})}; }

f32_code gemm_of(machine_unit const& unit, operands<format::bf16> const& o, int slices) {
  return gemm(unit, gemm_problem{.m = 1, .n = 1, .k = std::int64_t(o.a.size()), .a = o.a, .b = o.b, .c = {}}, slices, engine::definition)[0];
}

/// 128.5 is a tie between 128 and 129 in BF16; four small terms lie above it.
std::vector<report_finding> off_by_one() {
  std::vector<sparse_term> terms{{0, 128, 1}, {1, 0.5, 1}};
  for (std::size_t k = 2; k < 6; ++k) terms.push_back({k, 0x1p-9, 0x1p-9});
  const auto o = operands_of<format::bf16>(16, terms);
  const double_double exact{128.5 + 0x1p-16, 0};
  report_finding f{"128 + 0.5 + 4 x 2^-18 as a BF16 matrix product", text_of(exact), {}};
  const auto cast = [&](std::string who, f32_code sum) { f.results.push_back(judged(std::move(who), convert<format::bf16>(sum), exact)); };
  cast("FP32 fused multiply-adds in ascending order (a CPU)", sequential(o, f32_code::zero()));
  cast("sm80.mma.bf16.f32", gemm_of(unit_named("sm80.mma.bf16.f32"), o, 1));
  cast("sm90.wgmma.bf16.f32", gemm_of(unit_named("sm90.wgmma.bf16.f32"), o, 1));
  return {f};
}

std::vector<report_finding> bf16_partials() {
  const auto o = operands_of<format::bf16>(128, {{0, 1000, 1}, {1, 1, 1}, {64, -1000, 1}});
  machine_unit const& unit = unit_named("sm90.wgmma.bf16.f32");
  const auto slice = [&](std::size_t begin) {
    const std::span<bf16_code const> a = std::span(o.a).subspan(begin, 64), b = std::span(o.b).subspan(begin, 64);
    const operands<format::bf16> part{{a.begin(), a.end()}, {b.begin(), b.end()}};
    return gemm_of(unit, part, 1);
  };
  const auto as_bf16 = [](f32_code c) { return convert<format::bf16>(c); };
  const bf16_code joined = as_bf16(add(widen(as_bf16(slice(0))), widen(as_bf16(slice(64))), kept));
  return {{"1000 + 1 - 1000, K = 128 in two slices",
           "1",
           {judged("partial sums stored in BF16", joined, {1, 0}), judged("gemm --split-k 2, partial sums in FP32", as_bf16(gemm_of(unit, o, 2)), {1, 0}),
            judged("gemm, one chain", as_bf16(gemm_of(unit, o, 1)), {1, 0})}}};
}

std::vector<report_finding> batch_dependence() {
  const auto apart = operands_of<format::bf16>(128, {{0, 0x1p24, 1}, {64, 1, 1}, {80, -0x1p24, 1}});
  const auto together = operands_of<format::bf16>(128, {{0, 0x1p24, 1}, {1, 1, 1}, {2, -0x1p24, 1}});
  machine_unit const& unit = unit_named("sm90.wgmma.bf16.f32");
  const double_double one{1, 0};
  return {
      {"2^24 + 1 - 2^24 at k = 0, 64 and 80", "1", {judged("gemm, one chain", gemm_of(unit, apart, 1), one), judged("gemm --split-k 2", gemm_of(unit, apart, 2), one)}},
      {"the same at k = 0, 1 and 2",
       "1",
       {judged("gemm, one chain: one block of 16", gemm_of(unit, together, 1), one), judged("FP32 fused multiply-adds", sequential(together, f32_code::zero()), one)}}};
}

std::vector<report_finding> lost_bits() {
  recorder<rounded> events;
  const f16_code sum = add(convert<format::f16>(parse_f32("2048")), convert<format::f16>(parse_f32("1")), kept, events);
  const rounded e = events.all<rounded>().at(0);
  const double lost = std::ldexp(double(e.significand & ((std::uint64_t{1} << e.drop) - 1)), e.exponent);
  return {{"2048 + 1 in FP16", "2049", {judged("the FP16 sum", sum, {2049, 0})}},
          {"what the trace of that addition says was cut off", "1", {measured("the event of its rounding", lost, 1, 0)}}};
}

/// 16 blocks, each of which adds 1.5 x 2^-24.
std::vector<report_finding> drift() {
  std::vector<sparse_term> terms;
  for (std::size_t k = 0; k < 256; k += 16) terms.push_back({k, 1.5, 0x1p-24});
  const auto o = operands_of<format::bf16>(256, terms);
  const f32_code one = parse_f32("1");
  const double_double exact{1 + 24 * 0x1p-24, 0};
  return {{"1 and then 16 times 1.5 x 2^-24, one term a step",
           text_of(exact),
           {judged("sm90.wgmma.bf16.f32", product_on(unit_named("sm90.wgmma.bf16.f32"), o, one), exact),
            judged("sm80.mma.bf16.f32", product_on(unit_named("sm80.mma.bf16.f32"), o, one), exact), judged("FP32 fused multiply-adds", sequential(o, one), exact)}}};
}

constexpr std::array<std::string_view, 3> stopping{"https://github.com/pytorch/executorch/pull/20090", "https://github.com/huggingface/candle/pull/3718",
                                                   "https://github.com/pytorch/pytorch/issues/139242"};
constexpr std::array<std::string_view, 2> cpu_ones{"https://github.com/pytorch/pytorch/issues/83863", "https://github.com/pytorch/pytorch/issues/95125"};
constexpr std::array<std::string_view, 1> cpu_cuda{"https://github.com/pytorch/pytorch/issues/111457"};
constexpr std::array<std::string_view, 3> split{"https://github.com/modular/modular/issues/7165", "https://github.com/NVIDIA/TransformerEngine/pull/3440",
                                                "https://github.com/pytorch/pytorch/pull/153095"};
constexpr std::array<std::string_view, 2> accumulate{"https://github.com/triton-lang/triton/issues/2843", "https://github.com/NVIDIA/cutlass/issues/1188"};
constexpr std::array<std::string_view, 3> batch{"https://github.com/NVIDIA/TransformerEngine/issues/2986", "https://github.com/pytorch/pytorch/issues/136338",
                                                "https://github.com/torch-spyre/torch-spyre/issues/3624"};
constexpr std::array<std::string_view, 1> templates{"https://github.com/pytorch/pytorch/pull/188998"};

constexpr std::array reports{
    public_report{.number = 25,
                  .id = "sum-stops-at-256",
                  .addresses = stopping,
                  .symptom = "a BF16 sum of ones stops at 256, an FP16 sum at 2048",
                  .input = "257, 2049 and 1000 ones",
                  .cause = "From 256 on, BF16 numbers are 2 apart: 256 + 1 is a tie and goes back to 256, for ever. FP16 has three more bits and stops at 2048.",
                  .caveat = {},
                  .compute = stopped_sums},
    public_report{.number = 27,
                  .id = "pytorch-83863-ones",
                  .addresses = cpu_ones,
                  .symptom = "a BF16 matrix product of 1024 ones is wrong on a CPU without its optimised library",
                  .input = "1024 ones times 1024 ones",
                  .cause = "The plain loop adds in BF16 and stops at 256; the optimised library and every tensor core add in FP32 and round once.",
                  .caveat = {},
                  .compute = ones_on_a_processor},
    public_report{.number = 28,
                  .id = "pytorch-111457-off-by-one",
                  .addresses = cpu_cuda,
                  .symptom = "a BF16 matrix product differs by 1.0 between CPU and GPU",
                  .input = "six products: 128, 0.5 and four times 2^-18",
                  .cause = "1.0 is one ulp of BF16 between 128 and 256: the FP32 sums differ in their last bits, and beside a tie that decides the cast. "
                           "Here a sequential sum and the A100 lose the four small terms, Hopper keeps them.",
                  .caveat = "The report's own matrices are not reproduced: the example shows an effect of this kind and size.",
                  .compute = off_by_one},
    public_report{
        .number = 29,
        .id = "split-k-bf16-partials",
        .addresses = split,
        .symptom = "split-K results up to 40 % off",
        .input = "1000 + 1 in one slice of K, -1000 in the other",
        .cause = "The partial sums of the slices are stored in BF16 before they are added: 1001 becomes 1000, and the small difference that was wanted is gone.",
        .caveat = {},
        .compute = bf16_partials},
    public_report{
        .number = 34,
        .id = "triton-2843-truncation-drift",
        .addresses = {accumulate.data(), 1},
        .symptom = "a sum accumulated on tensor cores does not match FP32 additions",
        .input = "1, then sixteen steps of 1.5 x 2^-24",
        .cause = "Each step adds three quarters of an ulp of 1. A tensor core cuts the sum toward zero and loses them every time; FP32 additions round to nearest and "
                 "make a whole ulp of them. "
                 "Neither is the exact sum, and truncation is biased toward zero.",
        .caveat = {},
        .compute = drift},
    public_report{
        .number = 37,
        .id = "te-2986-batch-size",
        .addresses = batch,
        .symptom = "a row's result depends on the size of the batch it is in",
        .input = "2^24, 1 and -2^24 along K = 128",
        .cause = "The shape of the call decides how K is split, and the split decides which terms meet before they are rounded. In one block of 16 all three are added "
                 "exactly.",
        .caveat = {},
        .compute = batch_dependence},
    public_report{
        .number = 40,
        .id = "pytorch-188998-templates",
        .addresses = templates,
        .symptom = "kernel templates for Hopper accumulated BF16 products with too few bits",
        .input = "300 ones times 300 ones",
        .cause = "If the accumulator has the type of the operands, a BF16 sum of ones stops at 256. Accumulating in FP32 and casting once gives the right value.",
        .caveat = "The reporters' root cause is not confirmed: the example supposes a BF16 accumulator.",
        .compute = ones_in_templates},
    public_report{.number = 42,
                  .id = "cutlass-1188-lost-bits",
                  .addresses = {accumulate.data() + 1, 1},
                  .symptom = "is there a way to be warned when an accumulator drops bits?",
                  .input = "2048 + 1 in FP16",
                  .cause =
                      "The hardware gives no sign of an inexact addition. Every rounding here is an event that says which bits were cut; `explain add` and `explain dot` "
                      "print them.",
                  .caveat = {},
                  .compute = lost_bits},
};

}  // namespace

std::span<public_report const> sum_reports() noexcept { return reports; }

}  // namespace stickybit::detail
