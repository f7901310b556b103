// What each set of backward rounding points means: against a second computation, and by hand.
#include <cmath>
#include <random>

#include "backward_twin.hpp"
#include "bias/wide_products.hpp"
#include "stickybit/bias/gradient_attribution.hpp"
#include "stickybit/block_fma/block_fma.hpp"
#include "stickybit/exact/round_to.hpp"
#include "support/backward_calls.hpp"
#include "support/catch.hpp"
#include "support/tally.hpp"

using namespace stickybit;
using stickybit_test::backward_twin;
using stickybit_test::real;

namespace {

constexpr std::uint64_t seed = 0x5eed71;

attention_problem small_call() {
  attention_problem p = call_of(18, 132, 64, false);  // two blocks of keys; more than one block of products over the rows
  p.layout = tensor_layout::b_h_s_d;
  std::mt19937_64 random(seed);
  fill_all(p, regime::gauss, random);
  return p;
}

/// Every set that an attribution uses, and some others.
std::vector<backward_points> sets_of_points() {
  std::vector<backward_points> sets{backward_points::none(), backward_points::all()};
  backward_points growing = backward_points::none();
  for (backward_point point : all_backward_points) {
    sets.push_back(growing = growing.with(point));
    sets.push_back(backward_points::none().with(point));
    sets.push_back(backward_points::all().without(point));
  }
  std::mt19937_64 random(seed + 1);
  for (int i = 0; i < 6; ++i) {
    backward_points set = backward_points::none();
    for (backward_point point : all_backward_points)
      if (random() % 2 == 0) set = set.with(point);
    sets.push_back(set);
  }
  return sets;
}

std::string words_of(backward_points set) {
  std::string words;
  for (backward_point point : all_backward_points)
    if (set.has(point)) words += std::string(words.empty() ? "" : " ") + std::string(name_of(point));
  return words;
}

/// Errors of one tensor against the twin's: equal to 2^-44 of the largest exact value, which is what doubles can carry.
struct compared {
  testing::tally elements;
  explicit compared(std::string const& tensor) : elements("fa3: " + tensor + " with a set of points is the definition's to 2^-44 of the largest value, 18 x 132, d 64", seed) {}

  void see(backward_points set, std::vector<double> const& errors, std::vector<real> const& values, std::vector<real> const& exact) {
    real largest = 0;
    for (real const& x : exact) largest = std::max(largest, real(mp_abs(x)));
    const double tolerance = double(largest) * 0x1p-44;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const double expected = double(real(values[i] - exact[i]));
      elements.expect(std::fabs(errors[i] - expected) <= tolerance, [&] { return fmt::format("element {}: error {} of {}, with {}", i, errors[i], expected, words_of(set)); });
    }
  }
  static real mp_abs(real const& x) { return x < 0 ? real(-x) : x; }
};

std::vector<real> flat(backward_twin::matrix const& m) {
  std::vector<real> all;
  for (auto const& row : m) all.insert(all.end(), row.begin(), row.end());
  return all;
}

}  // namespace

TEST_CASE("gradient points: every set of points gives what the definitions give in 128 bits, fa3", "[bias][oracle]") {
  const attention_schedule& fa3 = attention_schedule_named("fa3");
  const attention_problem p = small_call();
  const backward_twin twin(p, attention_forward(fa3, p));
  const backward_twin::gradients exact = twin.evaluate(backward_points::none());
  compared delta("delta"), dp("dP"), ds("dS"), dq("dQ"), dk("dK"), dv("dV");
  for (const backward_points set : sets_of_points()) {
    const backward_twin::gradients g = twin.evaluate(set);
    const selective_errors e = gradient_errors_with(fa3, p, set);
    delta.see(set, e.delta, g.delta, exact.delta);
    dp.see(set, e.dp, flat(g.dp), flat(exact.dp));
    ds.see(set, e.ds, flat(g.ds), flat(exact.ds));
    dq.see(set, e.dq, flat(g.dq), flat(exact.dq));
    dk.see(set, e.dk, flat(g.dk), flat(exact.dk));
    dv.see(set, e.dv, flat(g.dv), flat(exact.dv));
  }
  for (compared* tensor : {&delta, &dp, &ds, &dq, &dk, &dv}) tensor->elements.check();
}

TEST_CASE("gradient points: a nearly one-hot row loses nothing of what is small in it", "[bias]") {
  // Two keys, the second with a weight of e^-20. dS of both is P0·P1·(dP0 − dP1), about 1e-8 of dP; delta's error alone is −P times it.
  attention_problem p = call_of(1, 2, 64, false);
  p.softmax_scale = 1;
  p.q.assign(64, bf16_code::zero());
  p.k.assign(128, bf16_code::zero());
  p.v.assign(128, bf16_code::zero());
  p.d_o.assign(64, bf16_code::zero());
  p.q[0] = bf16_of(1), p.k[0] = bf16_of(10), p.k[64] = bf16_of(-10);
  p.v[0] = bf16_of(3), p.v[64] = bf16_of(-1.5), p.d_o[0] = bf16_of(1.25);
  const double p1 = std::exp(-20) / (1 + std::exp(-20)), p0 = 1 / (1 + std::exp(-20)), exact = p0 * p1 * 1.25 * 4.5;
  using enum backward_point;
  const attention_schedule& fa3 = attention_schedule_named("fa3");
  const selective_errors cast = gradient_errors_with(fa3, p, {ds_cast}), o = gradient_errors_with(fa3, p, {stored_o});
  CHECK(cast.ds[0] == Approx(to_double(bf16_of(exact)) - exact).epsilon(1e-12));
  CHECK(cast.ds[1] == Approx(to_double(bf16_of(-exact)) + exact).epsilon(1e-12));
  // O is 3 less 4.5·p1, and is stored as 3.
  CHECK(o.delta[0] == Approx(1.25 * 4.5 * p1).epsilon(1e-12));
  CHECK(o.ds[0] == Approx(-p0 * o.delta[0]).epsilon(1e-12));
  CHECK(std::fabs(o.ds[1] + p1 * o.delta[0]) < 0x1p-52 * exact);
}

TEST_CASE("gradient points: the vector form of the wide chain is the plain one and, on codes, the unit", "[bias]") {
  using namespace stickybit::detail;
  std::mt19937_64 random(seed + 2);
  testing::tally plain("wide_chains is wide_chain, wide operands of 4 sizes", seed + 2), unit_itself("wide_chains is inner_product, BF16 operands", seed + 2);
  std::normal_distribution<double> normal;
  for (const char* name : {"sm90.wgmma.bf16.f32", "sm90.mma.bf16k8.f32", "sm80.mma.bf16.f32"})
    for (const double size : {1.0, 0x1p-60, 0x1p-126, 0x1p100}) {
      machine_unit const& unit = unit_named(name);
      constexpr std::int64_t rows = 5, k = 72, columns = 24;
      std::vector<bf16_code> b = random_codes(std::size_t(k * columns), 1, random);
      for (std::size_t i = 0; i < b.size(); i += 7) b[i] = i % 2 == 0 ? bf16_code::zero() : bf16_code::from_bits(std::uint16_t(random() & 0x807f));
      const wide_panel panel(b.data(), k, columns, columns);
      std::vector<double> a(rows * k), codes(rows * k), c(rows * columns), of_codes = c;
      for (std::size_t i = 0; i < a.size(); ++i) {
        a[i] = i % 11 == 0 ? 0 : size * normal(random) * std::exp2(double(random() % 12));
        codes[i] = to_double(bf16_of(a[i]));
      }
      for (double& x : c) x = random() % 3 == 0 ? 0 : size * normal(random);
      std::vector<double> expected = c;
      wide_chains(unit, {a.data(), rows, k, k, 1}, panel, 0, {c.data(), rows, columns, columns});
      wide_chains(unit, {codes.data(), rows, k, k, 1}, panel, 0, {of_codes.data(), rows, columns, columns});
      for (std::int64_t i = 0; i < rows; ++i) {
        const std::span<double> row = std::span(expected).subspan(std::size_t(i * columns), columns);
        wide_chain(unit, std::span(a).subspan(std::size_t(i * k), k), panel.values, 0, row);
        for (std::int64_t j = 0; j < columns; ++j) {
          const auto at = std::size_t(i * columns + j);
          plain.expect(c[at] == expected[at], [&] { return fmt::format("{} size {} row {} column {}: {} and {}", name, size, i, j, c[at], expected[at]); });
          std::vector<bf16_code> x, y;
          for (std::int64_t n = 0; n < k; ++n) x.push_back(bf16_of(codes[std::size_t(i * k + n)])), y.push_back(b[std::size_t(n * columns + j)]);
          const double by_unit = to_double(inner_product<format::bf16>(unit, x, y, f32_code::zero()));
          unit_itself.expect(of_codes[at] == by_unit, [&] { return fmt::format("{} size {} row {} column {}: {} and {}", name, size, i, j, of_codes[at], by_unit); });
        }
      }
    }
  plain.check();
  unit_itself.check();
}

TEST_CASE("gradient points: exact products of both kinds of matrix are plain sums, any number of columns", "[bias]") {
  using namespace stickybit::detail;
  std::mt19937_64 random(seed + 3);
  testing::tally sums("add_products", seed + 3);
  for (const std::int64_t columns : {1, 7, 8, 24, 65}) {
    constexpr std::int64_t rows = 6, k = 33;
    const std::vector<bf16_code> b = random_codes(std::size_t(2 * k * columns), 1, random);
    const wide_panel panel(b.data(), 2 * k, columns, columns);
    std::vector<double> a(rows * k), by_rows(std::size_t(rows * columns), 0.5), by_columns = by_rows;
    for (double& x : a) x = double(std::int64_t(random() % 4096)) - 2048;  // so that nothing is rounded
    add_products({a.data(), rows, k, k, 1}, panel, k, {by_rows.data(), rows, columns, columns});
    add_products({a.data(), rows, k, 1, rows}, panel, k, {by_columns.data(), rows, columns, columns});
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) {
        double expected[2] = {0.5, 0.5};
        for (std::int64_t n = 0; n < k; ++n) {
          const double x = to_double(b[std::size_t((k + n) * columns + j)]);
          expected[0] += a[std::size_t(i * k + n)] * x;
          expected[1] += a[std::size_t(n * rows + i)] * x;
        }
        const auto at = std::size_t(i * columns + j);
        sums.expect(by_rows[at] == expected[0] && by_columns[at] == expected[1], [&] { return fmt::format("{} columns, element {}, {}", columns, i, j); });
      }
  }
  sums.check();
}
