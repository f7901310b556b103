#include <cmath>

#include "attention/backward_plan.hpp"
#include "attention/dq_finish.hpp"
#include "attention/row_delta.hpp"
#include "attention/score_worker.hpp"
#include "row_account.hpp"
#include "stickybit/attention/exact_head.hpp"

namespace stickybit::detail {
namespace {

/// One query row of the backward pass; head_backward has the whole law, this the part of it that is one row's.
template <subnormals S, class Operand>
class traced_row {
 public:
  using scalars = tracing_scalars<S>;

  traced_row(backward_plan const& plan, attention_problem const& p, account& in, element_place at, forward_result const& forward)
      : plan_(plan), rules_(*plan.rules), p_(p), all_(in), at_(at), panels_(p, at.batch, p.key_head_of(at.head)), worker_(plan, engine::definition),
        buffers_(std::size_t(plan.dq_buffers), f32_code::zero()) {
    const std::size_t d = std::size_t(p.head_dim), offset = std::size_t(p.query_strides().offset(at.batch, at.head, at.row));
    q_ = literals(in, std::span(p.q).subspan(offset, d));
    d_o_ = literals(in, std::span(p.d_o).subspan(offset, d));
    take_stored(forward, offset, d);
    prepare();
  }

  [[nodiscard]] traced_f32 lse_log2() const { return lse_log2_; }
  [[nodiscard]] traced_f32 delta() const { return delta_; }

  /// S, P, dP or dS of a key.
  traced_f32 score(std::string_view tensor, std::int64_t key) {
    take_scores(key / plan_.tile.key_columns);
    const auto j = std::size_t(key % plan_.tile.key_columns);
    if (tensor == "s") return worker_.s(0)[j];
    if (tensor == "p") return worker_.p(0)[j];
    return tensor == "dp" ? worker_.dp(0)[j] : row_product<scalars, Operand>::value(worker_.ds(0)[j]);
  }

  traced_bf16 dq(std::int64_t column) {
    for (const std::int64_t block : plan_.order)
      if (plan_.visits(at_.row, block)) take_block(block, column);
    if (rules_.mass != row_mass::kept) restore_row_mass();
    return scalars::to_bf16(dq_before_cast<scalars>(rules_, plan_.scales.scale, buffers_));
  }

 private:
  /// lse, O and O before its cast, as inputs that stand for their exact values.
  void take_stored(forward_result const& forward, std::size_t offset, std::size_t d) {
    const exact_attention head = exact_head(p_, plan_.mask, at_.batch, at_.head);
    const exact_rows exact = head.evaluate(std::size_t(at_.row), 1);
    const std::size_t row = std::size_t((at_.batch * p_.heads + at_.head) * p_.queries + at_.row);
    lse_ = traced_f32(all_, all_.input(format::f32, forward.lse[row].to_bits(), std::isfinite(exact.lse[0].hi) ? exact.lse[0] : double_double{}, {"lse"}));
    const bool keeps_f32 = rules_.delta_from != delta_source::bf16_output;
    for (std::size_t j = 0; j < d; ++j) {
      o_.emplace_back(all_, all_.input(format::bf16, forward.o[offset + j].to_bits(), exact.o[j], {"O", std::int32_t(j)}));
      if (keeps_f32) o_f32_.emplace_back(all_, all_.input(format::f32, forward.o_f32[offset + j].to_bits(), exact.o[j], {"O in FP32", std::int32_t(j)}));
    }
  }

  void prepare() {
    const traced_f32 guarded = lse_ == f32_code::infinity(true) ? traced_f32(f32_code::zero()) : lse_;
    lse_log2_ = scalars::mul(guarded, f32_log2_e);
    name(lse_log2_, {"lse2"});
    const bool natural = rules_.weight != weight_form::fused && rules_.weight != weight_form::scaled_difference;
    row_lse_ = natural ? guarded : lse_log2_;
    delta_ = rules_.delta == delta_sum::weighted_dp ? weighted_delta() : rules_.delta == delta_sum::tensor_core ? tensor_core_delta() : delta_from_output<scalars>(rules_, d_o_, {o_, o_f32_});
    name(delta_, {"delta"});
  }

  backward_rows_of<traced_f32, traced_bf16> rows() const {
    return {at_.row, matrix_rows<traced_bf16 const>(std::span(q_)), matrix_rows<traced_bf16 const>(std::span(d_o_)), {&row_lse_, 1}, {&delta_, 1}};
  }

  traced_f32 tensor_core_delta() {
    if constexpr (std::same_as<Operand, traced_bf16>) {
      std::vector<account_operand> a, b;
      for (std::size_t j = 0; j < o_.size(); ++j) {
        a.push_back(d_o_[j].as_operand());
        b.push_back(o_[j].as_operand());
      }
      return trace_chain(*plan_.unit, a, b, f32_code::zero(), all_);
    } else {
      traced_f32 sum = f32_code::zero();
      for (std::size_t j = 0; j < o_.size(); ++j) sum = scalars::fma(widened(o_[j]), widened(d_o_[j]), sum);
      return sum;
    }
  }

  traced_f32 weighted_delta() {
    four_lanes<scalars> products, weights;
    for (std::int64_t block = 0; block < plan_.key_blocks; ++block) {
      if (!plan_.visits(at_.row, block)) continue;
      worker_.weights(panels_, rows(), block);
      worker_.products_with_values(panels_, rows());
      for (std::size_t j = 0; j < worker_.p(0).size(); ++j) products.add_product(j, worker_.p(0)[j], worker_.dp(0)[j]);
      weights.add(worker_.p(0));
    }
    const traced_f32 sum = weights.joined();
    return sum.is_zero() ? traced_f32(f32_code::zero()) : scalars::div(products.joined(), sum);
  }

  void take_scores(std::int64_t block) {
    worker_.weights(panels_, rows(), block);
    worker_.gradients(panels_, rows());
    for (std::size_t j = 0; j < worker_.p(0).size(); ++j) name_scores(all_, worker_, 0, j, std::int32_t(worker_.first_column() + std::int64_t(j)));
  }

  /// A block's part of dQ's element.
  traced_f32 product_with_keys(matrix_rows<Operand const> a, traced_f32 start, std::int64_t column) {
    worker_.product().accumulate(a, panels_.key_rows, worker_.first_column(), column, matrix_rows<traced_f32>(std::span(&start, 1)));
    return start;
  }

  void take_block(std::int64_t block, std::int64_t column) {
    take_scores(block);
    traced_f32& buffer = buffers_[std::size_t(block % plan_.dq_buffers)];
    const bool chained = rules_.dq == dq_sum::one_chain, whole = plan_.columns_of(block) == plan_.tile.key_columns;
    traced_f32 part = product_with_keys(worker_.ds_rows(0, 1), chained ? buffer : traced_f32(f32_code::zero()), column);
    if (!whole && !worker_.padding_gradient(rows(), 0).is_finite()) part = f32_code::nan();
    name(part, {"part", std::int32_t(block)});
    buffer = chained ? part : dq_add<tracing_scalars>(rules_, buffer, part);
    if (rules_.mass != row_mass::kept) take_mass(column);
  }

  // As head_backward has it, for one row.

  /// The weights of the correction: BF16 P, or 1 for each visible key.
  std::vector<Operand> mass_weights() const {
    if (rules_.mass == row_mass::by_weights) return {worker_.p_cast(0).begin(), worker_.p_cast(0).end()};
    std::vector<Operand> w;
    for (std::int64_t j = 0; j < std::ssize(worker_.ds(0)); ++j)
      w.push_back(row_product<scalars, Operand>::operand(traced_f32(j < worker_.visible(0) ? f32_code::from_bits(0x3f800000) : f32_code::zero())));
    return w;
  }

  void take_mass(std::int64_t column) {
    const std::vector<Operand> w = mass_weights();
    std::vector<traced_f32> values(w.size());
    row_product<scalars, Operand>::values(worker_.ds(0), values);
    mass_.add(values);
    row_product<scalars, Operand>::values(w, values);
    weight_sum_.add(values);
    const traced_f32 part = product_with_keys(matrix_rows<Operand const>(std::span<Operand const>(w)), f32_code::zero(), column);
    weighted_keys_ = dq_add<tracing_scalars>(rules_, weighted_keys_, part);
  }

  void restore_row_mass() {
    const traced_f32 sum = weight_sum_.joined(), mass = mass_.joined();
    name(mass, {"row mass"});
    const traced_f32 share = sum.is_zero() ? traced_f32(f32_code::zero()) : scalars::div(mass, sum);
    name(weighted_keys_, {"wK"});
    buffers_[0] = scalars::fma(share.negated(), weighted_keys_, buffers_[0]);
  }

  backward_plan const& plan_;
  backward_rules const& rules_;
  attention_problem const& p_;
  account& all_;
  element_place at_;
  backward_key_panels panels_;
  score_worker<scalars, Operand> worker_;
  std::vector<traced_bf16> q_, d_o_, o_;  // [d]
  std::vector<traced_f32> o_f32_;         // [d], where delta is formed from it
  traced_f32 lse_, lse_log2_, row_lse_, delta_;
  std::vector<traced_f32> buffers_;  // of dQ's element
  four_lanes<scalars> mass_, weight_sum_;
  traced_f32 weighted_keys_ = f32_code::zero();
};

}  // namespace

account row_gradient_account(attention_schedule const& schedule, attention_problem const& p, std::string_view tensor, element_place at, forward_result const& forward) {
  const backward_plan plan = plan_backward(schedule, p);
  account all = account_for(schedule, p);
  return with_arithmetic(schedule.backward.scalars, schedule.backward_in_fp32, [&]<subnormals S, class Operand>() {
    traced_row<S, Operand> row(plan, p, all, at, forward);
    if (tensor == "delta") return finished(all, row.delta(), {"delta"});
    if (tensor == "lse_log2") return finished(all, row.lse_log2(), {"lse2"});
    if (tensor == "dq") return finished(all, row.dq(at.column), {"dQ"});
    return finished(all, row.score(tensor, at.column), {tensor, std::int32_t(at.column)});
  });
}

}  // namespace stickybit::detail
