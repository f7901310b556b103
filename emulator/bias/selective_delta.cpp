#include "selective_delta.hpp"

#include <algorithm>
#include <vector>

#include "../attention/row_delta.hpp"
#include "stickybit/format/value.hpp"
#include "wide_chain.hpp"

namespace stickybit::detail {
namespace {

/// delta_in_lanes() for an O that no FP32 holds.
double sum_in_lanes(delta_sum order, rounded_doubles const& rounded, std::span<double const> d_o, std::span<double const> o) {
  const std::size_t d = d_o.size(), lanes = lanes_of_delta(order, d);
  const std::size_t run = order == delta_sum::serial ? d : 8, stride = order == delta_sum::serial ? d : 8 * lanes;
  std::vector<double> sums(lanes);
  const auto pair = [&](std::size_t j) { return rounded.fma(d_o[j], o[j], rounded.mul(d_o[j + 1], o[j + 1])); };
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    bool first = true;
    for (std::size_t begin = lane * run; begin < d; begin += stride)
      for (std::size_t j = begin; j < std::min(begin + run, d); ++j) {
        if (order == delta_sum::pairs_of_eight) sums[lane] = rounded.add(sums[lane], pair(j++));
        else if (first && j + 1 < d) sums[lane] = pair(j++);
        else sums[lane] = rounded.fma(d_o[j], o[j], sums[lane]);
        first = false;
      }
  }
  if (order == delta_sum::few_lanes)
    for (std::size_t step = 1; step < lanes; step *= 2)
      for (std::size_t i = 0; i < lanes; i += 2 * step) sums[i] = rounded.add(sums[i], sums[i + step]);
  else
    for (std::size_t half = lanes / 2; half != 0; half /= 2)
      for (std::size_t i = 0; i < half; ++i) sums[i] = rounded.add(sums[i], sums[i + half]);
  return sums[0];
}

/// O as delta meets it, its parts added.
std::vector<double_double> met_output(delta_source source, std::span<bf16_code const> stored, std::span<f32_code const> o_f32) {
  std::vector<double_double> o(stored.size());
  for (std::size_t j = 0; j < o.size(); ++j) {
    const double high = to_double(stored[j]);
    if (source == delta_source::bf16_output) o[j] = {high, 0};
    else if (source == delta_source::fp32_output) o[j] = {to_double(o_f32[j]), 0};
    else o[j] = two_sum(high, bf16_of_double(to_double(o_f32[j]) - high));
  }
  return o;
}

}  // namespace

delta_values delta_of_row(backward_plan const& plan, std::span<bf16_code const> d_o, std::span<bf16_code const> stored, std::span<f32_code const> o_f32,
                          std::span<double_double const> exact_o, double_double exact_delta, f32_code kernel) {
  backward_rules const& rules = *plan.rules;
  const std::size_t d = d_o.size();
  delta_values r;
  std::vector<double> gradient(d), wide(d);
  double_double of_stored{};
  const std::vector<double_double> met = met_output(rules.delta_from, stored, o_f32);
  for (std::size_t j = 0; j < d; ++j) {
    gradient[j] = to_double(d_o[j]);
    wide[j] = to_double(exact_o[j]);
    of_stored = of_stored + met[j] * gradient[j];
  }
  double of_exact = 0;
  if (rules.delta == delta_sum::tensor_core) {
    const value_rows column(d_o.data(), std::int64_t(d), 1, 1);
    wide_chain(*plan.unit, wide, column, 0, {&of_exact, 1});  // the factors change places
  } else {
    of_exact = sum_in_lanes(rules.delta, rounded_doubles(rules.scalars == subnormals::flushed), gradient, wide);
  }
  const auto error = [&](double x) { return to_double(double_double{x, 0} - exact_delta); };
  r.value = {exact_delta, of_stored, double_double{of_exact, 0}, double_double{to_double(kernel), 0}};
  r.error = {0, to_double(of_stored - exact_delta), error(of_exact), error(to_double(kernel))};
  return r;
}

}  // namespace stickybit::detail
