// The parts of the model, each against something that shares no code with it.
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "predict/dense_products.hpp"
#include "predict/row_weights.hpp"
#include "predict/rounded_value.hpp"
#include "predict/summation_noise.hpp"
#include "stickybit/block_fma/block_fma.hpp"
#include "stickybit/exact/round_to.hpp"
#include "stickybit/format/value.hpp"
#include "stickybit/machine/machine.hpp"
#include "support/catch.hpp"

namespace {

using namespace stickybit;
using namespace stickybit::detail;

double as_bf16(double x) { return to_double(round_to<format::bf16>(double_double{x, 0})); }

/// Mean and variance of round(x + e) − x by sums over a fine grid of e, from −8 to 8 deviations.
expected_error by_sums(double x, expected_error e) {
  constexpr int steps = 40000;
  double weights = 0, sum = 0, squares = 0;
  for (int i = 0; i <= steps; ++i) {
    const double z = -8 + 16.0 * i / steps, w = std::exp(-z * z / 2), error = as_bf16(x + e.mean + std::sqrt(e.variance) * z) - x;
    weights += w, sum += w * error, squares += w * error * error;
  }
  return {sum / weights, squares / weights - (sum / weights) * (sum / weights)};
}

std::vector<bf16_code> codes(std::mt19937_64& random, std::size_t n, bool one_signed, double spread) {
  std::normal_distribution<double> normal;
  std::vector<bf16_code> result;
  for (std::size_t i = 0; i < n; ++i) {
    const double x = spread > 0 ? std::exp2(spread * normal(random)) : one_signed ? std::fabs(normal(random)) : normal(random);
    result.push_back(round_to<format::bf16>(double_double{x, 0}));
  }
  return result;
}

}  // namespace

TEST_CASE("bf16_of_double and bf16_ulp: the code of round_to, 10^6 numbers of every size", "[predict]") {
  std::mt19937_64 random(1);
  for (int i = 0; i < 1'000'000; ++i) {
    const double x = std::ldexp(double(std::int64_t(random())), int(random() % 230) - 190);
    REQUIRE(bf16_of_double(x) == as_bf16(x));
  }
  REQUIRE(bf16_ulp(1.0) == 0x1p-7);
  REQUIRE(bf16_ulp(-1.99) == 0x1p-7);
  REQUIRE(f32_ulp(2.0) == 0x1p-22);
  REQUIRE(bf16_ulp(0x1p-130) == 0x1p-133);
}

TEST_CASE("round_to_bf16: mean and variance equal sums over the normal error, every place in an ulp, narrow to wide", "[predict]") {
  for (double place : {0.0, 0.1, 0.3, 0.45, 0.5, 0.52, 0.77, 0.999})
    for (double mean : {0.0, 0.2, -1.3})
      for (double deviation : {0.0, 0.001, 0.02, 0.1, 0.3, 0.49, 0.51, 0.8, 3.0}) {
        const double ulp = 0x1p-7, x = 1.25 + place * ulp;
        const expected_error e{mean * ulp, deviation * deviation * ulp * ulp};
        const rounded_error r = round_to_bf16(x, e);
        const expected_error expected = by_sums(x, e);
        INFO("place " << place << " mean " << mean << " deviation " << deviation << " ulp: " << r.mean / ulp << " for " << expected.mean / ulp << ", variance " << r.variance / (ulp * ulp) << " for "
                      << expected.variance / (ulp * ulp));
        // Beyond half an ulp the place no longer counts: e^(−2π²/4)/π is left of the mean, its share of the variance likewise.
        const double tolerance = deviation > 0.5 ? 0.01 : deviation == 0 || deviation > 0.01 ? 2e-3 : 0.02;
        CHECK(std::fabs(r.mean - expected.mean) <= tolerance * ulp);
        CHECK(std::fabs(r.variance - expected.variance) <= 2 * tolerance * ulp * ulp + 0.001 * expected.variance);
      }
}

TEST_CASE("two tied ones and a left-over: -0.2499, 0, +0.2499 ulp over all pairs of significands", "[predict]") {
  // @source papers_and_reports N2: recomputed there with integers. v1 + v2 of one binade is a multiple of half an ulp of the sum.
  for (auto const& [left_over, law] : {std::pair{1e-6, -0.2499}, std::pair{0.0, 0.0}, std::pair{-1e-6, 0.2499}}) {
    double sum = 0;
    for (int a = 128; a < 256; ++a)
      for (int b = 128; b < 256; ++b) {
        const double x = -(a + b) * 0x1p-7 - left_over;
        sum += round_to_bf16(x, {}).mean / bf16_ulp(x);
      }
    INFO("left-over " << left_over);
    // The sums lie in two binades: half of them have the extra bit.
    CHECK(std::fabs(sum / (128 * 128) - law) < 0.0015);
  }
}

TEST_CASE("chain losses: the vector form gives the plain one's numbers, random operands, three units", "[predict]") {
  std::mt19937_64 random(2);
  for (std::string_view name : {"sm90.wgmma.bf16.f32", "sm80.mma.bf16.f32", "sm90.mma.bf16k8.f32"})
    for (double spread : {0.0, 5.0}) {
      machine_unit const& unit = unit_named(name);
      constexpr std::int64_t rows = 6, depth = 72, columns = 37;
      chain_operand a(rows, depth), b(depth, columns);
      a.shift_by(3), b.shift_by(-2);
      const auto fill = [&](chain_operand& m) {
        const auto values = codes(random, std::size_t(m.rows * m.columns), false, spread);
        for (std::int64_t i = 0; i < m.rows; ++i)
          for (std::int64_t j = 0; j < m.columns; ++j) m.set(i, j, (i + j) % 11 == 0 ? 0 : to_double(values[std::size_t(i * m.columns + j)]));
      };
      fill(a), fill(b);
      chain_state fast(rows, columns), plain(rows, columns);
      for (chain_state* s : {&fast, &plain}) s->restart(1);
      for (std::int64_t k : {0, 40}) {  // in two steps, the second of another length
        const std::int64_t count = k == 0 ? 40 : 32;
        add_chain_losses(unit, {a, k}, {b, k}, count, 0, rows, fast);
        add_chain_losses_plainly(unit, {a, k}, {b, k}, count, 0, rows, plain);
      }
      for (std::size_t i = 0; i < fast.sum.size(); ++i) {
        INFO(name << " element " << i);
        // Expectations in FP32, not codes: without a fused multiplication the sums differ in their last bits.
        CHECK(std::fabs(fast.sum[i] - plain.sum[i]) <= 1e-5f * (1 + std::fabs(plain.sum[i])));
        CHECK(fast.mean[i] == Approx(plain.mean[i]).epsilon(1e-3));
        CHECK(fast.variance[i] == Approx(plain.variance[i]).epsilon(1e-3));
      }
    }
}

TEST_CASE("chain losses: the mean and the spread of what the unit loses, 4000 chains of each kind", "[predict]") {
  struct kind {
    bool one_signed;
    double spread, tolerance;
  };
  std::mt19937_64 random(3);
  for (std::string_view name : {"sm90.wgmma.bf16.f32", "sm80.mma.bf16.f32"})
    for (kind k : {kind{false, 0, 0.15}, kind{true, 0, 0.15}, kind{true, 6, 0.03}}) {
      machine_unit const& unit = unit_named(name);
      const auto block = std::size_t(unit.block_size), depth = 4 * block;
      double lost = 0, lost_squares = 0, expected = 0, expected_squares = 0;
      for (int i = 0; i < 4000; ++i) {
        const auto a = codes(random, depth, k.one_signed, k.spread), b = codes(random, depth, k.one_signed, 0);
        chain_operand of_a(1, std::int64_t(depth)), of_b(std::int64_t(depth), 1);
        double exact = 0;
        f32_code c = f32_code::zero();
        for (std::size_t j = 0; j < depth; ++j) {
          of_a.set(0, std::int64_t(j), to_double(a[j]));
          of_b.set(std::int64_t(j), 0, to_double(b[j]));
          exact += to_double(a[j]) * to_double(b[j]);
        }
        for (std::size_t j = 0; j < depth; j += block)
          c = block_fma<format::bf16>(unit, std::span<bf16_code const>(a).subspan(j, block), std::span<bf16_code const>(b).subspan(j, block), c);
        chain_state state(1, 1);
        state.restart(0);
        add_chain_losses_plainly(unit, {of_a, 0}, {of_b, 0}, std::int64_t(depth), 0, 1, state);
        const double unit_of_error = k.one_signed ? std::exp2(std::ilogb(exact) - 23) : 0x1p-23, sign = exact < 0 ? -1 : 1;
        const double error = (to_double(c) - exact) / unit_of_error, mean = double(state.mean[0]) / unit_of_error;
        lost += sign * error, lost_squares += error * error, expected += sign * mean;
        expected_squares += double(state.variance[0]) / (unit_of_error * unit_of_error) + mean * mean;
      }
      INFO(name << (k.one_signed ? " one sign" : " both signs") << ", spread " << k.spread << ": lost " << lost / 4000 << " expected " << expected / 4000);
      CHECK(lost < 0);  // toward zero
      // Few low bits are cut in short chains of numbers of like size, and they are not uniform.
      CHECK(expected == Approx(lost).epsilon(k.tolerance));
      CHECK(std::sqrt(expected_squares) == Approx(std::sqrt(lost_squares)).epsilon(0.1));
    }
}

TEST_CASE("rounded_sum: the variance of FP32 sums of BF16 products, 20000 sums of 8 terms", "[predict]") {
  std::mt19937_64 random(4);
  double squares = 0, expected = 0;
  for (int i = 0; i < 20000; ++i) {
    const auto a = codes(random, 8, false, 0), b = codes(random, 8, false, 0);
    float sum = 0;
    double exact = 0;
    rounded_sum model;
    for (std::size_t j = 0; j < 8; ++j) {
      const double product = to_double(a[j]) * to_double(b[j]);
      sum = std::fma(float(to_double(a[j])), float(to_double(b[j])), sum);
      exact += product;
      model.add(product);
    }
    squares += (double(sum) - exact) * (double(sum) - exact);
    expected += model.variance();
  }
  INFO("variance " << squares / 20000 << ", expected " << expected / 20000);
  CHECK(expected / squares == Approx(1).epsilon(0.15));
}

TEST_CASE("split_cast_errors: what is known, scattered, free", "[predict]") {
  std::vector<double> weights(32, 1.0 / 32), errors(32), mean(32), square(32);
  const std::vector<std::int64_t> apart(32, 1);
  for (std::size_t j = 0; j < 32; ++j) errors[j] = (j % 2 == 0 ? 1 : -0.5) * 0x1p-14 * double(1 + j % 3);
  weights[0] = 1.0 / 16;
  REQUIRE(split_cast_errors(weights, errors, apart, false, false, mean, square) == cast_errors::scattered);
  double mass = 0, of_mean = 0;
  for (std::size_t j = 0; j < 32; ++j) mass += errors[j], of_mean += mean[j];
  REQUIRE(of_mean == Approx(mass));
  REQUIRE(split_cast_errors(weights, errors, apart, true, false, mean, square) == cast_errors::known);
  REQUIRE(mean == errors);
  REQUIRE(square == std::vector<double>(32, 0.0));
  std::vector<double> one(32, 0.0);
  one[5] = 0x1p-10;
  REQUIRE(split_cast_errors(weights, one, apart, false, false, mean, square) == cast_errors::known);
  one[7] = -0x1p-10, one[9] = 0x1p-10;
  REQUIRE(split_cast_errors(weights, one, apart, false, false, mean, square) == cast_errors::free);
  REQUIRE(mean == std::vector<double>(32, 0.0));
  // Three keys with one K are one term.
  std::vector<std::int64_t> together(32, 1);
  together[5] = 3, together[7] = together[9] = 0;
  std::vector<double> same(32, 0.0);
  same[5] = same[7] = same[9] = 0x1p-10;
  REQUIRE(split_cast_errors(weights, same, together, false, false, mean, square) == cast_errors::known);
}
