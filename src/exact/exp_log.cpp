#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "inlined.hpp"
#include "stickybit/exact/constants.hpp"
#include "stickybit/exact/double_double.hpp"
#include "stickybit/format/value.hpp"

namespace stickybit {
namespace {

// Constants: correctly rounded by mpmath 1.3 at 400 bits, e.g.
//   python3 -c "from mpmath import *; mp.prec=400; l=ln(2); h=mpf(float(l)); print(float(l).hex(), float(l-h).hex())"
// ln 2 = head + middle + last to 2^-140. head and middle are cut to 42 bits, so that their products with a whole number of
// up to 11 bits are exact.
constexpr double ln2_head = 0x1.62e42fefa38p-1, ln2_middle = 0x1.ef35793c76p-45, ln2_last = 0x1.cc01f97b57a08p-87;
constexpr double one_over_ln2 = 0x1.71547652b82fep+0;
constexpr double_double one_6th{0x1.5555555555555p-3, 0x1.5555555555555p-57};
constexpr double_double one_24th{0x1.5555555555555p-5, 0x1.5555555555555p-59};
constexpr double_double one_120th{0x1.1111111111111p-7, 0x1.1111111111111p-63};

constexpr int squarings = 8;

double_double scaled(double_double x, double power_of_two) noexcept { return {x.hi * power_of_two, x.lo * power_of_two}; }

/// x·2^k. A result that overflows is infinity; one below the normal numbers is rounded once (error ≤ 2^-1074).
double_double times_pow2(double_double x, int k) noexcept {
  if (k > 1000) x = scaled(scaled(x, pow2(1000)), pow2(k - 1000));
  else if (k >= -1000) x = scaled(x, pow2(k));
  else x = scaled(scaled(x, pow2(-500)), pow2(k + 500));  // the first factor is exact: |x| ≥ 1/2, and lo ≥ 2^-500 or not seen
  return std::isfinite(x.hi) ? inlined::quick_two_sum(x.hi, x.lo) : double_double{x.hi, 0};
}

}  // namespace

// x = k·ln 2 + r with |r| < 0.3466, t = r/2^8, expm1(t) by its Taylor series, then expm1(2t) = 2·expm1(t) + expm1(t)² eight times.
// Error, in u² = 2^-106 relative to e^r:
//   r     two additions, 3u² + 2u² of |r| ≤ 0.35 (the products with k are exact, ln 2 is known to 2^-140): 1.8
//   t     series: t + t²·q, |t| < 2^-9.5; the last addition gives 3, t²·q less than 0.1, its terms from t⁶ in double (their
//         rounding is below 2^-52·2^-57 of t) and the omitted t¹¹/11! (2^-120 of t) less than 0.1: 3.2 of |expm1(t)|
//   8 ×   (1+e)/(1+e/2) times the error so far, 1.2 over all steps, and 3 + 5|e|/(2+e) new, together less than 1.2·(3.2 + 8·3.2) = 35
//         of |expm1(r)| ≤ 0.4142·max(1, e^r): 14.5
//   1 + e 2
// Sum 18.3 < 32, so the bound 2^-101 holds.
double_double exp(double_double x) noexcept {
  if (std::isnan(x.hi)) return {x.hi, 0};
  if (x.hi > 709.8) return {std::numeric_limits<double>::infinity(), 0};  // ln 2^1024 = 709.78…
  if (x.hi < -745.2) return {};                                          // ln 2^-1075 = −745.13…
  constexpr double to_integer = 0x1.8p52;  // adding it rounds to a whole number
  const double k = (x.hi * one_over_ln2 + to_integer) - to_integer;
  double_double r = inlined::add(inlined::two_sum(x.hi, -(k * ln2_head)), inlined::two_sum(x.lo, -(k * ln2_middle)));
  r = inlined::add(r, -(k * ln2_last));

  const double_double t = scaled(r, pow2(-squarings));
  const double tail = t.hi * (1.0 / 720 + t.hi * (1.0 / 5040 + t.hi * (1.0 / 40320 + t.hi * (1.0 / 362880 + t.hi * (1.0 / 3628800)))));
  double_double q = inlined::add(one_120th, tail);
  q = inlined::add(one_24th, inlined::multiply(t, q));
  q = inlined::add(one_6th, inlined::multiply(t, q));
  q = inlined::add(inlined::multiply(t, q), 0.5);
  double_double e = inlined::add(t, inlined::multiply(inlined::multiply(t, t), q));
  for (int i = 0; i < squarings; ++i) e = inlined::add(scaled(e, 2), inlined::multiply(e, e));
  return times_pow2(inlined::add(e, 1.0), int(k));
}

// x = 2^k·m with √½ ≤ m ≤ √2, log m = 2·artanh(z) = 2z·(1 + z²/3 + z⁴/5 + …), z = (m−1)/(m+1), |z| ≤ 0.1716.
// Error in u² relative to the result: z 19 (2 + 2 + 15), the series 5 (its terms from z² on weigh at most 0.01, the omitted
// z⁴²/43 is 2^-112), their product 5: 29 for log m. k·ln 2 has 4, and |k·ln 2| ≤ 2·|result|, |log m| ≤ |result| for k ≠ 0; the
// sum adds 3: 2·4 + 29 + 3 = 40 < 64, so the bound 2^-100 holds; for k = 0 there is no sum and no cancellation.
double_double log(double_double x) noexcept {
  if (std::isnan(x.hi) || x.hi < 0) return {std::numeric_limits<double>::quiet_NaN(), 0};
  if (x.hi == 0) return {-std::numeric_limits<double>::infinity(), 0};
  if (std::isinf(x.hi)) return {x.hi, 0};
  int k = 0;
  if (x.hi < pow2(-900)) {  // lo too becomes normal
    x = scaled(x, pow2(200));
    k = -200;
  }
  const int e = int(std::bit_cast<std::uint64_t>(x.hi) >> 52) - 1023;
  // In two steps, because 2^-1023 is subnormal.
  double_double m = scaled(scaled(x, pow2(-(e / 2))), pow2(-(e - e / 2)));
  k += e;
  if (m.hi > 0x1.6a09e667f3bcdp+0) {  // √2
    m = scaled(m, 0.5);
    ++k;
  }
  const double_double z = inlined::divide(inlined::add(m, -1.0), inlined::add(m, 1.0));
  const double_double w = inlined::multiply(z, z);
  double_double series{};
  for (int n = 20; n > 0; --n) series = inlined::multiply(w, inlined::add(series, inlined::divide({1, 0}, {2.0 * n + 1, 0})));
  const double_double log_m = scaled(inlined::multiply(z, inlined::add(series, 1.0)), 2);
  return k == 0 ? log_m : inlined::add(inlined::multiply(exact_ln_2, k), log_m);
}

}  // namespace stickybit
