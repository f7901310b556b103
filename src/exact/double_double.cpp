#include "stickybit/exact/double_double.hpp"

#include <cmath>

#include "inlined.hpp"

namespace stickybit {
namespace {

/// The result, or, where an error term came out as infinity − infinity or infinity·0, what IEEE 754 gives for the heads.
double_double finite_or(double_double result, double ieee) noexcept {
  return std::isfinite(result.hi) && std::isfinite(result.lo) ? result : double_double{ieee, 0};
}

}  // namespace

double_double two_sum(double a, double b) noexcept { return finite_or(inlined::two_sum(a, b), a + b); }
double_double quick_two_sum(double a, double b) noexcept { return finite_or(inlined::quick_two_sum(a, b), a + b); }
double_double two_product(double a, double b) noexcept { return finite_or(inlined::two_product(a, b), a * b); }

double_double operator+(double_double a, double_double b) noexcept { return finite_or(inlined::add(a, b), a.hi + b.hi); }
double_double operator-(double_double a, double_double b) noexcept { return finite_or(inlined::add(a, -b), a.hi - b.hi); }
double_double operator+(double_double a, double b) noexcept { return finite_or(inlined::add(a, b), a.hi + b); }
double_double operator*(double_double a, double_double b) noexcept { return finite_or(inlined::multiply(a, b), a.hi * b.hi); }
double_double operator*(double_double a, double b) noexcept { return finite_or(inlined::multiply(a, b), a.hi * b); }
double_double operator/(double_double a, double_double b) noexcept { return finite_or(inlined::divide(a, b), a.hi / b.hi); }

}  // namespace stickybit
