// Fixes of the backward pass: each restores the law that it is for, and the kernel without it does not have it; and both engines agree
// on every fix.
#include <fmt/format.h>

#include <cmath>
#include <iostream>
#include <mutex>

#include "stickybit/fix/fix.hpp"
#include "support/backward_calls.hpp"
#include "support/catch.hpp"

using namespace stickybit;

namespace {

constexpr std::array kernels{"fa3", "fa2-torch", "paper-v2"};

attention_schedule const& named(const char* name) { return attention_schedule_named(name); }
attention_schedule fixed(const char* schedule, const char* text) { return with_fixes(named(schedule), text); }

attention_problem gauss_call(std::int64_t queries, std::int64_t keys, std::uint64_t seed, bool causal = false) {
  attention_problem p = call_of(queries, keys, 64, causal);
  std::mt19937_64 random(seed);
  fill_all(p, regime::gauss, random);
  return p;
}

/// The same with a mean key: one row of this size is added to every key.
attention_problem with_mean_key(attention_problem p, double size, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::vector<bf16_code> mean = random_codes(64, size, random);
  for (std::size_t i = 0; i < p.k.size(); ++i) p.k[i] = bf16_of(to_double(p.k[i]) + to_double(mean[i % 64]));
  return p;
}

backward_result in_f32(attention_schedule const& s, attention_problem const& p) {
  backward_options options;
  options.keep_f32 = true;
  return gradients(s, p, options);
}

double largest(std::vector<f32_code> const& m) {
  double most = 0;
  for (f32_code c : m) most = std::max(most, std::fabs(to_double(c)));
  return most;
}

template <class Code>
double relative_error(std::vector<Code> const& x, std::vector<Code> const& exact) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    difference += std::pow(to_double(x[i]) - to_double(exact[i]), 2);
    norm += std::pow(to_double(exact[i]), 2);
  }
  return std::sqrt(difference / norm);
}

/// Σ_j dK_j, its largest element: 0 in exact arithmetic.
double sum_of_dk(backward_result const& r) {
  std::vector<double> sums(64, 0);
  for (std::size_t i = 0; i < r.dk_f32.size(); ++i) sums[i % 64] += to_double(r.dk_f32[i]);
  double most = 0;
  for (double s : sums) most = std::max(most, std::fabs(s));
  return most;
}

/// Largest |Σ_j P_ij·(dP_ij − delta_i)| over the rows, in double from the kernel's own FP32 numbers.
double row_mass_of(attention_schedule const& s, attention_problem const& p) {
  std::vector<double> p_dp(std::size_t(p.queries), 0), p_sum(p_dp);
  backward_options options;
  options.scores = [&](score_block_row const& r) {
    for (std::size_t j = 0; j < r.p.size(); ++j) {
      p_dp[std::size_t(r.row)] += to_double(r.p[j]) * to_double(r.dp[j]);
      p_sum[std::size_t(r.row)] += to_double(r.p[j]);
    }
  };
  const backward_result g = gradients(s, p, options);
  double most = 0;
  for (std::size_t i = 0; i < p_dp.size(); ++i) most = std::max(most, std::fabs(p_dp[i] - p_sum[i] * to_double(g.delta[i])));
  return most;
}

}  // namespace

TEST_CASE("fix gproj: a key that all share leaves no trace in dQ", "[fix]") {
  // The first 32 columns of K are the same in every key: dQ is 0 there in exact arithmetic.
  for (const char* schedule : kernels) {
    attention_problem p = gauss_call(60, 150, 41);
    std::mt19937_64 random(42);
    const std::vector<bf16_code> shared = random_codes(32, 50, random);
    for (std::size_t j = 0; j < 150; ++j) std::copy(shared.begin(), shared.end(), p.k.begin() + std::ptrdiff_t(j * 64));
    const auto shared_part = [&](const char* fix) {
      std::vector<f32_code> dq = in_f32(fixed(schedule, fix), p).dq_f32, first;
      for (std::size_t i = 0; i < dq.size(); ++i)
        if (i % 64 < 32) first.push_back(dq[i]);
      return largest(first);
    };
    const double without = shared_part("none");
    INFO(schedule << ", without: " << without);
    CHECK(without > 1e-3);
    CHECK(shared_part("gproj") < without / 100);
    CHECK(shared_part("gproj:weights=uniform") < without / 100);
    CHECK(shared_part("delta-fp32") > without / 20);  // the casts of dS stay
  }
}

TEST_CASE("fix gproj: dK of all keys sums to nothing and is untouched with targets=dq", "[fix]") {
  for (const char* schedule : kernels)
    for (bool causal : {false, true}) {
      const attention_problem p = with_mean_key(gauss_call(60, 150, 43, causal), 8, 44);
      const backward_result own = in_f32(named(schedule), p), dq_only = in_f32(fixed(schedule, "gproj:targets=dq"), p), all = in_f32(fixed(schedule, "gproj"), p);
      INFO(schedule << (causal ? ", causal" : ""));
      CHECK(differing(own.dk, dq_only.dk) == 0);
      CHECK(differing(own.dv, dq_only.dv) == 0);
      CHECK(differing(own.dv, all.dv) == 0);
      CHECK(differing(dq_only.dq, all.dq) == 0);
      CHECK(differing(own.dq, all.dq) > 0);
      CHECK(sum_of_dk(all) < sum_of_dk(own) / 1500);  // share·Q as one BF16 would leave 1/700
      CHECK(sum_of_dk(in_f32(fixed(schedule, "gproj:weights=uniform"), p)) < sum_of_dk(own) / 50);
    }
}

TEST_CASE("fix gproj: keys that a row does not see have no share in its correction", "[fix]") {
  for (const char* schedule : kernels) {
    attention_problem p = gauss_call(60, 60, 53, true);
    for (std::size_t j = 0; j < 59; ++j) p.k[j * 64 + 7] = bf16_code::zero();  // column 7 is key 59's, which only the last row sees
    for (const char* fix : {"gproj", "gproj:weights=uniform"}) {
      const backward_result r = gradients(fixed(schedule, fix), p);
      INFO(schedule << ", " << fix);
      for (std::size_t i = 0; i < 59; ++i) CHECK(r.dq[i * 64 + 7].is_zero());
      CHECK(!r.dq[59 * 64 + 7].is_zero());
    }
  }
}

TEST_CASE("fix gproj and k-smooth: dQ under a large mean key comes near the exact one", "[fix]") {
  for (const char* schedule : kernels) {
    attention_problem p = with_mean_key(gauss_call(60, 150, 45), 30, 46);
    const std::vector<bf16_code> exact = gradients(named("exact"), p).dq;
    const auto error = [&](const char* fix) { return relative_error(gradients(fixed(schedule, fix), p).dq, exact); };
    const double own = error("none");
    INFO(schedule << ", without " << own);
    CHECK(own > 0.02);
    CHECK(error("gproj") < 0.01);
    CHECK(error("gproj:weights=uniform") < 0.01);
    CHECK(error("k-smooth") < own / 2);
  }
}

TEST_CASE("fix delta-mma: rows with one dominant key have dP - delta = 0 exactly", "[fix]") {
  for (const char* schedule : kernels) {
    attention_problem p = gauss_call(40, 150, 47);
    p.softmax_scale = 1;
    for (std::size_t i = 0; i < 40; ++i)  // row i and key 3i have a column to themselves
      for (std::size_t c = 0; c < 64; ++c) p.q[i * 64 + c] = bf16_of(c == i ? 20 : 0);
    for (std::size_t j = 0; j < 150; ++j)
      for (std::size_t c = 0; c < 64; ++c) p.k[j * 64 + c] = bf16_of(j == 3 * c && c < 40 ? 20 : 0);
    const forward_result forward = attention_forward(named(schedule), p);
    for (std::size_t i = 0; i < 40 * 64; ++i) REQUIRE(forward.o[i] == p.v[i / 64 * 3 * 64 + i % 64]);
    const auto rows_with_error = [&](const char* fix) {
      std::vector<f32_code> dp(40, f32_code::zero());
      backward_options options;
      options.scores = [&](score_block_row const& r) {
        const std::int64_t winner = 3 * r.row - r.first_column;
        if (winner >= 0 && winner < std::int64_t(r.dp.size())) dp[std::size_t(r.row)] = r.dp[std::size_t(winner)];
      };
      const backward_result r = gradients(fixed(schedule, fix), p, options);
      std::int64_t n = 0;
      for (std::size_t i = 0; i < 40; ++i) n += r.delta[i] != dp[i];
      return std::pair{n, std::ranges::count_if(r.dq, [](bf16_code c) { return !c.is_zero(); })};
    };
    INFO(schedule);
    CHECK(rows_with_error("delta-mma") == std::pair<std::int64_t, std::ptrdiff_t>{0, 0});
    CHECK(rows_with_error("none").first > 10);
    CHECK(rows_with_error("none").second > 10);
    CHECK(rows_with_error("delta-fp32").first > 10);
  }
}

TEST_CASE("fix delta-fp32, delta-hilo: delta without the rounding of O", "[fix]") {
  for (const char* schedule : kernels) {
    const attention_problem p = gauss_call(60, 150, 48);
    const std::vector<f32_code> exact = gradients(named("exact"), p).delta;
    const auto error = [&](const char* fix) { return relative_error(gradients(fixed(schedule, fix), p).delta, exact); };
    const double own = error("none");
    INFO(schedule << ", without " << own);
    CHECK(own > 3e-4);
    // What is left is the BF16 P in O (and, where O is rounded before its division, that); O's last cast alone is gone.
    CHECK(error("delta-fp32") < own);
    CHECK(std::fabs(error("delta-hilo") - error("delta-fp32")) < own / 50);
    const auto from_o = [&](const char* fix) {  // Σ dO·O with the O before its cast, in double
      const attention_schedule s = fixed(schedule, fix);
      const forward_result forward = attention_forward(s, p);
      const backward_result r = attention_backward(s, p, forward);
      double worst = 0;
      for (std::size_t i = 0; i < 60; ++i) {
        double sum = 0;
        for (std::size_t c = 0; c < 64; ++c) sum += to_double(p.d_o[i * 64 + c]) * to_double(fix == std::string("none") ? widen(forward.o[i * 64 + c]) : forward.o_f32[i * 64 + c]);
        worst = std::max(worst, std::fabs(to_double(r.delta[i]) - sum));
      }
      return worst;
    };
    CHECK(from_o("none") < 2e-6);
    CHECK(from_o("delta-fp32") < 2e-6);
    CHECK(from_o("delta-hilo") < 1e-4);
    CHECK(gradients(fixed(schedule, "delta-fp32"), p).delta != gradients(named(schedule), p).delta);
  }
}

TEST_CASE("fix delta-pdp: rowsum(P(dP - delta)) is 0 but for FP32 roundings", "[fix]") {
  for (const char* schedule : kernels)
    for (bool causal : {false, true}) {
      const attention_problem p = gauss_call(60, 150, 49, causal);
      const double own = row_mass_of(named(schedule), p);
      INFO(schedule << (causal ? ", causal, " : ", ") << own);
      CHECK(own > 1e-3);
      CHECK(row_mass_of(fixed(schedule, "delta-pdp"), p) < 2e-6);
    }
}

TEST_CASE("fix delta-pdp: a block that the row's tile does not visit has no part in its delta", "[fix]") {
  for (const char* schedule : {"fa3", "fa2-torch"}) {
    attention_problem p = gauss_call(256, 256, 54, true);
    const attention_schedule s = fixed(schedule, "delta-pdp");
    const forward_result forward = attention_forward(s, p);
    p.v[200 * 64] = bf16_code::nan();  // in the second block of 128 keys, which rows from 128 on visit
    const backward_result r = attention_backward(s, p, forward);
    INFO(schedule);
    for (std::size_t i = 0; i < 256; ++i) CHECK(r.delta[i].is_finite() == (i < 128));
  }
}

TEST_CASE("fix fp32: gradients are the exact ones, cast", "[fix]") {
  for (const char* schedule : kernels)
    for (bool causal : {false, true}) {
      const attention_problem p = with_mean_key(gauss_call(60, 150, 50, causal), 10, 51);
      const backward_result exact = gradients(named("exact"), p);
      const auto wrong = [&](const char* fix) {
        const backward_result r = gradients(fixed(schedule, fix), p);
        return std::array{differing(r.dq, exact.dq), differing(r.dk, exact.dk), differing(r.dv, exact.dv)};
      };
      INFO(schedule << (causal ? ", causal" : ""));
      for (std::int64_t n : wrong("none")) CHECK(n > 400);
      for (const char* fix : {"fp32", "fp32:delta=pdp", "fp32+gproj"}) {
        INFO(fix);
        for (std::int64_t n : wrong(fix)) CHECK(n < 60);
      }
      // With the kernel's own O and lse, dV is as good; dQ and dK keep what O's rounding made of delta.
      CHECK(wrong("fp32-backward")[2] < 60);
      CHECK(wrong("fp32-backward")[0] > 400);
      for (const char* fix : {"fp32-backward+delta-pdp", "fp32-backward+delta-pdp+gproj"}) CHECK(wrong(fix)[0] < 60);
    }
}

TEST_CASE("fix fp32: neither P nor dS is cast, and dQ is one chain of fused multiply-adds in each block", "[fix]") {
  attention_problem p = gauss_call(5, 40, 52);
  std::vector<float> ds(5 * 40);
  bool same = true;
  backward_options options;
  options.keep_f32 = true;
  options.scores = [&](score_block_row const& r) {
    same &= std::equal(r.p.begin(), r.p.end(), r.p_cast.begin());
    for (std::size_t j = 0; j < 40; ++j) ds[std::size_t(r.row) * 40 + j] = to_float(r.ds[j]);
  };
  const backward_result r = gradients(fixed("fa3", "fp32"), p, options);
  CHECK(same);
  for (std::size_t i = 0; i < 5; ++i)
    for (std::size_t c = 0; c < 64; ++c) {
      float sum = 0;
      for (std::size_t j = 0; j < 40; ++j) sum = std::fma(ds[i * 40 + j], to_float(widen(p.k[j * 64 + c])), sum);
      CHECK(r.dq_f32[i * 64 + c] == code_of(sum * 0.125f));
    }
}

TEST_CASE("fix: fast equals definition with every fix, random calls of every regime", "[fix][sampled]") {
  constexpr std::uint64_t seed = 20260103;
  std::mt19937_64 random(seed);
  constexpr std::array texts{"beta", "beta:preset=v2", "beta:preset=v4", "subtract-first", "two-row-sums", "k-smooth", "gproj", "gproj:weights=uniform,targets=dq", "delta-fp32",
                             "delta-hilo", "delta-mma", "delta-pdp", "fp32", "fp32:delta=pdp", "fp32-backward", "beta+subtract-first+two-row-sums+k-smooth+gproj+delta-hilo",
                             "fp32+gproj"};
  for (const char* text : texts) {
    std::int64_t codes = 0, changed = 0;
    for (const char* schedule : {"fa3", "fa2-torch-splitkv", "paper-v2"})
      for (regime r : all_regimes) {
        if (std::string(schedule) == "paper-v2" && std::string_view(text).find("subtract-first") != std::string_view::npos) continue;
        attention_problem p = call_of(1 + std::int64_t(random() % 20), 1 + std::int64_t(random() % 200), 64, random() % 2 == 0);
        p.heads = 1 + std::int64_t(random() % 2);
        p.sm_count = 4;
        fill_all(p, r, random);
        const attention_schedule s = fixed(schedule, text);
        const forward_result fast = attention_forward(s, p, engine::fast), defined = attention_forward(s, p, engine::definition);
        backward_options by_definition;
        by_definition.how = engine::definition;
        const backward_result g = attention_backward(s, p, fast), h = attention_backward(s, p, defined, by_definition);
        INFO(schedule << ", " << text << ", regime " << int(r) << " of seed " << seed << ": " << p.queries << " queries, " << p.keys << " keys" << (p.causal ? ", causal" : ""));
        CHECK(differing(fast.o, defined.o) + differing(fast.lse, defined.lse) == 0);
        CHECK(differing(g, h) == 0);
        codes += codes_of(g) + std::int64_t(fast.o.size());
        changed += differing(g, gradients(named(schedule), p)) + differing(fast.o, attention_forward(named(schedule), p).o);
      }
    std::cout << fmt::format("{}: {} codes by both engines, {} not as without it\n", text, codes, changed);
    CHECK(codes > 50000);
    CHECK(changed > 0);
  }
}
