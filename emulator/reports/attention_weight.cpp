// Reports about the weights P: what becomes of the maximum, and of scores or lse that are kept with few bits.
#include <array>

#include "account.hpp"
#include "sections.hpp"
#include "stickybit/format/text.hpp"
#include "stickybit/format/value.hpp"
#include "stickybit/machine/machine.hpp"
#include "stickybit/rounding/arithmetic.hpp"
#include "stickybit/sfu/sfu.hpp"
#include "tiny_attention.hpp"

namespace stickybit::detail {
namespace {

constexpr f32_code log2_e = f32_code::from_bits(0x3fb8aa3b);
constexpr double_double one{1, 0};

/// EX2(rn(rn(s - m) log2 e)), the subtraction first.
f32_code weight_of(f32_code s, f32_code m) { return ex2(*sm90().special_functions, mul(sub(s, m, subnormals::kept), log2_e, subnormals::kept)); }

/// The argument of the maximum's exponential and its weight, before any cast.
struct winner {
  f32_code argument, weight;
};
winner winner_of(attention_schedule const& s, attention_problem const& p) {
  const softmax_weight w = trace_forward_row(s, p, 0, 0, 0).weights.at(0);
  return {w.argument, w.weight};
}

constexpr std::array<std::pair<const char*, const char*>, 3> fused_and_not{{{"fa3", "none"}, {"fa2-torch", "none"}, {"fa3", "subtract-first"}}};

std::vector<report_finding> large_scores() {
  std::vector<double> row(64, 133120);
  const attention_problem p = problem_of({.q = {row}, .k = {row}, .v = {row}, .softmax_scale = 0.125});
  report_finding argument{"argument of the exponential of the only key", "0", {}}, output{"O, V = 133120", "133120", {}};
  for (auto const& [schedule, fix] : fused_and_not) {
    const attention_schedule s = kernel(schedule, fix);
    const f32_code x = winner_of(s, p).argument;
    argument.results.push_back(stated(kernel_name(schedule, fix), x, x.is_zero() ? accuracy::exact : accuracy::wrong));
    output.results.push_back(judged(kernel_name(schedule, fix), forward_of(s, p).o[0], exact_output(s, p).o[0]));
  }
  return {output, argument};
}

std::vector<report_finding> saturated_rows() {
  const attention_problem p = problem_of({.q = {{160}}, .k = {{128}}, .v = {{1}}, .softmax_scale = 0.08838834764831845, .head_dim = 128});
  report_finding f{"P of the maximum", "1", {}};
  for (auto const& [schedule, fix] : fused_and_not) f.results.push_back(judged(kernel_name(schedule, fix), winner_of(kernel(schedule, fix), p).weight, one));
  return {f};
}

/// The weight of a key whose score is stored in format F before lse is subtracted.
template <format F>
f32_code stored_weight(f32_code s) {
  return weight_of(convert<format::f32>(convert<F>(s)), s);
}

std::vector<report_finding> half_scores() {
  const auto weights = [](std::string_view score) {
    const f32_code s = parse_f32(score);
    return std::vector{judged("score kept in FP16", stored_weight<format::f16>(s), one), judged("score kept in FP32", stored_weight<format::f32>(s), one)};
  };
  return {{"P of a row with one key, score = lse = -490.0625", "1", weights("-490.0625")},
          {"the largest that FP16 makes of it: score = lse = -490.125", "1", weights("-490.125")}};
}

std::vector<report_finding> clamped_maximum() {
  const f32_code score = parse_f32("-60000"), start = parse_f32("-50000");
  const attention_problem p = problem_of({.q = {{1, 1, 1}}, .k = {score_parts(-60000)}, .v = {{1}}});
  const attention_schedule fa3 = kernel("fa3");
  return {{"P of the only key",
           "1",
           {judged("running maximum that begins at -50000", weight_of(score, max(score, start, subnormals::kept)), one),
            judged("fa3, which begins at -infinity", winner_of(fa3, p).weight, one),
            judged(kernel_name("fa3", "subtract-first"), winner_of(kernel("fa3", "subtract-first"), p).weight, one)}},
          {"O, V = 1", "1", {judged("fa3", forward_of(fa3, p).o[0], exact_output(fa3, p).o[0])}}};
}

std::vector<report_finding> coarse_lse() {
  const f32_code s = parse_f32("5.02"), lse = s;
  const attention_problem p = problem_of({.q = {{1, 1, 1}}, .k = {score_parts(to_double(s))}, .v = {{1}}, .d_o = {{1}}});
  f32_code in_backward;
  static_cast<void>(backward_of(kernel("fa3"), p, [&](score_block_row const& row) {
    if (row.row == 0) in_backward = row.p[0];
  }));
  return {{"P of a row with one key, score 5.02, in the backward pass",
           "1",
           {judged("lse kept in BF16", weight_of(s, widen(convert<format::bf16>(lse))), one), judged("fa3, lse kept in FP32", in_backward, one)}}};
}

constexpr std::array<std::string_view, 1> huge{"https://github.com/pytorch/pytorch/issues/121558"};
constexpr std::array<std::string_view, 1> saturated{"https://github.com/gabrieldemarmiesse/torch-mojo-backend/pull/398"};
constexpr std::array<std::string_view, 1> blackwell{"https://github.com/NVIDIA/cudnn-frontend/issues/744"};
constexpr std::array<std::string_view, 1> zeros{"https://github.com/flashinfer-ai/flashinfer/issues/4267"};
constexpr std::array<std::string_view, 1> spikes{"https://github.com/tenstorrent/tt-metal/pull/41683"};

constexpr std::array reports{
    public_report{.number = 6,
                  .id = "pytorch-121558-133120",
                  .addresses = huge,
                  .symptom = "NaN from scaled dot product attention where q, k and v are all 133120 in BF16",
                  .input = "one query and one key, d = 64, every element 133120",
                  .cause =
                      "The exponent is one fused multiply-add, fma(S, L, -rn(m L)): for the maximum itself it leaves the rounding error of m L, here thousands, and the "
                      "weight is infinite. "
                      "Subtracting the maximum first leaves exactly 0.",
                  .caveat = {},
                  .compute = large_scores},
    public_report{
        .number = 7,
        .id = "mojo-398-saturated",
        .addresses = saturated,
        .symptom = "rows with one dominant key are off: the weight of the maximum is not 1",
        .input = "one query and one key, d = 128, raw score 20480",
        .cause = "As in report 6, with scores of thousands: the fused exponent of the maximum is the rounding error of m L, not 0. Random inputs of unit variance never "
                 "show it.",
        .caveat = {},
        .compute = saturated_rows},
    public_report{.number = 8,
                  .id = "cudnn-744-fp16-scores",
                  .addresses = blackwell,
                  .symptom = "dK and dQ off by 7 %, 13 % at most, in rows with scores near -500 (SM100)",
                  .input = "one key whose score and lse are -490.0625",
                  .cause = "FP16 numbers near 490 are 0.25 apart, so a score kept in FP16 moves by up to 0.125 and its weight by up to exp(0.125). "
                           "The two percentages of the report are what this spacing predicts.",
                  .caveat = "That the kernel keeps its scores in FP16 is inferred from the two percentages.",
                  .compute = half_scores},
    public_report{.number = 10,
                  .id = "flashinfer-4267-zeros",
                  .addresses = zeros,
                  .symptom = "rows whose scores are all below -50000 silently become zeros",
                  .input = "one key, score -60000",
                  .cause =
                      "The running maximum begins at a finite number that is larger than every score, so the weight of the best key is exp(-10000) = 0. A maximum that "
                      "begins at -infinity has no such floor.",
                  .caveat = "That P of FlashAttention-3 is not exactly 1 either is report 7.",
                  .compute = clamped_maximum},
    public_report{.number = 12,
                  .id = "tt-metal-41683-lse-bf16",
                  .addresses = spikes,
                  .symptom = "loss spikes where the maximum and 1/sum are kept in BF16 for the backward pass",
                  .input = "one key, score 5.02",
                  .cause =
                      "The backward pass makes P again from the stored statistics: an lse rounded to BF16 is off by up to 1/64 near 5, and every P of the row by that "
                      "factor. In FP32 it is an ulp.",
                  .caveat = {},
                  .compute = coarse_lse},
};

}  // namespace

std::span<public_report const> attention_weight_reports() noexcept { return reports; }

}  // namespace stickybit::detail
