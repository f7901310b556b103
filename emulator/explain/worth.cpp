#include "stickybit/explain/worth.hpp"

#include <cmath>
#include <numbers>

#include "by_format.hpp"
#include "stickybit/format/value.hpp"

namespace stickybit {
namespace {

/// d(step i) / d(its operand k), at the values it was carried out with.
double slope(account const& a, std::size_t i, std::size_t k) {
  const auto x = [&](std::size_t operand) { return a.value_of(i, operand); };
  switch (a[i].op) {
    case operation::input: return 0;
    case operation::add:
    case operation::cast: return 1;
    case operation::multiply: return x(1 - k);
    case operation::fma: return k == 2 ? 1 : x(1 - k);
    case operation::divide: return k == 0 ? 1 / x(1) : -x(0) / (x(1) * x(1));
    case operation::maximum:
      for (std::size_t before = 0; before < k; ++before)
        if (a.bits_of(i, before) == a[i].bits) return 0;
      return a.bits_of(i, k) == a[i].bits ? 1 : 0;
    case operation::ex2:
    case operation::exp2: return a.value_of(i) * std::numbers::ln2;
    case operation::expf: return a.value_of(i);
    case operation::rcp: return -1 / (x(0) * x(0));
    case operation::lg2:
    case operation::log2f: return std::numbers::log2e / x(0);
    case operation::logf: return 1 / x(0);
    case operation::block_fma: return k + 1 == a[i].operands ? 1 : x(k ^ 1);
  }
  return 0;
}

}  // namespace

error_worth worth_of(account const& a) {
  const std::size_t last = a.size() - 1;
  std::vector<double> slopes(a.size(), 0);
  slopes[last] = 1;
  error_worth w;
  w.steps.assign(a.size(), 0);
  const double at = a[last].exact.hi != 0 ? a[last].exact.hi : a.value_of(last);
  const double ulp = detail::with_format(a.ulp_format(last), [&]<format F>() { return ulp_at<F>(std::isfinite(at) ? at : 0); });
  for (std::size_t i = a.size(); i-- > 0;) {
    if (slopes[i] == 0) continue;
    const double exact = a[i].exact.hi;
    const double step_ulp = detail::with_format(a.ulp_format(i), [&]<format F>() { return ulp_at<F>(std::isfinite(exact) ? exact : 0); });
    const bool given = a[i].op == operation::input;
    // own_error_in_ulp is in ulp at the step's own exact result, which may stand in the neighbouring binade of `exact`.
    const double error = given ? a.error_in_ulp(i) * step_ulp : a.own_error(i);
    w.steps[i] = error == 0 ? 0 : error * slopes[i] / ulp;
    for (std::size_t k = 0; k < a[i].operands; ++k) {
      account_operand const& o = a.operands(i)[k];
      const double d = slope(a, i, k);
      if (o.step != account_operand::literal) slopes[std::size_t(o.step)] += d == 0 ? 0 : slopes[i] * (o.negated ? -d : d);
      else if (a[i].op != operation::block_fma && a.constant_of(o) != nullptr)
        w.constants += to_double(double_double{a.value_of(i, k), 0} - a.exact_of(i, k)) * d * slopes[i] / ulp;
    }
  }
  w.deciding = last;
  for (std::size_t i = 0; i < a.size() && !std::isfinite(a.value_of(last)); ++i)
    if (a[i].op != operation::input && !std::isfinite(a.value_of(i))) {
      w.deciding = i;
      return w;
    }
  for (std::size_t i = a.size(); i-- > 0;)
    if (std::fabs(w.steps[i]) > std::fabs(w.steps[w.deciding])) w.deciding = i;
  return w;
}

}  // namespace stickybit
