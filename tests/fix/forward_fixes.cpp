// Fixes of the forward pass on calls whose weights can be written down: which rows they touch, and the limits that the published ones have.
#include <cmath>

#include "stickybit/attention/exact_head.hpp"
#include "stickybit/attention/forward.hpp"
#include "stickybit/attention/smooth_keys.hpp"
#include "stickybit/fix/fix.hpp"
#include "support/backward_calls.hpp"
#include "support/catch.hpp"
#include "support/recorded.hpp"

using namespace stickybit;

namespace {

attention_schedule fixed(const char* schedule, const char* text) { return with_fixes(attention_schedule_named(schedule), text); }

/// One query whose raw scores are these, to 16 bits; scale 1 and V = −1 unless changed.
attention_problem scores(std::vector<double> const& wanted) {
  attention_problem p = call_of(1, std::int64_t(wanted.size()), 64, false);
  p.softmax_scale = 1;
  p.q.resize(64);
  p.q[0] = p.q[1] = bf16_of(1);
  p.k.resize(wanted.size() * 64);
  p.v.assign(p.k.size(), bf16_of(-1));
  for (std::size_t j = 0; j < wanted.size(); ++j) {
    p.k[j * 64] = bf16_of(wanted[j]);
    p.k[j * 64 + 1] = bf16_of(wanted[j] - to_double(p.k[j * 64]));
  }
  return p;
}

forward_row_trace trace(attention_schedule const& s, attention_problem const& p, std::int64_t row = 0) { return trace_forward_row(s, p, 0, 0, row); }

/// The weight of a key as P·V takes it, in the block where it came.
double weight(forward_row_trace const& t, std::int64_t key) {
  for (softmax_weight const& w : t.weights)
    if (w.column == key) return to_double(convert<format::bf16>(w.weight));
  return -1;
}
double weight(const char* fix, std::vector<double> const& wanted, std::int64_t key = 0) { return weight(trace(fixed("fa3", fix), scores(wanted)), key); }

double bf16_exp(double x) { return to_double(bf16_of(std::exp(x))); }

}  // namespace

TEST_CASE("fix beta: a tied maximum is moved by its rule, one that is not tied stays", "[fix]") {
  // m' = beta·r above 0, 0 below 0; without a preset the shift is kept between ln(4/3) and 64.
  CHECK(weight("none", {2, 2, 1}) == 1);
  CHECK(weight("beta:preset=v2", {2, 2, 1}) == bf16_exp(2 - 14));
  CHECK(weight("beta:preset=v4", {2, 2, 1}) == bf16_exp(2 - 4));
  CHECK(weight("beta:preset=repo", {2, 2, 1}) == bf16_exp(2 - 4));
  CHECK(weight("beta", {2, 2, 1}) == bf16_exp(2 - 4));
  CHECK(weight("beta:beta=3", {2, 2, 1}) == bf16_exp(2 - 6));
  CHECK(weight("beta", {2, 2, 1}, 2) == bf16_exp(1 - 4));
  for (const char* fix : {"beta", "beta:preset=v2", "beta:preset=v4"}) {
    CHECK(weight(fix, {-3, -3, -5}) == bf16_exp(-3));
    CHECK(weight(fix, {2, 1, 1}) == 1);
    CHECK(weight(fix, {-3, -5, -5}) == 1);
  }
}

TEST_CASE("fix beta: the tolerance is in units of the scaled score; v2 asks for equality", "[fix]") {
  const double near = 2 - 0x1p-11, far = 2 - 0x1p-8;  // by 4.9e-4 and 3.9e-3
  CHECK(weight("beta:preset=v2", {2, near}) == 1);
  CHECK(weight("beta:preset=v4", {2, near}) == bf16_exp(-2));
  CHECK(weight("beta", {2, near}) == bf16_exp(-2));
  CHECK(weight("beta", {2, far}) == 1);
  CHECK(weight("beta:tol=1e-2", {2, far}) == bf16_exp(-2));
  CHECK(weight("beta:tol=0", {2, near}) == 1);
  attention_problem p = scores({2, far});
  p.softmax_scale = 0.125;  // now they differ by 4.9e-4
  CHECK(weight(trace(fixed("fa3", "beta"), p), 0) < 1);
}

TEST_CASE("fix beta: a tied maximum of 0 keeps weights of 1 in the published forms, not without a preset", "[fix]") {
  for (const char* preset : {"beta:preset=v2", "beta:preset=v4", "beta:preset=repo"}) CHECK(weight(preset, {0, 0, -1}) == 1);
  CHECK(weight("beta", {0, 0, -1}) == 0.75);
}

TEST_CASE("fix beta: the published factor does nothing to maxima up to 0.001955 and wipes rows above 87.3/(beta - 1)", "[fix]") {
  // exp(−t) rounds to 1 in BF16 for t ≤ 0.001955; the largest weight is below 2^-126 and flushed for (beta − 1)·r > 87.34.
  CHECK(weight("beta:preset=v4", {0.0019378662109375, 0.0019378662109375}) == 1);
  CHECK(weight("beta:preset=v4", {0.0019836425781250, 0.0019836425781250}) < 1);
  CHECK(weight("beta", {0.0019378662109375, 0.0019378662109375}) == 0.75);
  const auto row = [](const char* fix, double r) { return trace(fixed("fa3", fix), scores({r, r, r - 1})); };
  for (auto const& [fix, kept, wiped] : {std::tuple{"beta:preset=v4", 87.0, 87.5}, {"beta:preset=v2", 14.5, 14.625}}) {
    INFO(fix);
    CHECK(to_double(row(fix, kept).o[0]) == -1);
    CHECK(row(fix, wiped).ready.lse == f32_code::infinity(true));
    CHECK(row(fix, wiped).o[0].is_zero());
    CHECK(to_double(row("beta", wiped).o[0]) == -1);
    CHECK(std::fabs(to_double(row("beta", wiped).ready.lse) - (wiped + std::log(2 + std::exp(-1)))) < 1e-4);
  }
  CHECK(to_double(row("beta", 3000).o[0]) == -1);
}

TEST_CASE("fix beta: a tied maximum below -87.3 wipes its row in the published forms, not without a preset", "[fix]") {
  const auto row = [](const char* fix) { return trace(fixed("fa3", fix), scores({-200, -200, -201})); };
  for (const char* preset : {"beta:preset=v2", "beta:preset=v4"}) {
    CHECK(row(preset).ready.lse == f32_code::infinity(true));
    CHECK(row(preset).o[0].is_zero());
  }
  CHECK(std::fabs(to_double(row("beta").ready.lse) - (-200 + std::log(2 + std::exp(-1)))) < 1e-4);
  CHECK(to_double(row("beta").o[0]) == -1);
}

TEST_CASE("fix beta: a tie over two blocks is seen only without a preset, from the second block on", "[fix]") {
  std::vector<double> wanted(300, 0);  // blocks of 192 keys, the last first
  wanted[0] = wanted[250] = 5;
  for (const char* preset : {"beta:preset=v2", "beta:preset=v4"}) {
    const forward_row_trace t = trace(fixed("fa3", preset), scores(wanted));
    CHECK(weight(t, 250) == 1);
    CHECK(weight(t, 0) == 1);
  }
  const forward_row_trace t = trace(fixed("fa3", "beta"), scores(wanted));
  CHECK(weight(t, 250) == 1);
  CHECK(weight(t, 0) == bf16_exp(-5));
  CHECK(std::fabs(to_double(t.blocks.at(1).rescale) - std::exp(-5)) < 1e-7);  // what the first block gave is made smaller with it
  CHECK(std::fabs(to_double(t.ready.lse) - (5 + std::log(2 + 298 * std::exp(-5)))) < 1e-5);
}

TEST_CASE("fix beta: masked keys are never tied, in blocks wholly masked neither", "[fix]") {
  // Causal, 256 rows: row 0 sees key 0 alone and visits a block without any; row 1 sees two keys that differ.
  attention_problem p = call_of(256, 256, 64, true);
  p.softmax_scale = 1;
  p.q.resize(256 * 64);
  p.k.resize(256 * 64);
  p.v.assign(256 * 64, bf16_of(-1));
  for (std::size_t i = 0; i < 256; ++i) {
    p.q[i * 64] = bf16_of(1);
    p.k[i * 64] = bf16_of(i == 0 ? -200 : -210);
  }
  for (const char* fix : {"beta", "beta:preset=v2", "beta:preset=v4"})
    for (std::int64_t row : {0, 1}) {
      const forward_row_trace t = trace(fixed("fa3", fix), p, row);
      INFO(fix << ", row " << row);
      CHECK(t.blocks.size() == 2);
      CHECK(weight(t, 0) == 1);
      CHECK(std::fabs(to_double(t.ready.lse) + 200) < 1e-3);
      CHECK(to_double(t.o[0]) == -1);
    }
  // Row 300 of keys that all tie: visible ones do count.
  CHECK(weight(trace(fixed("fa3", "beta"), p, 200), 1) < 1);
  for (softmax_weight const& w : trace(fixed("fa3", "beta"), p, 0).weights)
    if (w.column > 0) CHECK(w.weight.is_zero());
}

TEST_CASE("fix beta: on recorded rows with repeated maxima no weight is 1, and O keeps its error bound", "[fix][golden]") {
  const tensor_file file = golden("ties_s384_d64_c0.safetensors");
  const attention_problem p = read_problem(file);
  const attention_schedule plain = attention_schedule_named("fa3"), own = fixed("fa3", "beta");
  std::int64_t ones = 0, ones_with_fix = 0;
  for (std::int64_t row = 0; row < 384; row += 8) {
    // The maximum of a row is that of all blocks: earlier blocks may have had a maximum of their own that was alone.
    const auto count = [&](attention_schedule const& s) {
      const forward_row_trace t = trace_forward_row(s, p, 0, 1, row);
      double most = 0;
      for (softmax_weight const& w : t.weights)
        if (w.column < 192) most = std::max(most, to_double(convert<format::bf16>(w.weight)));  // of the block taken last
      return most == 1;
    };
    ones += count(plain);
    ones_with_fix += count(own);
  }
  CHECK(ones > 5);
  CHECK(ones_with_fix == 0);
  const forward_result o = attention_forward(own, p), exact = attention_forward(attention_schedule_named("exact"), p), without = attention_forward(plain, p);
  CHECK(differing(o.o, without.o) > 0);
  double largest_v = 0;
  for (bf16_code c : p.v) largest_v = std::max(largest_v, std::fabs(to_double(c)));
  for (std::size_t i = 0; i < o.o.size(); ++i) {
    // A cast of P errs by 2^-9 of each weight, and the last cast by as much of O.
    if (std::fabs(to_double(o.o[i]) - to_double(exact.o[i])) > 3 * 0x1p-9 * largest_v) FAIL_CHECK("element " << i);
  }
  for (std::size_t i = 0; i < o.lse.size(); ++i)
    if (std::fabs(to_double(o.lse[i]) - to_double(exact.lse[i])) > 1e-5 * (1 + std::fabs(to_double(exact.lse[i])))) FAIL_CHECK("lse " << i);
}

TEST_CASE("fix beta: the kernel for one query of the same library is fixed too", "[fix]") {
  const attention_problem p = scores({2, 2, 1});
  CHECK(weight(trace(attention_schedule_named("cudnn"), p), 0) == 1);
  CHECK(weight(trace(fixed("cudnn", "beta"), p), 0) == bf16_exp(-2));
}

TEST_CASE("fix subtract-first: q = k = 133120 gives O = V, and the winner's weight is exactly 1", "[fix]") {
  attention_problem p = call_of(1, 1, 64, false);
  p.q.assign(64, bf16_of(133120));
  p.k = p.q;
  p.v.assign(64, bf16_of(3));
  CHECK(trace(attention_schedule_named("fa3"), p).o[0] == bf16_code::nan());
  const forward_row_trace t = trace(fixed("fa3", "subtract-first"), p);
  CHECK(t.weights.at(0).argument.is_zero());
  CHECK(to_double(t.weights.at(0).weight) == 1);
  CHECK(to_double(t.o[0]) == 3);
  // A raw score of 20272 at d = 64: the fused form makes the largest weight 0.99991556.
  attention_problem q = scores({20272, 0});
  q.softmax_scale = 0.125;
  CHECK(std::fabs(to_double(trace(attention_schedule_named("fa3"), q).weights.at(0).weight) - 0.99991556) < 1e-7);
  CHECK(to_double(trace(fixed("fa3", "subtract-first"), q).weights.at(0).weight) == 1);
}

TEST_CASE("fix two-row-sums: V = 1 gives O = 1 exactly, lse stays as it was", "[fix]") {
  // Weights 1 and 100 times 0.5015: each of these rounds to 0.5.
  std::vector<double> wanted(101, std::log(0.5015));
  wanted[0] = 0;
  attention_problem p = scores(wanted);
  p.v.assign(p.v.size(), bf16_of(1));
  CHECK(to_double(trace(attention_schedule_named("fa3"), p).o[0]) == 0.99609375);
  CHECK(to_double(trace(fixed("fa3", "two-row-sums"), p).o[0]) == 1);
  // Row i: one key of weight 1, all others of one weight between 1/2 and 3/4.
  attention_problem q = call_of(100, 60, 64, false);  // one block in every kernel
  q.softmax_scale = 1;
  q.q.resize(100 * 64);
  q.k.resize(60 * 64);
  q.v.assign(q.k.size(), bf16_of(1));
  for (std::size_t i = 0; i < 100; ++i) q.q[i * 64] = bf16_of(-std::log(0.5 + double(i) / 400));
  q.k[0] = bf16_of(1);
  for (const char* schedule : {"fa3", "fa2", "fa2-torch", "fa2-torch-splitkv", "cudnn", "efficient", "triton-m64-n64"}) {
    const auto not_one = [](forward_result const& r) { return std::ranges::count_if(r.o, [](bf16_code c) { return to_double(c) != 1; }); };
    const forward_result own = attention_forward(attention_schedule_named(schedule), q), both = attention_forward(fixed(schedule, "two-row-sums"), q);
    INFO(schedule);
    CHECK(not_one(own) > 0);
    CHECK(not_one(both) == 0);
    CHECK(differing(own.lse, both.lse) == 0);
  }
}

TEST_CASE("fix k-smooth: the smoothed keys have mean zero, unseen keys do not count", "[fix]") {
  attention_problem p = call_of(3, 5, 64, true);
  p.k.resize(5 * 64);
  constexpr std::array<int, 5> offsets{-2, 1, 1, 50, -70};
  for (std::size_t j = 0; j < 5; ++j)
    for (std::size_t c = 0; c < 64; ++c) p.k[j * 64 + c] = bf16_of(100 + offsets[j]);
  const attention_problem seen = smooth_keys(p, mask_alignment::top_left, subnormals::flushed);  // rows see keys 0 to 2
  for (std::size_t j = 0; j < 5; ++j)
    for (std::size_t c = 0; c < 64; ++c) CHECK(to_double(seen.k[j * 64 + c]) == offsets[j]);
  const attention_problem all = smooth_keys(p, mask_alignment::none, subnormals::flushed);  // the mean of all five is 96
  for (std::size_t j = 0; j < 5; ++j) CHECK(to_double(all.k[j * 64]) == offsets[j] + 4);
}

TEST_CASE("fix k-smooth: O stays close under a large mean key, lse moves by scale·q·mean", "[fix]") {
  std::mt19937_64 random(32);
  attention_problem p = call_of(60, 100, 64, false);
  fill(p, regime::gauss, random);
  const std::vector<bf16_code> mean = random_codes(64, 4, random);
  for (std::size_t i = 0; i < p.k.size(); ++i) p.k[i] = bf16_of(to_double(p.k[i]) + to_double(mean[i % 64]));
  const attention_problem smoothed = smooth_keys(p, mask_alignment::none, subnormals::flushed);
  const forward_result r = attention_forward(fixed("fa3", "k-smooth"), p), exact = attention_forward(attention_schedule_named("exact"), p);
  CHECK(differing(r.o, attention_forward(attention_schedule_named("fa3"), smoothed).o) == 0);
  double worst = 0, moved = 0;
  for (std::size_t i = 0; i < r.o.size(); ++i) worst = std::max(worst, std::fabs(to_double(r.o[i]) - to_double(exact.o[i])));
  CHECK(worst < 0.03);
  for (std::size_t i = 0; i < 60; ++i) {
    double shift = 0;
    for (std::size_t c = 0; c < 64; ++c) {
      double sum = 0;
      for (std::size_t j = 0; j < 100; ++j) sum += to_double(p.k[j * 64 + c]);
      shift += to_double(p.q[i * 64 + c]) * sum / 100 * p.softmax_scale;
    }
    moved = std::max(moved, std::fabs(to_double(r.lse[i]) + shift - to_double(exact.lse[i])));
    CHECK(std::fabs(shift) > 0.001);
  }
  CHECK(moved < 0.03);
}

TEST_CASE("fix fp32: O is the exact O rounded, but for a few codes", "[fix]") {
  std::mt19937_64 random(33);
  for (const char* schedule : {"fa3", "fa2-torch", "fa2-torch-splitkv", "paper-v2", "cudnn", "efficient"}) {
    attention_problem p = call_of(60, 300, 64, false);
    fill(p, regime::gauss, random);
    const std::vector<bf16_code> exact = attention_forward(attention_schedule_named("exact"), p).o;
    INFO(schedule);
    CHECK(differing(attention_forward(fixed(schedule, "fp32"), p).o, exact) < 20);
    CHECK(differing(attention_forward(attention_schedule_named(schedule), p).o, exact) > 200);
  }
}
