// Reports about gradients: the rounding of dP and dS, the row mass that it leaves, and the order of dQ's parts.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "account.hpp"
#include "sections.hpp"
#include "stickybit/attention/dq_orders.hpp"
#include "stickybit/block_fma/block_fma.hpp"
#include "stickybit/exact/round_to.hpp"
#include "stickybit/format/text.hpp"
#include "stickybit/format/value.hpp"
#include "stickybit/machine/machine.hpp"
#include "stickybit/rounding/arithmetic.hpp"
#include "stickybit/study/random.hpp"
#include "tiny_attention.hpp"

namespace stickybit::detail {
namespace {

f32_code f32_of(double x) { return round_to<format::f32>({x, 0}); }

/// Weights 1/4, 1/2, 1/4 and dP = 1 + 2^-8, 1 - 2^-9, 1: delta is 1. The second column of K holds the first key alone, so dQ there is its dS.
std::vector<report_finding> rounded_dp() {
  const f32_code dp = f32_of(1 + 0x1p-8), delta = f32_of(1);
  const auto less_delta = [&](f32_code x) { return sub(x, delta, subnormals::kept); };
  const double_double exact{0x1p-8, 0};
  report_finding difference{"dP - delta, dP = 1.00390625, delta = 1",
                            text_of(exact),
                            {judged("dP in BF16", less_delta(widen(convert<format::bf16>(dp))), exact), judged("dP in FP32", less_delta(dp), exact)}};
  const attention_problem p =
      problem_of({.q = {{1}}, .k = {{0, 1}, {1, 0}, {0, 0}}, .v = {{1, 1}, {1, -0.5}, {1, 0}}, .d_o = {{1, 0x1p-8}}, .softmax_scale = scale_of_powers});
  report_finding dq{"dQ of three keys with such dP", {}, {}};
  for (const char* schedule : {"eager-bf16", "fa3"}) {
    const attention_schedule s = kernel(schedule);
    const double_double value = exact_gradient(s, p).dq[1];
    dq.right = text_of(value);
    dq.results.push_back(judged(schedule, backward_of(s, p).dq[1], value));
  }
  return {difference, dq};
}

/// The three-key example of the row mass, from P and dP on, with the products of a tensor core.
std::vector<report_finding> row_mass() {
  constexpr std::array p{0.5, 0.375, 0.125}, dp{1 / 32.0, -7 / 32.0, 13 / 64.0}, k{64.5, 64.0, 63.5};
  const subnormals kept = subnormals::kept;
  std::array<bf16_code, 3> ds, keys, smooth_keys, weights;
  double delta = 0, exact = 0, mean = 0;
  for (std::size_t j = 0; j < 3; ++j) delta += p[j] * dp[j];  // exact in double, like all here
  for (std::size_t j = 0; j < 3; ++j) {
    exact += p[j] * (dp[j] - delta) * k[j];
    mean += k[j] / 3;
  }
  f32_code mass = f32_code::zero();
  for (std::size_t j = 0; j < 3; ++j) {
    ds[j] = convert<format::bf16>(mul(f32_of(p[j]), sub(f32_of(dp[j]), f32_of(delta), kept), kept));
    keys[j] = convert<format::bf16>(f32_of(k[j]));
    smooth_keys[j] = convert<format::bf16>(sub(f32_of(k[j]), f32_of(mean), kept));
    weights[j] = convert<format::bf16>(f32_of(p[j]));
    mass = add(mass, widen(ds[j]), kept);
  }
  const auto dot = [](std::array<bf16_code, 3> const& a, std::array<bf16_code, 3> const& b) {
    return inner_product<format::bf16>(unit_named("sm90.wgmma.bf16.f32"), std::span<bf16_code const>(a), std::span<bf16_code const>(b), f32_code::zero());
  };
  const f32_code projected = fma(mass.negated(), dot(weights, keys), dot(ds, keys), kept);
  const f32_code uniform = fma(mass.negated(), f32_of(mean), dot(ds, keys), kept);
  return {{"dQ, without the scale",
           text_of(exact),
           {judged("BF16 dS times K", dot(ds, keys), {exact, 0}), judged("BF16 dS times K less its mean (k-smooth)", dot(ds, smooth_keys), {exact, 0}),
            judged("less the row mass times the mean key (gproj, uniform)", uniform, {exact, 0}), judged("less the row mass times P K (gproj)", projected, {exact, 0})}},
          {"row sum of dS", "0", {judged("dS in BF16", mass, {0, 0})}}};
}

/// 64 queries and keys of d = 64, keys shifted by `mean` standard deviations; seeded.
attention_problem shifted_keys(double mean) {
  study_random random(2026);
  const auto rows = [&](double shift) {
    std::vector<std::vector<double>> m(64, std::vector<double>(64));
    for (auto& row : m)
      for (double& x : row) x = to_double(round_to<format::bf16>({shift + random.normal(), 0}));
    return m;
  };
  return problem_of({.q = rows(0), .k = rows(mean), .v = rows(0), .d_o = rows(0), .softmax_scale = 0.125});
}

double median_row_error(std::vector<bf16_code> const& dq, std::vector<double_double> const& exact) {
  std::vector<double> errors;
  for (std::size_t i = 0; i < 64; ++i) {
    double error = 0, norm = 0;
    for (std::size_t c = 64 * i; c < 64 * (i + 1); ++c) {
      const double difference = to_double(dq[c]) - exact[c].hi;
      error += difference * difference;
      norm += exact[c].hi * exact[c].hi;
    }
    errors.push_back(std::sqrt(error / norm));
  }
  std::sort(errors.begin(), errors.end());
  return (errors[31] + errors[32]) / 2;
}

std::vector<report_finding> random_inputs() {
  std::vector<report_finding> findings;
  for (int mean : {300, 0}) {
    const attention_problem p = shifted_keys(mean);
    report_finding f{fmt::format("median relative error of a row of dQ, mean key {} standard deviations", mean), "0 %", {}};
    const std::vector<double_double> exact = exact_gradient(kernel("fa3"), p).dq;
    for (const char* fix : {"none", "delta-fp32", "k-smooth", "gproj"})
      f.results.push_back(measured(kernel_name("fa3", fix), 100 * median_row_error(backward_of(kernel("fa3", fix), p).dq, exact), 0, 1, "%"));
    findings.push_back(f);
  }
  return findings;
}

std::vector<report_finding> order_of_parts() {
  const std::array parts{f32_of(1), f32_of(0x1p-24), f32_of(0x1p-24)};
  const double_double exact{1 + 0x1p-23, 0};
  report_finding f{"the sum of 1, 2^-24 and 2^-24 in every order", text_of(exact), {}};
  for (f32_code sum : reachable_sums(parts, subnormals::kept, engine::definition)) f.results.push_back(judged("some order of atomic additions", sum, exact));
  return {f};
}

constexpr std::array<std::string_view, 1> pythia{"https://github.com/Dao-AILab/flash-attention/issues/1046"};
constexpr std::array<std::string_view, 1> spacetime{"https://github.com/sevmag/graphnet/tree/transformers-flash"};
constexpr std::array<std::string_view, 2> runs{"https://github.com/Dao-AILab/flash-attention/issues/414", "https://github.com/Dao-AILab/flash-attention/issues/2244"};
constexpr std::array<std::string_view, 1> fa4{"https://github.com/NVIDIA/TransformerEngine/issues/3216"};

constexpr std::array reports{
    public_report{.number = 4,
                  .id = "fa-1046-pythia",
                  .addresses = pythia,
                  .symptom = "huge gradients on a 14 M parameter model with FlashAttention-2 and BF16",
                  .input = "dP = 1.00390625 beside delta = 1; three keys whose dP lie that close",
                  .cause =
                      "dS = P (dP - delta) subtracts two numbers that nearly agree: what BF16 has cut off dP is all that was left. A kernel that keeps dP in FP32 loses "
                      "nothing here.",
                  .caveat = "The reporters' root cause is not confirmed: the example shows an effect of this kind.",
                  .compute = rounded_dp},
    public_report{
        .number = 14,
        .id = "flash-spacetime-row-mass",
        .addresses = spacetime,
        .symptom = "every parity test is green, yet training collapses after some epochs",
        .input = "P = 1/2, 3/8, 1/8; dP = 1/32, -7/32, 13/64; K = 64.5, 64, 63.5",
        .cause = "The exact dS of a row sum to zero; rounded to BF16 they leave a small mass, which the product with K turns into a component along the common part of "
                 "the keys. "
                 "It dwarfs the true dQ where keys have a large mean, and it has one direction, so random targets hide it and training does not.",
        .caveat = {},
        .compute = row_mass},
    public_report{
        .number = 19,
        .id = "fa-414-order",
        .addresses = runs,
        .symptom = "dQ differs from run to run, for some even in deterministic mode",
        .input = "three parts of one element of dQ: 1, 2^-24, 2^-24",
        .cause = "The parts of dQ from different blocks of keys are added atomically, in the order in which the blocks finish, and FP32 addition is not associative.",
        .caveat = "Why a deterministic mode would differ is not shown.",
        .compute = order_of_parts},
    public_report{
        .number = 20,
        .id = "te-3216-random-inputs",
        .addresses = fa4,
        .symptom = "dQ of a new kernel is wrong (cosine -0.11), and random inputs do not show it",
        .input = "64 queries and 64 keys of d = 64, seeded; keys whose mean is 0, and 300 standard deviations",
        .cause = "Random keys have no common part, so the row mass of dS, from its own rounding and from that of delta, meets nothing that it could enlarge. Keys with "
                 "a large mean, as trained models have, show it at once.",
        .caveat = "The reporters' root cause is not confirmed: the example shows which inputs a test of dQ needs.",
        .compute = random_inputs},
};

}  // namespace

std::span<public_report const> gradient_reports() noexcept { return reports; }

}  // namespace stickybit::detail
