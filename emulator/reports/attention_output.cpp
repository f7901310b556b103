// Reports about O: what the rounding of O, of its sum and of the weights makes of it.
#include <array>

#include "account.hpp"
#include "sections.hpp"
#include "stickybit/exact/round_to.hpp"
#include "stickybit/format/text.hpp"
#include "stickybit/format/value.hpp"
#include "stickybit/rounding/arithmetic.hpp"
#include "tiny_attention.hpp"

namespace stickybit::detail {
namespace {

constexpr double left_over = -0x1.c5cp-11;  // -0.00086545944213867..., what is left of small terms

/// Two keys whose scores tie at the maximum and a third that weighs 2^-10: the values of the published bit example.
tiny_call tied_pair() { return {.q = {{1}}, .k = {{0}, {0}, {-10}}, .v = {{-2.40625}, {-2.296875}, {-0.88671875}}, .d_o = {{-1}}, .softmax_scale = scale_of_powers}; }

/// What a row's cast adds up: p1 v1 + p2 v2 + rest.
struct weighted_pair {
  double p1, p2, rest;
};

/// Mean over all 128 x 128 pairs of significands of the error of BF16(p1 v1 + p2 v2 + rest), in ulp; v1 and v2 in (-2, -1].
double mean_cast_error(weighted_pair w) {
  double_double sum{0, 0};
  for (int i = 0; i < 128; ++i)
    for (int j = 0; j < 128; ++j) {
      const double x = -(w.p1 * (1 + i / 128.0) + w.p2 * (1 + j / 128.0)) + w.rest;  // exact: at most 40 bits
      sum = sum + (to_double(round_to<format::bf16>({x, 0})) - x) / ulp_at<format::bf16>(x);
    }
  return to_double(sum) / 16384;
}

report_finding mean_errors(std::string quantity, std::vector<std::pair<std::string, weighted_pair>> const& cases) {
  report_finding f{std::move(quantity), "0 ulp", {}};
  for (auto const& [who, weights] : cases) f.results.push_back(measured(who, mean_cast_error(weights), 0, 0.01, "ulp"));
  return f;
}

/// The BF16 weight of two keys that tie at a score of 5, after a fix.
double tied_weight(const char* fix) {
  const attention_problem p = problem_of({.q = {{1}}, .k = {{5}, {5}}, .v = {{1}, {1}}});
  return to_double(convert<format::bf16>(trace_forward_row(kernel("paper-v2", fix), p, 0, 0, 0).weights.at(0).weight));
}

std::vector<report_finding> sticky_bit() {
  const f32_code first = parse_f32("-2.40625"), rest = code_of(float(left_over)), second = parse_f32("-2.296875");
  const auto sum = [&](bool with_rest) { return add(with_rest ? add(first, rest, subnormals::kept) : first, second, subnormals::kept); };
  const double_double exact = double_double{-2.40625, 0} + left_over + -2.296875, tie{-4.703125, 0};
  const double tied = tied_weight("none"), moved = tied_weight("beta:beta=2");
  return {{"-2.40625 - 0.000865459 - 2.296875",
           text_of(exact),
           {judged("the FP32 sum, cast to BF16", convert<format::bf16>(sum(true)), exact), judged("the FP32 sum", sum(true), exact)}},
          {"the same without the small term: an exact tie", text_of(tie), {judged("the FP32 sum, cast to BF16", convert<format::bf16>(sum(false)), tie)}},
          mean_errors("mean error of that cast over all pairs of significands of one sign", {{"nothing left over", {tied, tied, 0}},
                                                                                             {"a small term of the same sign", {tied, tied, -0x1p-20}},
                                                                                             {"a small term of the other sign", {tied, tied, 0x1p-20}},
                                                                                             {"of the same sign, --fix beta:beta=2", {moved, moved, -0x1p-20 * moved}}})};
}

std::vector<report_finding> biased_weights() {
  return {mean_errors(
      "mean error of BF16(p v1 + v2 - 2^-20) over all pairs of significands, v1 and v2 below 0",
      {{"p = 1", {1, 1, -0x1p-20}}, {"p = 255/256", {0.99609375, 1, -0x1p-20}}, {"p = 254/256", {0.9921875, 1, -0x1p-20}}, {"p = 3/4", {0.75, 1, -0x1p-20}}})};
}

report_finding outputs(std::string quantity, tiny_call const& call, std::initializer_list<std::pair<const char*, const char*>> kernels) {
  const attention_problem problem = problem_of(call);
  report_finding f{std::move(quantity), {}, {}};
  for (auto const& [schedule, fix] : kernels) {
    const attention_schedule s = kernel(schedule, fix);
    const double_double exact = exact_output(s, problem).o[0];
    f.right = text_of(exact);
    f.results.push_back(judged(kernel_name(schedule, fix), forward_of(s, problem).o[0], exact));
  }
  return f;
}

std::vector<report_finding> two_rounding_points() { return {outputs("O of one row", tied_pair(), {{"paper-v2", "none"}, {"fa3", "none"}, {"eager-bf16", "none"}})}; }

std::vector<report_finding> delta_of_rounded_output() {
  const attention_problem problem = problem_of(tied_pair());
  report_finding f{"delta = rowsum(dO o O), dO = -1", {}, {}};
  for (auto const& [schedule, fix] : {std::pair{"paper-v2", "none"}, {"fa3", "none"}, {"fa3", "delta-fp32"}}) {
    const attention_schedule s = kernel(schedule, fix);
    const double_double exact = exact_gradient(s, problem).delta[0];
    f.right = text_of(exact);
    f.results.push_back(judged(kernel_name(schedule, fix), backward_of(s, problem).delta[0], exact));
  }
  return {f};
}

/// One key of weight 1 and a hundred just below the middle of two numbers of BF16.
std::vector<report_finding> ones_do_not_return() {
  tiny_call call{.q = {{1, 1, 1}}, .k = {{}}, .v = {{1}}, .softmax_scale = scale_of_powers};
  const std::vector<double> score = score_parts(-0.99437820);  // 2^this = 0.50195217
  call.k.insert(call.k.end(), 100, score);
  call.v.insert(call.v.end(), 100, {1});
  return {outputs("O with V = 1, weights 1 and 100 x 0.50195217", call, {{"fa3", "none"}, {"fa2-torch", "none"}, {"fa3", "two-row-sums"}})};
}

constexpr std::array<std::string_view, 3> nanogpt{"https://github.com/karpathy/nanoGPT/issues/524", "https://github.com/karpathy/nanoGPT/issues/554",
                                                  "https://github.com/karpathy/nanoGPT/issues/303"};
constexpr std::array<std::string_view, 1> alibi{"https://github.com/Dao-AILab/flash-attention/issues/337"};
constexpr std::array<std::string_view, 1> worse_than_sdpa{"https://github.com/Dao-AILab/flash-attention/issues/2151"};
constexpr std::array<std::string_view, 1> v_is_one{"https://github.com/Dao-AILab/flash-attention/pull/2721"};
constexpr std::array<std::string_view, 2> fa3_against_fa2{"https://github.com/Dao-AILab/flash-attention/issues/1138",
                                                          "https://github.com/Dao-AILab/flash-attention/issues/434"};

constexpr std::array reports{
    public_report{
        .number = 1,
        .id = "nanogpt-explodes",
        .addresses = nanogpt,
        .symptom = "BF16 training with flash attention explodes after 6k to 100k steps",
        .input = "two terms whose BF16 sum is an exact tie, and a small third term",
        .cause = "Two weights of exactly 1 make P V a sum of BF16 numbers that often ties in BF16; any left-over of smaller terms decides the tie, always toward its "
                 "own sign. "
                 "Where V has one sign the cast of O is biased by a quarter of an ulp, delta takes the bias over, and it adds up over steps. "
                 "The published fix moves such weights to one with more bits, whose products seldom tie.",
        .caveat = {},
        .compute = sticky_bit},
    public_report{
        .number = 2,
        .id = "alibi-loss",
        .addresses = alibi,
        .symptom = "the loss rises from 2 to 7 with a BF16 flash kernel and ALiBi, not without it",
        .input = "three keys, two of them tied at the maximum; V = -2.40625, -2.296875, -0.88671875",
        .cause = "delta is formed from the O that was rounded to BF16, so it carries O's error times dO. Where O's error has one sign, so has delta's, in every row.",
        .caveat = "The reporters' root cause is not confirmed: the example shows an effect of this kind.",
        .compute = delta_of_rounded_output},
    public_report{.number = 3,
                  .id = "fa-2151-worse-than-eager",
                  .addresses = worse_than_sdpa,
                  .symptom = "flash attention in BF16 converges worse than PyTorch's SDPA and eager attention",
                  .input = "the cast of p v1 + v2 + rest to BF16 for a weight p near 1, over all significands",
                  .cause =
                      "For a weight of a few bits, p v1 + v2 lies on a coarse grid on which ties and near ties are common, so the errors of its cast need not cancel. "
                      "The bias is largest at p = 1, changes with the last bits of p, and is gone at others.",
                  .caveat = "The reporters' root cause is not confirmed: the example shows an effect of this kind.",
                  .compute = biased_weights},
    public_report{.number = 5,
                  .id = "fa-2721-v-is-one",
                  .addresses = v_is_one,
                  .symptom = "with V = 1 flash attention does not return 1",
                  .input = "101 keys, V = 1, weights 1 and 100 times 0.50195217",
                  .cause = "The numerator adds the weights after their cast to BF16, where 0.50195217 is 0.5; the denominator adds them in FP32. "
                           "Dividing by the sum of the BF16 weights (two row sums: FP32 for lse, BF16 for O) gives 1.",
                  .caveat = {},
                  .compute = ones_do_not_return},
    public_report{.number = 21,
                  .id = "fa-1138-fa3-against-fa2",
                  .addresses = fa3_against_fa2,
                  .symptom = "is FlashAttention-3 less accurate than FlashAttention-2? it does not match eager attention",
                  .input = "three keys, two of them tied at the maximum; V = -2.40625, -2.296875, -0.88671875",
                  .cause = "One computation rounds the unnormalised O to BF16 and then divides, another divides in FP32 and rounds once. "
                           "Both results are numbers next to the exact one, an ulp apart, and a comparison of the two cannot say which kernel is right.",
                  .caveat = {},
                  .compute = two_rounding_points},
};

}  // namespace

std::span<public_report const> attention_output_reports() noexcept { return reports; }

}  // namespace stickybit::detail
