#include "key_results.hpp"

#include <cmath>
#include <limits>

#include "stickybit/format/value.hpp"
#include "stickybit/rounding/ieee_environment.hpp"

namespace stickybit::detail {

key_results::key_results(gradient_call const& call, score_plan const& sets, gradient_tensor tensor, std::int64_t b, std::int64_t key_head)
    : call_(call), rules_(*call.plan.rules), tensor_(tensor), products_(tensor == gradient_tensor::dk ? sets.dk : sets.dv),
      uses_(tensor == gradient_tensor::dk ? sets.dk_uses : sets.dv_uses), b_(b), key_head_(key_head), group_(call.problem.heads / call.problem.key_heads),
      scale_(tensor == gradient_tensor::dk ? call.output_scale() : 1), scalars_(rules_.scalars == subnormals::flushed), additions_(rules_.dq_additions == subnormals::flushed), kept_(false) {
  const auto size = std::size_t(call.problem.keys * call.problem.head_dim);
  exact_.resize(size);
  if (tensor == gradient_tensor::dk) direction_.resize(size);
  if (group_ == 1) return;
  for (product_use const& use : uses_) {
    const bool lanes = use.group && rules_.group == group_sum::bf16_outputs;
    sums_.emplace_back(lanes ? 4 : 1, std::vector<double>(size));
  }
}

/// Sums of differences, of which nothing is rounded: the error itself.
bool key_results::is_error(product_use const& use) const noexcept {
  const product_kind kind = products_[use.product].kind;
  return (kind == product_kind::nothing || kind == product_kind::difference) && !use.scale && !use.group && !use.cast;
}

double key_results::head_value(product_use const& use, key_sums const& sums, std::size_t element, double exact) const {
  const product_kind kind = products_[use.product].kind;
  const double sum = kind == product_kind::nothing ? 0 : kind == product_kind::chain ? to_double(sums.codes[element]) : sums.wide[element];
  if (is_error(use)) return sum * scale_;
  const bool from_exact = kind == product_kind::nothing || kind == product_kind::difference;
  if (!use.scale) return from_exact ? exact + sum * scale_ : sum * scale_;
  return scalars_.mul(from_exact ? exact / scale_ + sum : sum, to_double(call_.plan.scales.scale));
}

/// @param in_group  the query head's number in the group  @param lanes  accumulators, [1 or 4][s_k × d]
void key_results::add_to(std::vector<std::vector<double>>& lanes, std::int64_t in_group, product_use const& use, std::size_t element, double value) const {
  if (lanes.size() > 1) {
    double& sum = lanes[std::size_t(in_group % 4)][element];
    sum = kept_.add(sum, bf16_of_double(value));
  } else {
    double& sum = lanes.front()[element];
    sum = use.group ? additions_.add(sum, value) : sum + value;
  }
}

void key_results::add_head(std::int64_t head, head_products const& products) {
  last_ = &products;
  std::vector<key_sums> const& sums = sums_of(products);
  head_gradients const& values = call_.reference.values(b_, head);
  std::vector<double_double> const& exact = tensor_ == gradient_tensor::dk ? values.dk : values.dv;
  const auto size = std::ptrdiff_t(exact_.size());
#pragma omp parallel if (size >= 65536)
  {
    const host::ieee_environment ieee;
#pragma omp for schedule(static)
    for (std::ptrdiff_t i = 0; i < size; ++i) {
      const auto element = std::size_t(i);
      exact_[element] = exact_[element] + exact[element];
      if (!direction_.empty()) direction_[element] += products.weighted_queries[element];
      for (std::size_t u = 0; u < sums_.size(); ++u)
        add_to(sums_[u], head - key_head_ * group_, uses_[u], element, head_value(uses_[u], sums[uses_[u].product], element, exact[element].hi));
    }
  }
}

double key_results::finished(std::size_t use, std::size_t element) const {
  if (group_ == 1) {
    const double value = head_value(uses_[use], sums_of(*last_)[uses_[use].product], element, exact_[element].hi);
    return uses_[use].cast ? bf16_of_double(value) : value;
  }
  double sum = sums_[use].front()[element];
  for (std::size_t lane = 1; lane < sums_[use].size(); ++lane) sum = kept_.add(sum, sums_[use][lane][element]);
  // The FP32 sums of a group pass one more multiplication, by 1.
  if (uses_[use].group && rules_.group == group_sum::fp32_outputs) sum = scalars_.mul(sum, 1);
  return uses_[use].cast ? bf16_of_double(sum) : sum;
}

std::int64_t key_results::finish_key(std::int64_t key, std::vector<double>& errors, gradient_error_sink& sink) const {
  const auto d = std::size_t(call_.problem.head_dim), first = std::size_t(key) * d, kernel_at = std::size_t(call_.problem.key_strides().offset(b_, key_head_, key));
  std::vector<bf16_code> const& kernel = tensor_ == gradient_tensor::dk ? call_.kernel.dk : call_.kernel.dv;
  std::int64_t wrong = 0;
  errors.resize(uses_.size() * d);
  for (std::size_t u = 0; u < uses_.size(); ++u)
    for (std::size_t j = 0; j < d; ++j) {
      const double_double exact = exact_[first + j];
      const bf16_code code = kernel[kernel_at + j];
      const double x = finished(u, first + j);
      wrong += uses_[u].complete && code.is_finite() && x != to_double(code);
      double& error = errors[u * d + j];
      error = is_error(uses_[u]) ? x : (x - exact.hi) - exact.lo;
      if (!std::isfinite(exact.hi) || !code.is_finite()) error = std::numeric_limits<double>::quiet_NaN();
    }
  std::vector<double> direction(d);
  for (std::size_t j = 0; j < d; ++j) direction[j] = direction_.empty() ? exact_[first + j].hi : direction_[first + j];
  sink.take_key(tensor_, b_, key_head_, key, errors, direction);
  return wrong;
}

}  // namespace stickybit::detail
