#include "stickybit/exact/weighted_sum.hpp"

#include <random>
#include <string>
#include <vector>

#include "inputs.hpp"
#include "measure.hpp"
#include "stickybit/format/value.hpp"
#include "support/catch.hpp"

using namespace stickybit;
using namespace stickybit_test;

TEST_CASE("weighted_sum: within its bound, cancelling or not, 300 sums of up to 400 rows of 3 columns, seed 10", "[exact][unit]") {
  head_maker maker(10);
  std::mt19937_64 random(10);
  worst error;
  weighted_sum sums(3);
  for (int n = 0; n < 300; ++n) {
    const std::size_t rows = maker.pick(1, 400);
    const int spread = n % 3 * 20;
    sums.clear();
    std::vector<big> truth(3), scale(3);
    std::vector<double> row(3);
    double_double weight{};
    for (std::size_t j = 0; j < rows; ++j) {
      const bool cancel = n % 2 && j % 2;
      weight = cancel ? -weight : random_double_double(random, -spread, 0);
      for (std::size_t c = 0; c < 3; ++c) {
        if (!cancel) row[c] = to_double(maker.with_exponent(127 - spread, 127 + spread));
        truth[c] += value_of(weight) * big(row[c]);
        scale[c] += mp::abs(value_of(weight) * big(row[c]));
      }
      sums.add(weight, row);
    }
    std::vector<double_double> got(3);
    sums.result(got);
    const big bound = (1236 + 3 * big((rows + 31) / 32)) * pow2_big(-106);
    for (std::size_t c = 0; c < 3; ++c) error.see(value_of(got[c]) - truth[c], bound * scale[c], std::to_string(rows) + " rows");
  }
  WARN(error.text("weighted_sum, as a part of its bound"));
  CHECK(error.ratio() <= 1);
}
