// Accounts of inputs whose results are known from publications and public reports, or from the hardware: what they say is right to the bit.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "stickybit/bias/output_bias.hpp"
#include "stickybit/explain/attention_teller.hpp"
#include "stickybit/explain/call_difference.hpp"
#include "stickybit/explain/operations.hpp"
#include "stickybit/fix/fix.hpp"
#include "stickybit/format/text.hpp"
#include "stickybit/format/value.hpp"
#include "stickybit/machine/machine.hpp"
#include "support/catch.hpp"
#include "support/recorded.hpp"

using namespace stickybit;
using Catch::Matchers::Contains;

namespace {

struct told_row {
  attention_schedule schedule;
  attention_problem problem;
  account steps;
  /// On one line.
  [[nodiscard]] std::string words(detail_level level = detail_level::screen) const {
    std::string text = tell({schedule, problem, "o", {}, steps}, level);
    std::ranges::replace(text, '\n', ' ');
    return text;
  }
  [[nodiscard]] double value() const { return steps.value_of(steps.size() - 1); }
  [[nodiscard]] double exact() const { return steps[steps.size() - 1].exact.hi; }
};

/// O of one row; s = ln 2, so that L = 1 and a score is the logarithm of its weight.
told_row row_of(std::string const& schedule, std::vector<float> const& scores, std::vector<const char*> const& values, double scale = 0.6931471805599453) {
  std::vector<f32_code> s;
  std::vector<bf16_code> v;
  for (float x : scores) s.push_back(code_of(x));
  for (const char* x : values) v.push_back(parse_bf16(x));
  const attention_schedule of = schedule_from(schedule);
  attention_problem problem = one_row_problem(s, v, scale);
  account steps = account_of_softmax(of, problem, s, "o");
  CHECK_FALSE(replay(steps).has_value());
  return {of, std::move(problem), std::move(steps)};
}

double share_of(std::vector<error_group> const& groups, std::string_view symbol) {
  for (error_group const& g : groups)
    if (g.symbol == symbol) return g.sum;
  return 0;
}

}  // namespace

TEST_CASE("golden account: where O is rounded decides the sign of its error (two rounding orders)", "[explain][golden]") {
  // Ties -2.40625 and -2.296875, third weight 2^-10 with V = -0.88671875. @source our arithmetic: exactly -2.350848...
  const std::vector<float> scores{0, 0, -10};
  const std::vector<const char*> values{"-2.40625", "-2.296875", "-0.88671875"};
  const told_row paper = row_of("paper-v2", scores, values), kernel = row_of("fa3", scores, values);
  CHECK(paper.value() == -2.359375);
  CHECK(kernel.value() == -2.34375);
  CHECK(paper.exact() == Approx(-2.350848).epsilon(1e-6));
  CHECK(paper.value() - paper.exact() == Approx(-0.00853).epsilon(1e-2));
  CHECK(kernel.value() - kernel.exact() == Approx(0.00710).epsilon(1e-2));
  CHECK_THAT(kernel.words(), Contains("2 weights are exactly 1"));
  CHECK_THAT(kernel.words(), Contains("the cast of O to BF16"));
}

TEST_CASE("golden account: V = 1 does not give 1, because the numerator casts what the denominator does not", "[explain][golden]") {
  // p = 1 and 100 times 0.50195217, which BF16 rounds to 0.5.  @source flash-attention pull request 2721
  std::vector<float> scores(101, std::log2(0.50195217f));
  scores[0] = 0;
  const std::vector<const char*> ones(101, "1");
  const told_row off = row_of("fa3", scores, ones), fixed = row_of("fa3+two-row-sums", scores, ones);
  CHECK(off.value() == 0.99609375);
  CHECK(std::fabs(off.exact() - 1) < 1e-25);
  CHECK(fixed.value() == 1);
  const std::vector<error_group> groups = group_shares(off.steps, share_error(off.steps));
  CHECK(groups.front().symbol == "P");  // not the cast of O
  CHECK(groups.front().steps == 100);   // p = 1 casts exactly
}

TEST_CASE("golden account: NaN at q = k = 133120", "[explain][golden]") {
  // S = 64 · 133120² and its product with L differ by 7916 when one of them is fused.  @source pytorch issue 121558
  const float score = 64.0f * 133120.0f * 133120.0f;
  const told_row off = row_of("fa3", {score}, {"1.5"}, 0.125), fixed = row_of("fa3+subtract-first", {score}, {"1.5"}, 0.125);
  CHECK(std::isnan(off.value()));
  CHECK(off.exact() == 1.5);
  CHECK(std::fabs(off.steps.value_of(*off.steps.find({"x", 0})) - 7916) < 1);
  CHECK(std::isinf(off.steps.value_of(*off.steps.find({"p", 0}))));
  CHECK_THAT(off.words(detail_level::paragraph), Contains("The first step that is not finite is p[0]: inf."));
  CHECK(fixed.value() == 1.5);
  CHECK(fixed.steps.value_of(*fixed.steps.find({"x", 0})) == 0);
}

TEST_CASE("golden account: an FP8 accumulator of 13 bits", "[explain][golden]") {
  // 1 + 2^-13 + 2^-14 keeps 13 fraction bits; 32 times 2^-14 one by one never arrives.  @source DeepGEMM issue 37 and others
  machine_unit const& unit = unit_named("sm90.wgmma.e4m3.f32");
  const auto dot = [&](std::vector<const char*> const& a, std::vector<const char*> const& b, float c) {
    std::vector<e4m3fn_code> x, y;
    for (const char* t : a) x.push_back(parse<format::e4m3fn>(t));
    for (const char* t : b) y.push_back(parse<format::e4m3fn>(t));
    return account_of_dot<format::e4m3fn>(unit, std::span<e4m3fn_code const>(x), std::span<e4m3fn_code const>(y), code_of(c));
  };
  const account cut = dot({"0"}, {"0"}, 1 + 0x1p-13f + 0x1p-14f);
  CHECK(cut.value_of(cut.size() - 1) == 1 + 0x1p-13);
  CHECK_FALSE(replay(cut).has_value());
  CHECK_THAT(tell(cut, detail_level::everything), Contains("quantum 2^-13: the sum is 8193 quanta"));
  // A product of 2^-14 leads each of 32 blocks of 32.
  std::vector<const char*> a(32 * 32, "0"), b(32 * 32, "0");
  for (std::size_t block = 0; block < 32; ++block) a[32 * block] = b[32 * block] = "0x1p-7";
  const account sum = dot(a, b, 1);
  CHECK(sum.value_of(sum.size() - 1) == 1);
  CHECK(sum[sum.size() - 1].exact.hi == 1.001953125);
}

TEST_CASE("golden account: one cast of dS gives a row a mass of 2^-12, and dQ 557% of error", "[explain][golden]") {
  // P = 1/2, 3/8, 1/8; dP = 1/32, -7/32, 13/64; K = 64.5, 64, 63.5.  @source our arithmetic
  account a(*sm90().special_functions);
  const double p[]{0.5, 0.375, 0.125}, dp[]{1.0 / 32, -7.0 / 32, 13.0 / 64}, delta = -21.0 / 512;
  const float k[]{64.5f, 64, 63.5f};
  std::vector<account_operand> block;
  for (int j = 0; j < 3; ++j) {
    const auto in = [&](const char* symbol, double x) { return a.input(format::f32, code_of(float(x)).to_bits(), {x, 0}, {symbol, j}); };
    const std::array<account_operand, 2> difference{{{in("dP", dp[j]), 0, false}, {in("delta", delta), 0, true}}};
    const std::int32_t d = a.record({.op = operation::add}, difference);
    const std::array<account_operand, 2> product{{{in("p", p[j]), 0, false}, {d, 0, false}}};
    const std::int32_t ds = a.record({.op = operation::multiply}, product);
    a.name(ds, {"dS", j});
    const std::array<account_operand, 1> only{{{ds, 0, false}}};
    const std::int32_t cast = a.record({.op = operation::cast, .result = format::bf16}, only);
    a.name(cast, {"dS^", j});
    block.push_back({cast, 0, false});
    block.push_back({account_operand::literal, std::uint32_t(convert<format::bf16>(code_of(k[j])).to_bits()), false});
  }
  block.resize(2 * 16);
  block.push_back({});
  const std::int32_t dq = a.record({.op = operation::block_fma, .unit = &unit_named("sm90.wgmma.bf16.f32")}, block);
  a.name(dq, {"dQ"});
  CHECK(a.value_of(std::size_t(dq)) == 75.5 / 4096);
  CHECK(a[std::size_t(dq)].exact.hi == 11.5 / 4096);
  double mass = 0;
  for (int j = 0; j < 3; ++j) mass += a.value_of(*a.find({"dS^", j}));
  CHECK(mass == 0x1p-12);
  const std::vector<error_group> groups = group_shares(a, share_error(a));
  REQUIRE(groups.size() == 1);
  CHECK(groups[0].symbol == "dS^");
  CHECK(groups[0].sum * a.ulp_of(std::size_t(dq)) == Approx(64.0 / 4096));
}

TEST_CASE("golden account: the first step at which fa2 and fa2-torch part, and fa3 and cudnn", "[explain][golden]") {
  const tensor_file file = golden("ties_s384_d64_c0.safetensors");
  const attention_problem p = read_problem(file);
  const auto side = [&](const char* name) { return make_side(name, file, p, false); };
  const call_side fa2 = side("fa2"), torch = side("fa2-torch"), fa3 = side("fa3"), cudnn = side("cudnn"), captured = side("capture:fa3"), other = side("capture:cudnn");
  const call_difference d = compare_sides(fa2, torch);
  REQUIRE(d.earliest == "lse");
  const element_place at = place_of(p, "lse", d.tensors[0].first);
  std::string words = tell_difference(fa2, torch, p, "lse", at);
  std::ranges::replace(words, '\n', ' ');
  CHECK_THAT(words, Contains("fa2 fuses the multiplication into the addition") && Contains("fa2-torch rounds the product S[12]"));
  CHECK(compare_sides(fa3, captured).earliest.empty());
  const call_difference e = compare_sides(fa3, cudnn);
  REQUIRE_FALSE(e.earliest.empty());
  CHECK_THAT(tell_difference(fa3, cudnn, p, e.earliest, place_of(p, e.earliest, e.tensors[0].first)), Contains("blocks of"));
  const call_difference f = compare_sides(fa3, other);
  CHECK(f.tensors[0].mismatches == e.tensors[0].mismatches);  // cuDNN's emulation is its capture
  CHECK_THAT(tell_difference(fa3, other, p, "lse", place_of(p, "lse", f.tensors[0].first)), Contains("capture:cudnn has"));
}

TEST_CASE("golden account: the third cause: two sums of the same products disagree on a one-hot row", "[explain][golden]") {
  const auto files = captures("h200");
  for (auto const& path : files) {
    if (path.filename() != "late_s384_d128_c0.safetensors") continue;
    const attention_problem p = read_problem(tensor_file::load(path));
    const attention_schedule fa3 = attention_schedule_named("fa3"), same_chain = with_fixes(fa3, "delta-mma");
    const forward_result f = attention_forward(fa3, p);
    const element_place at{0, 0, 7, 3};
    const account a = account_of(fa3, p, "dq", at, f), b = account_of(same_chain, p, "dq", at, f);
    // O is its V but for the last bits, so delta is dP of the winner; the tensor core truncates, the FP32 lanes round.
    const std::vector<error_group> groups = group_shares(a, share_error(a));
    const double total = a.error_in_ulp(a.size() - 1);
    CHECK(total > 1e5);
    CHECK(std::fabs(share_of(groups, "O")) < 1e-3 * total);
    CHECK(std::fabs(share_of(groups, "dS^")) < 1e-3 * total);
    CHECK(share_of(groups, "dP") > 0.5 * total);
    CHECK(share_of(groups, "dP") + share_of(groups, "delta") > 0.99 * total);
    CHECK(std::fabs(b.error_in_ulp(b.size() - 1)) < 1e-3 * total);
    std::string words = tell({fa3, p, "dq", at, a}, detail_level::paragraph);
    std::ranges::replace(words, '\n', ' ');
    CHECK_THAT(words, Contains("Key 35 has all the weight, so its dP and delta are nearly one number, summed in two ways: their difference is 7.451e-09, exactly -3.2"));
    CHECK_THAT(words, Contains("dO·V on the tensor core"));
  }
}
