#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "attention/reference_rows.hpp"
#include "row_account.hpp"
#include "stickybit/rounding/ieee_environment.hpp"

namespace stickybit::detail {
namespace {

/// Gives the steps of one row their names as the law tells of them.
class forward_names {
 public:
  /// @param split  the keys are: names of what each part has carry the part
  forward_names(std::size_t column, bool split) : column_(column), split_(split), part_(split ? 0 : -1) {}

  void operator()(softmax_weight_of<traced_f32> const& e) const {
    name(e.argument, {"x", std::int32_t(e.column)});
    name(e.weight, {"p", std::int32_t(e.column)});
  }
  void operator()(softmax_block_of<traced_f32> const& e) {
    name(e.max_after, {"m", block_, part_});
    name(e.rescale, {"r", block_, part_});
    for (std::int32_t lane = 0; lane < 4 && !split_; ++lane) name(e.lane_sums[std::size_t(lane)], {"l", block_, lane});
  }
  void operator()(output_block_of<traced_f32> const& e) { name(e.accumulated[column_], {"A", block_++, part_}); }
  void operator()(softmax_finished_of<traced_f32> const& e) {
    name(e.sum, {"sum", -1, part_});
    name(e.divisor, {"bf16 sum", -1, part_});
    name(e.inverse_sum, {"1/sum", -1, part_});
    if (split_) ++part_;
    block_ = 0;
  }
  void operator()(part_joined_of<traced_f32> const& e) {
    name(e.lse, {"lse", -1, joined_});
    name(e.weight, {"weight", -1, joined_});
    name(e.o[column_], {"O/sum", -1, joined_++});
  }
  void operator()(output_ready_of<traced_f32> const& e) const { name(e.o[column_], {"O/sum"}); }

 private:
  std::size_t column_;
  bool split_;
  std::int32_t block_ = 0, part_, joined_ = 0;
};

/// S of every key that the row sees; what is masked the law does not ask for.
template <subnormals S, class Operand>
std::vector<traced_f32> scores_of(call_plan const& plan, attention_problem const& p, account& in, std::span<traced_bf16 const> q, key_value_panels const& panels, std::int64_t row) {
  std::vector<traced_f32> s(std::size_t(p.keys), f32_code::zero());
  const std::size_t visible = visible_keys(plan.mask, std::size_t(row), std::size_t(p.queries), std::size_t(p.keys));
  row_product<tracing_scalars<S>, Operand> product(*plan.unit, engine::definition);
  product.accumulate(matrix_rows<traced_bf16 const>(q), panels.keys, 0, 0, matrix_rows<traced_f32>(std::span(s).first(visible)));
  for (std::size_t key = 0; key < visible; ++key) in.name(s[key].step(), {"S", std::int32_t(key)});
  return s;
}

/// P of a row computed as a matrix, and what it was before its cast.
void name_weight(account& in, traced_bf16 const& p, std::int32_t key) {
  if (p.step() < 0) return;
  name(p, {"P", key});
  in.name(in.operands(std::size_t(p.step()))[0].step, {"softmax", key});
}

struct traced_output {
  std::vector<traced_bf16> o;
  traced_f32 lse;
};

template <subnormals S, class Operand>
traced_output run_scores(call_plan const& plan, attention_problem const& p, key_value_panels const& panels, std::span<traced_f32 const> s, element_place at, std::size_t column) {
  traced_output row{std::vector<traced_bf16>(std::size_t(p.head_dim)), {}};
  row_worker<tracing_scalars<S>, Operand> worker(plan, p, engine::definition);
  row.lse = worker.run(panels, at.batch, at.head, at.row, row.o.data(), forward_names(column, plan.splits > 1), s);
  return row;
}

template <subnormals S, class Operand>
traced_output run_row(call_plan const& plan, attention_problem const& p, account& in, element_place at, std::size_t column) {
  const key_value_panels panels(p, at.batch, p.key_head_of(at.head));
  const auto codes = std::span(p.q).subspan(std::size_t(p.query_strides().offset(at.batch, at.head, at.row)), std::size_t(p.head_dim));
  const std::vector<traced_bf16> q = literals(in, codes);
  if (plan.schedule->kind == schedule_kind::eager) {
    traced_output row{std::vector<traced_bf16>(std::size_t(p.head_dim)), {}};
    eager_worker<tracing_scalars<S>> worker(plan, p, engine::definition);
    row.lse = worker.run(panels, q, at.row, row.o.data());
    for (std::size_t key = 0; key < worker.weights().size(); ++key) name_weight(in, worker.weights()[key], std::int32_t(key));
    name(worker.output()[column], {"A", 0});
    return row;
  }
  return run_scores<S, Operand>(plan, p, panels, scores_of<S, Operand>(plan, p, in, q, panels, at.row), at, column);
}

}  // namespace

account forward_account(attention_schedule const& schedule, attention_problem const& p, std::string_view tensor, element_place at) {
  const call_plan plan = plan_call(schedule, p);
  account all = account_for(schedule, p);
  const auto column = std::size_t(tensor == "lse" ? 0 : at.column);
  const traced_output row = with_arithmetic(schedule.rules.scalars, schedule.forward_in_fp32,
                                            [&]<subnormals S, class Operand>() { return run_row<S, Operand>(plan, p, all, at, column); });
  return tensor == "lse" ? finished(all, row.lse, {"lse"}) : finished(all, row.o[column], {"O"});
}

}  // namespace stickybit::detail

namespace stickybit {
namespace {

/// O's first element, or lse, of these scores; NaN where a score is NaN or the largest infinite.
double_double exact_of_scores(attention_problem const& p, std::span<f32_code const> scores, std::string_view tensor) {
  double largest = -std::numeric_limits<double>::infinity();
  bool defined = true;
  for (f32_code s : scores) {
    defined = defined && !s.is_nan();
    largest = std::max(largest, to_double(s));
  }
  if (!defined || !std::isfinite(largest)) return {std::numeric_limits<double>::quiet_NaN(), 0};
  double_double sum{}, products{};
  for (std::size_t key = 0; key < scores.size(); ++key) {
    const double_double weight = exp((double_double{to_double(scores[key]), 0} + -largest) * p.softmax_scale);
    sum = sum + weight;
    if (weight.hi != 0) products = products + weight * to_double(p.v[key * std::size_t(p.head_dim)]);
  }
  return tensor == "o" ? products / sum : double_double{largest, 0} * p.softmax_scale + log(sum);
}

}  // namespace

attention_problem one_row_problem(std::span<f32_code const> scores, std::span<bf16_code const> values, double softmax_scale, std::int64_t head_dim) {
  if (scores.empty()) throw std::invalid_argument("softmax: expected at least one score");
  if (!values.empty() && values.size() != scores.size()) throw std::invalid_argument(fmt::format("softmax: {} scores and {} values: expected one value a score", scores.size(), values.size()));
  const auto d = std::size_t(head_dim);
  attention_problem p{.queries = 1, .keys = std::ssize(scores), .head_dim = head_dim, .softmax_scale = softmax_scale, .q = std::vector<bf16_code>(d), .k = {}, .v = {}, .d_o = {}};
  p.k.resize(scores.size() * d);
  p.v.resize(p.k.size());
  for (std::size_t key = 0; key < values.size(); ++key) p.v[key * d] = values[key];
  return p;
}

account account_of_softmax(attention_schedule const& schedule, attention_problem const& p, std::span<f32_code const> scores, std::string_view tensor) {
  using namespace detail;
  const host::ieee_environment ieee;
  if (!is_forward_tensor(tensor)) throw std::invalid_argument(fmt::format("tensor {}: expected o or lse", tensor));
  if (schedule.kind != schedule_kind::online) throw unsupported_call(fmt::format("schedule {} is not computed block by block", schedule.name));
  const call_plan plan = plan_call(schedule, p);
  account all = account_for(schedule, p);
  std::vector<traced_f32> s;
  for (f32_code x : scores) s.emplace_back(all, all.input(format::f32, x.to_bits(), {to_double(x), 0}, {"S", std::int32_t(s.size())}));
  const key_value_panels panels(p, 0, 0);
  const traced_output row = with_arithmetic(schedule.rules.scalars, schedule.forward_in_fp32, [&]<subnormals S, class Operand>() { return run_scores<S, Operand>(plan, p, panels, s, {}, 0); });
  account told = tensor == "lse" ? finished(all, row.lse, {"lse"}) : finished(all, row.o[0], {"O"});
  told.set_exact(std::int32_t(told.size()) - 1, exact_of_scores(p, scores, tensor));
  return told;
}

}  // namespace stickybit
