#include "stickybit/exact/dot_products.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "inputs.hpp"
#include "measure.hpp"
#include "stickybit/format/value.hpp"
#include "support/catch.hpp"

using namespace stickybit;
using namespace stickybit_test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

big exact_dot(matrix const& a, std::size_t i, matrix const& b, std::size_t j) {
  big sum = 0;
  for (std::size_t c = 0; c < a.columns; ++c) sum += big(to_double(a.at(i, c))) * big(to_double(b.at(j, c)));
  return sum;
}

}  // namespace

TEST_CASE("dot_products: product and distance to the largest within 5u² whatever cancels, 9 kinds x 200 heads, seed 9", "[exact][unit]") {
  head_maker maker(9);
  for (kind what : all_kinds) {
    worst product, distance;
    for (int n = 0; n < 200; ++n) {
      const head h = maker.make(what);
      const dot_products table(h.k.view());
      std::vector<double_double> got(h.k.rows), below(h.k.rows);
      for (std::size_t i = 0; i < h.q.rows; ++i) {
        table.evaluate(h.q.view().row(i), got);
        const double_double largest = table.evaluate_below_largest(h.q.view().row(i), below);
        std::vector<big> truth;
        for (std::size_t j = 0; j < h.k.rows; ++j) truth.push_back(exact_dot(h.q, i, h.k, j));
        const big top = *std::max_element(truth.begin(), truth.end());
        product.see(value_of(largest) - top, top);
        for (std::size_t j = 0; j < h.k.rows; ++j) {
          product.see(value_of(got[j]) - truth[j], truth[j]);
          distance.see(value_of(below[j]) - (truth[j] - top), truth[j] - top);
        }
      }
    }
    WARN(std::string(name_of(what)) << ": " << product.text("product") << "; " << distance.text("distance"));
    CHECK(product.ratio() <= 5 * pow2_big(-106));
    CHECK(distance.ratio() <= 5 * pow2_big(-106));
  }
}

TEST_CASE("dot_products: NaN and infinity in each way of summing", "[exact][unit]") {
  // Column 2 decides the way: 1 leaves one double, 2^±50 takes two, 2^±120 fixed point.
  for (int e : {0, 50, 120}) {
    CAPTURE(e);
    matrix q(1, 4), k(6, 4);
    const auto set = [](matrix& m, std::size_t i, std::initializer_list<double> values) {
      std::size_t c = 0;
      for (double x : values) m.at(i, c++) = bf16(x);
    };
    const double big_one = std::ldexp(1.0, e), small_one = std::ldexp(1.0, -e);
    set(q, 0, {1, 0, big_one, 1});
    set(k, 0, {1, 1, small_one, small_one});
    set(k, 1, {-infinity, 1, big_one, 1});
    set(k, 2, {2, 1, small_one, small_one});
    std::vector<double_double> out(6);
    // Only finite products and −infinity.
    const dot_products first_three({k.codes.data(), 3, 4, k.stride});
    CHECK(value_of(first_three.evaluate_below_largest(q.view().row(0), std::span(out).first(3))) == 3 + big(small_one));
    CHECK(out[0] == double_double{-1});
    CHECK(out[1] == double_double{-infinity});
    CHECK(out[2] == double_double{0});
    set(k, 3, {infinity, 1, 1, 1});
    set(k, 4, {infinity, 1, -infinity, 1});
    set(k, 5, {1, infinity, 1, 1});  // 0·infinity
    const dot_products table(k.view());
    table.evaluate(q.view().row(0), out);
    CHECK(value_of(out[0]) == 2 + big(small_one));
    CHECK(out[1] == double_double{-infinity});
    CHECK(out[3] == double_double{infinity});
    CHECK(std::isnan(out[4].hi));
    CHECK(std::isnan(out[5].hi));
    CHECK(table.evaluate_below_largest(q.view().row(0), std::span(out).first(4)) == double_double{infinity});
    CHECK(std::isnan(table.evaluate_below_largest(q.view().row(0), out).hi));
  }
}

TEST_CASE("dot_products: wrong shapes are refused", "[exact][unit]") {
  const matrix k(3, 4), q(1, 5);
  const dot_products table(k.view());
  std::vector<double_double> out(4);
  CHECK_THROWS_AS(table.evaluate(q.view().row(0), out), std::invalid_argument);
  CHECK_THROWS_AS(table.evaluate(q.view().row(0).first(4), out), std::invalid_argument);
  CHECK_THROWS_AS(dot_products({k.codes.data(), 3, 4, 2}), std::invalid_argument);
}
