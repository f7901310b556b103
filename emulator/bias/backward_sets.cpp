#include "backward_sets.hpp"

#include <algorithm>

namespace stickybit::detail {

std::vector<backward_point> points_of(backward_rules const& rules, bool grouped, gradient_tensor tensor) {
  using enum backward_point;
  const bool scales_outputs = rules.scaled == scale_place::outputs;
  switch (tensor) {
    case gradient_tensor::delta: return {stored_o, delta_sum};
    case gradient_tensor::dp: return {dp};
    case gradient_tensor::dv: {
      std::vector<backward_point> points{stored_lse, s, exp_argument, exp2, p_cast, dv_chain};
      if (grouped) points.push_back(group_sum);
      points.push_back(output_cast);
      return points;
    }
    default: break;
  }
  std::vector<backward_point> points{stored_o, delta_sum, stored_lse, s, exp_argument, exp2};
  if (rules.gradient == score_gradient::from_bf16_weights) points.push_back(p_cast);
  points.insert(points.end(), {dp, ds_arithmetic, ds_cast});
  if (tensor == gradient_tensor::ds) return points;
  points.push_back(tensor == gradient_tensor::dq ? dq_chain : dk_chain);
  if (tensor == gradient_tensor::dq && rules.dq != dq_sum::one_chain) points.push_back(backward_point::dq_sum);
  if (scales_outputs) points.push_back(scale);
  if (tensor == gradient_tensor::dk && grouped) points.push_back(group_sum);
  points.push_back(output_cast);
  return points;
}

backward_points set_of(std::span<backward_point const> points) noexcept {
  backward_points set = backward_points::none();
  for (backward_point p : points) set = set.with(p);
  return set;
}

std::size_t score_plan::weights_of(backward_points set) {
  const backward_points own = set.among(points_of_weights);
  const auto found = std::ranges::find(weights, own);
  if (found != weights.end()) return std::size_t(found - weights.begin());
  weights.push_back(own);
  return weights.size() - 1;
}

std::size_t score_plan::operand_of(std::vector<score_operand>& operands, backward_points set) {
  const auto found = std::ranges::find(operands, set, &score_operand::set);
  if (found != operands.end()) return std::size_t(found - operands.begin());
  operands.push_back({set, weights_of(set)});
  return operands.size() - 1;
}

namespace {

/// @param rounded_later  something after the product rounds: a tie must be seen as one, so the product itself is needed
product_kind kind_of(bool chained, bool cast, bool rounded_sum, bool rounded_later, bool exact_operand) noexcept {
  if (chained) return cast ? product_kind::chain : product_kind::wide_chain;
  if (rounded_sum) return product_kind::exact_parts;
  if (exact_operand) return product_kind::nothing;
  return rounded_later ? product_kind::exact_parts : product_kind::difference;
}

void mark(score_operand& operand, product_kind kind) noexcept {
  operand.difference = operand.difference || kind == product_kind::difference;
  operand.value = operand.value || kind == product_kind::exact_parts || kind == product_kind::wide_chain;
  operand.codes = operand.codes || kind == product_kind::chain;
}

std::size_t product_of(std::vector<score_product>& products, std::size_t operand, product_kind kind, bool rounded_sum) {
  auto found = std::ranges::find_if(products, [&](score_product const& p) { return p.operand == operand && p.kind == kind; });
  if (found == products.end()) found = products.insert(found, {operand, kind});
  (rounded_sum ? found->rounded_sum : found->exact_sum) = true;
  return std::size_t(found - products.begin());
}

}  // namespace

void score_plan::add_use(backward_rules const& rules, gradient_tensor tensor, backward_points set, backward_points all) {
  using enum backward_point;
  const bool of_weights = tensor == gradient_tensor::dv, of_queries = tensor == gradient_tensor::dq;
  std::vector<backward_point> up = points_of(rules, false, gradient_tensor::ds);
  if (of_weights) up = {stored_lse, s, exp_argument, exp2, p_cast};
  const backward_points upstream = set.among(set_of(up));
  std::vector<score_operand>& operands = of_weights ? p : ds;
  const std::size_t operand = operand_of(operands, upstream);
  const bool chained = set.has(of_weights ? dv_chain : of_queries ? dq_chain : dk_chain);
  const bool rounded_sum = of_queries && set.has(backward_point::dq_sum) && all.has(backward_point::dq_sum);
  const bool rounded_later = set.has(output_cast) || (!of_weights && set.has(scale)) || (!of_queries && set.has(group_sum));
  const product_kind kind = kind_of(chained, upstream.has(of_weights ? p_cast : ds_cast), rounded_sum, rounded_later, upstream == backward_points::none());
  mark(operands[operand], kind);
  std::vector<score_product>& products = of_weights ? dv : of_queries ? dq : dk;
  (of_weights ? dv_uses : of_queries ? dq_uses : dk_uses)
      .push_back({product_of(products, operand, kind, rounded_sum), rounded_sum, set.has(scale), set.has(group_sum), set.has(output_cast), set == all});
}

score_plan::score_plan(backward_rules const& rules, bool grouped, std::span<std::vector<backward_points> const, gradient_tensors> sets) {
  for (const gradient_tensor tensor : {gradient_tensor::ds, gradient_tensor::dq, gradient_tensor::dk, gradient_tensor::dv}) {
    const backward_points all = set_of(points_of(rules, grouped, tensor));
    for (const backward_points asked : sets[std::size_t(tensor)]) {
      const backward_points set = asked.among(all);
      if (tensor != gradient_tensor::ds) add_use(rules, tensor, set, all);
      else ds_uses.push_back(operand_of(ds, set));
    }
  }
}

}  // namespace stickybit::detail
