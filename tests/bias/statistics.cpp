#include "stickybit/bias/statistics.hpp"

#include <cmath>

#include "stickybit/bias/signed_error.hpp"
#include "support/catch.hpp"

using namespace stickybit;

TEST_CASE("bias: the sign test's p is the binomial tail, both sides", "[bias]") {
  CHECK(sign_test(0, 0) == 1);
  CHECK(sign_test(1, 0) == Approx(1));
  CHECK(sign_test(5, 0) == Approx(2.0 / 32));
  CHECK(sign_test(8, 2) == Approx(2 * (1 + 10 + 45) / 1024.0));
  CHECK(sign_test(2, 8) == sign_test(8, 2));
  CHECK(sign_test(5, 5) == 1);
  CHECK(sign_test(5000, 4800) == Approx(sign_test(5001, 4800)).epsilon(0.05));  // across the change of method, 9800 and 10001 signs
  CHECK(sign_test(5100, 4901) == Approx(0.0472).epsilon(0.05));
}

TEST_CASE("bias: median and moments", "[bias]") {
  CHECK(median({3, 1, 2}) == 2);
  CHECK(median({4, 1, 3, 2}) == 2.5);
  CHECK(std::isnan(median({})));
  running_moments m;
  for (double x : {1.0, 2.0, 3.0, 4.0}) m.add(x);
  CHECK(m.mean() == 2.5);
  CHECK(m.variance() == Approx(5.0 / 3));
  CHECK(m.standard_error() == Approx(std::sqrt(5.0 / 12)));
}

TEST_CASE("bias: errors are counted in the ulp at the column's root mean square", "[bias]") {
  // One head, three rows, two columns. Column 0: values near 1, BF16 ulp 2^-7. Column 1: values near 8, ulp 2^-4.
  error_samples s(1, 3, 2);
  const double exact[3][2] = {{1.25, 8.5}, {1.5, 9.0}, {1.75, 8.0}}, error_ulps[3][2] = {{0.25, -0.5}, {0.5, -0.5}, {-0.25, -0.5}};
  for (int row = 0; row < 3; ++row)
    for (int column = 0; column < 2; ++column) {
      s.exact[s.at(0, row, column)] = exact[row][column];
      s.error[s.at(0, row, column)] = error_ulps[row][column] * (column == 0 ? 0x1p-7 : 0x1p-4);
    }
  const tensor_error e = summarize(s, format::bf16);
  REQUIRE(e.columns.size() == 2);
  CHECK(e.columns[0].ulp == 0x1p-7);
  CHECK(e.columns[1].ulp == 0x1p-4);
  CHECK(e.columns[0].mean_ulp == Approx(0.5 / 3));
  CHECK(e.columns[1].mean_ulp == Approx(-0.5));
  CHECK(e.columns[0].positive == 2);
  CHECK(e.columns[0].negative == 1);
  CHECK(e.columns[1].standard_error_ulp == Approx(0).margin(1e-12));
  CHECK(e.columns[1].sign_test == Approx(0.25));
  CHECK(e.mean_signed_error_ulp == Approx((0.5 / 3 - 0.5) / 2));
  CHECK(e.rms_error_ulp == Approx(std::sqrt((0.0625 + 0.25 + 0.0625 + 3 * 0.25) / 6)));
  CHECK(e.counted == 6);
  CHECK(e.rows.size() == 3);
  CHECK(e.rows[1].relative == Approx(std::hypot(0.5 * 0x1p-7, 0.5 * 0x1p-4) / std::hypot(1.5, 9.0)));
  CHECK(e.median_relative_error == Approx(e.rows[1].relative).epsilon(0.2));
}

TEST_CASE("bias: what is not finite, and rows of exact zeros, are left out and counted", "[bias]") {
  error_samples s(1, 3, 1);
  s.exact = {0, 2, 3};
  s.error = {0x1p-20, std::nan(""), 0x1p-7};
  const tensor_error e = summarize(s, format::bf16);
  CHECK(e.not_finite == 1);
  CHECK(e.counted == 2);
  CHECK(e.exact_zeros == 1);
  CHECK(e.rows_left_out == 2);
  CHECK(e.median_relative_error == Approx(0x1p-7 / 3));
}

TEST_CASE("bias: columns that always err together are reported as correlated", "[bias]") {
  error_samples together(1, 200, 8), apart(1, 200, 8);
  std::uint32_t state = 1;
  const auto noise = [&] { return double((state = state * 1664525 + 1013904223) >> 8) / (1 << 24) - 0.5; };
  for (int row = 0; row < 200; ++row) {
    const double shared = noise();
    for (int column = 0; column < 8; ++column) {
      together.exact[together.at(0, row, column)] = apart.exact[apart.at(0, row, column)] = 1;
      together.error[together.at(0, row, column)] = shared;
      apart.error[apart.at(0, row, column)] = noise();
    }
  }
  CHECK(summarize(together, format::bf16).column_correlation == Approx(1));
  CHECK(std::fabs(summarize(apart, format::bf16).column_correlation) < 0.05);
}
