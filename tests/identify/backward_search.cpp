// The search of backward passes, blind: recorded kernels, and random points of the space from emulated gradients alone.
#include "stickybit/identify/backward_search.hpp"

#include <fmt/format.h>

#include <random>

#include "stickybit/attention/backward.hpp"
#include "support/backward_calls.hpp"
#include "support/catch.hpp"
#include "support/recorded.hpp"

using namespace stickybit;

namespace {

struct recorded_call {
  attention_problem problem;
  forward_result forward;
  captured_gradients gradients;

  recorded_call(tensor_file const& file, std::string const& producer) : problem(read_problem(file)) {
    problem.call_heads = whole_number(file, producer + ".heads", problem.heads);
    const auto codes = [&](const char* name) { return file.require(producer + name, dtype::bf16).elements<bf16_code>(); };
    forward = {codes(".o"), file.require(producer + ".lse", dtype::f32).elements<f32_code>(), {}};
    gradients = {codes(".dq"), codes(".dk"), codes(".dv")};
  }
};

std::string value_of(backward_space const& space, schedule_point const& point, const char* axis) { return space.axes()[space.axis(axis)].values[point[space.axis(axis)]]; }

/// Does the value fit, as the chosen one or as one that the call cannot tell from it?
bool fits(backward_space const& space, backward_search_result const& r, const char* axis, std::string const& value) {
  const std::size_t i = space.axis(axis);
  if (value_of(space, r.point, axis) == value) return true;
  return std::ranges::any_of(r.also_fits[i], [&](std::size_t other) { return space.axes()[i].values[other] == value; });
}

/// The search finds every code, and its answer allows the known rules.
void rediscover(std::filesystem::path const& path, std::string const& producer, std::vector<std::pair<const char*, const char*>> const& known) {
  const recorded_call call(tensor_file::load(path), producer);
  const backward_space space(call.problem);
  const backward_search_result r = search_backward(space, call.problem, call.forward, call.gradients);
  INFO(path.filename().string() << ", " << producer << "\n" << space.describe(r.point));
  std::cout << fmt::format("{}, {}: {} of {:.3g} tried, {} mismatches\n", path.stem().string(), producer, r.schedules_tried, space.size(), mismatches_of(r.fits));
  REQUIRE(mismatches_of(r.fits) == 0);
  CHECK(r.fits[0].total == std::ssize(call.problem.k));
  CHECK(r.fits[2].total == std::ssize(call.problem.q));
  for (auto const& [axis, value] : known) {
    INFO(axis << ": " << value);
    CHECK(fits(space, r, axis, value));
  }
}

std::filesystem::path golden_path(const char* name) { return std::filesystem::path(STICKYBIT_GOLDEN_DIR) / "h200" / (std::string(name) + ".safetensors"); }

using rules = std::vector<std::pair<const char*, const char*>>;
const rules fa3_rules{{"unit", "sm90.wgmma.bf16.f32"},
                      {"P", "EX2(fma(S, L, -rn(lse log2 e))), L = float(double(float(s)) log2 e)"},
                      {"subnormals", "flushed"},
                      {"queries", "ascending"},
                      {"delta", "d/8 lanes of 8 columns, joined by halves"},
                      {"dS", "rn(P rn(dP - delta))"},
                      {"scale", "sums times s"}};
const rules fa2_rules{{"subnormals", "kept"}, {"delta", "8 lanes, 8 columns of every 64, joined by halves"}, {"dS", "rn(P rn(dP - delta))"}, {"scale", "sums times s"}};
const rules cudnn_rules{{"unit", "sm90.wgmma.bf16.f32"},
                        {"P", "EX2(rn(fma(S, s, -lse) log2 e))"},
                        {"queries", "ascending"},
                        {"delta", "the same, two columns added first"},
                        {"dS", "rn(P rn(dP - delta))"},
                        {"scale", "rn(dS s) before its cast"}};
const rules efficient_rules{{"unit", "sm90.mma.bf16k8.f32"},
                            {"P", "expf(rn(rn(S s) - lse))"},
                            {"queries", "ascending"},
                            {"delta", "d/32 lanes, 8 columns of every d/4, joined nearest first"},
                            {"dS", "rn(BF16(P) rn(dP - delta))"},
                            {"scale", "rn(dS s) before its cast"},
                            {"dQ", "one chain"}};

rules with(rules all, const char* dq) {
  all.emplace_back("dQ", dq);
  return all;
}

}  // namespace

TEST_CASE("identify backward: a blind search finds FlashAttention-3's backward pass", "[.long][identify][golden]") {
  rediscover(golden_path("ties_s384_d64_c0"), "fa3", with(fa3_rules, "parts of 128 keys, ascending"));
  rediscover(golden_path("gauss_s64_d128_c1"), "fa3", fa3_rules);
}

TEST_CASE("identify backward: a blind search finds PyTorch's FlashAttention-2", "[.long][identify][golden]") {
  rediscover(golden_path("ties_s384_d64_c0"), "fa2_torch", fa2_rules);
  rules grouped = fa2_rules;
  grouped.emplace_back("grouped heads", "BF16 results added");
  rediscover(golden_path("gauss_b1_q257_k129_h4x2_d64_c0"), "fa2_torch", grouped);
}

TEST_CASE("identify backward: a blind search finds cuDNN and memory-efficient attention", "[.long][identify][golden]") {
  rediscover(golden_path("gauss_b1_q200_k384_h1x1_d64_c0"), "cudnn", with(cudnn_rules, "parts of 128 keys, ascending"));
  rediscover(golden_path("gauss_b1_q200_k384_h1x1_d64_c0"), "efficient", efficient_rules);
  rediscover(golden_path("gauss_b1_q128_k256_h1x1_d128_c0"), "cudnn", cudnn_rules);
  rediscover(golden_path("gauss_b1_q128_k256_h1x1_d128_c0"), "efficient", efficient_rules);
}

TEST_CASE("identify backward: a blind search finds each kernel in its captures", "[.long][identify][captures]") {
  for (auto const& path : captures("h200/gradients_backends")) {
    const tensor_file file = tensor_file::load(path);
    for (auto const& [producer, known] : {std::pair{"cudnn", cudnn_rules}, std::pair{"efficient", efficient_rules}})
      if (whole_number(file, std::string(producer) + ".repeats", 2) == 1) rediscover(path, producer, known);
  }
}

TEST_CASE("identify backward: named schedules are told apart", "[identify][golden]") {
  const recorded_call call(tensor_file::load(golden_path("ties_s384_d64_c0")), "fa3");
  int named = 0;
  for (named_gradient_fit const& fit : fit_named_backward(call.problem, call.forward, call.gradients)) {
    INFO(fit.schedule);
    CHECK((mismatches_of(fit.fits) == 0) == (fit.schedule == "fa3"));
    CHECK(fit.fits[1].total == std::ssize(call.problem.k));
    ++named;
  }
  CHECK(named >= 6);
}

TEST_CASE("identify backward: codes that no schedule gives are counted and the first is named", "[identify]") {
  std::mt19937_64 random(5);
  attention_problem p = call_of(40, 40, 64, true);
  fill_all(p, regime::gauss, random);
  attention_schedule const& fa3 = attention_schedule_named("fa3");
  const forward_result forward = attention_forward(fa3, p);
  const backward_result exact = attention_backward(fa3, p, forward);
  captured_gradients gradients{exact.dq, exact.dk, exact.dv};
  bf16_code& last = gradients.dq.back();
  last = bf16_code::from_bits(std::uint16_t(last.to_bits() ^ 1));
  const backward_space space(p);
  const backward_search_result r = search_backward(space, p, forward, gradients);
  INFO(space.describe(r.point));
  CHECK(r.fits[0].mismatches == 0);
  CHECK(r.fits[1].mismatches == 0);
  CHECK(r.fits[2].mismatches == 1);
  CHECK(r.fits[2].first == fmt::format("dq[39, {}, 63]", p.heads - 1));
  CHECK(r.also_fits.empty());
}

TEST_CASE("identify backward: what is missing is refused", "[identify]") {
  recorded_call call(tensor_file::load(golden_path("gauss_s64_d128_c1")), "fa3");
  call.gradients.dk.pop_back();
  CHECK_THROWS_WITH(search_backward(backward_space(call.problem), call.problem, call.forward, call.gradients), Catch::Matchers::Contains("dk has"));
  call.problem.d_o.clear();
  CHECK_THROWS_WITH(fit_named_backward(call.problem, call.forward, call.gradients), Catch::Matchers::Contains("do has 0"));
}

TEST_CASE("identify backward: rows and keys of a call are a call of their own", "[identify]") {
  std::mt19937_64 random(3);
  attention_problem p = call_of(50, 90, 64, true);
  fill_all(p, regime::gauss, random);
  attention_schedule const& fa3 = attention_schedule_named("fa3");
  const forward_result forward = attention_forward(fa3, p);
  const backward_result whole = attention_backward(fa3, p, forward);
  backward_options options;
  for (std::int64_t i = 0; i < p.queries; ++i) options.visible.push_back(p.keys - p.queries + i + 1);
  CHECK(differing(attention_backward(fa3, p, forward, options), whole) == 0);
  --options.visible[20];
  CHECK(differing(attention_backward(fa3, p, forward, options), whole) > 0);
  options.visible.pop_back();
  CHECK_THROWS_WITH(attention_backward(fa3, p, forward, options), Catch::Matchers::Contains("49 rows, expected 50"));
}

namespace {

/// How many of so many random points are recovered from their gradients alone (or an equivalent is named).
int recovered_points(std::uint64_t seed, int points) {
  std::mt19937_64 random(seed);
  attention_problem p = call_of(72, 200, 64, true);
  p.softmax_scale = 0.37;  // here the forms of L and the place of s give different bits
  fill_all(p, regime::gauss, random);
  const forward_result forward = attention_forward(attention_schedule_named("fa3"), p);
  const backward_space space(p);
  int recovered = 0;
  for (int i = 0; i < points; ++i) {
    schedule_point point(space.axes().size());
    for (std::size_t axis = 0; axis < point.size(); ++axis) point[axis] = random() % space.axes()[axis].values.size();
    const backward_result g = attention_backward(space.make(point), p, forward);
    const backward_search_result r = search_backward(space, p, forward, {g.dq, g.dk, g.dv}, {}, random());
    recovered += mismatches_of(r.fits) == 0;
    std::cout << fmt::format("point {}: {} mismatches, {} of {:.3g} tried\n", i, mismatches_of(r.fits), r.schedules_tried, space.size());
    if (mismatches_of(r.fits) != 0) std::cout << "  sought\n" << space.describe(point) << "  found\n" << space.describe(r.point);
  }
  std::cout << recovered << " of " << points << ", seed " << seed << "\n";
  return recovered;
}

}  // namespace

TEST_CASE("identify backward: random points of the space are recovered from their gradients", "[.long][identify][sampled]") { CHECK(recovered_points(7, 6) == 6); }
TEST_CASE("identify backward: random points of the space are recovered from their gradients, all of 20", "[.long][identify]") { CHECK(recovered_points(2026, 20) == 20); }
