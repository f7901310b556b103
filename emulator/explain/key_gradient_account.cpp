#include <fmt/format.h>

#include <cmath>

#include "attention/backward_plan.hpp"
#include "attention/group_gradient.hpp"
#include "attention/row_delta.hpp"
#include "attention/score_worker.hpp"
#include "row_account.hpp"
#include "stickybit/attention/exact_head.hpp"

namespace stickybit::detail {
namespace {

/// One key of the backward pass, for one query head: its P or dS in every row that its block's tiles visit, and their chain.
template <subnormals S, class Operand>
class traced_key {
 public:
  using scalars = tracing_scalars<S>;

  /// @param alone, key  plan and call of this key alone
  /// @param exact   of this query head
  /// @param stored  of the whole call, for what the preprocessing of the backward pass stores
  traced_key(backward_plan const& plan, backward_plan const& alone, attention_problem const& p, attention_problem const& key, account& in, element_place at, std::int64_t head,
             forward_result const& forward, backward_result const& stored, head_gradients const& exact)
      : plan_(plan), p_(p), all_(in), panels_(key, 0, 0), worker_(alone, engine::definition), first_(std::min(p.queries, plan.first_row_of(at.row / plan.tile.key_columns))), batch_(at.batch), head_(head) {
    const auto rows = std::size_t(p.queries - first_), d = std::size_t(p.head_dim);
    for (std::size_t i = 0; i < rows; ++i) {
      const auto offset = std::size_t(p.query_strides().offset(batch_, head, first_ + std::int64_t(i)));
      const auto q = literals(in, std::span(p.q).subspan(offset, d)), d_o = literals(in, std::span(p.d_o).subspan(offset, d));
      q_.insert(q_.end(), q.begin(), q.end());
      d_o_.insert(d_o_.end(), d_o.begin(), d_o.end());
    }
    take_stored(forward, stored, exact, std::size_t((batch_ * p.heads + head) * p.queries + first_), rows);
    if (rows == 0) return;  // no tile of queries visits the key
    const auto count = std::int64_t(rows);
    const backward_rows_of<traced_f32, traced_bf16> all_rows{first_, {q_.data(), count, p.head_dim, p.head_dim}, {d_o_.data(), count, p.head_dim, p.head_dim}, lse_, delta_};
    worker_.weights(panels_, all_rows, 0);
    worker_.gradients(panels_, all_rows);
    for (std::size_t i = 0; i < rows; ++i) name_scores(all_, worker_, i, 0, std::int32_t(first_ + std::int64_t(i)));
  }

  traced_f32 dv(std::int64_t column) {
    return chain_over_rows(f32_code::zero(), [&](std::size_t i) { return worker_.p_cast(i)[0]; }, [&](std::size_t i) { return d_o_[element(i, column)]; });
  }

  /// @param shares  of the rows' mass for one unit of weight, [s]; empty where dK is not corrected
  traced_f32 dk(std::int64_t column, std::span<f32_code const> shares) {
    traced_f32 sum = chain_over_rows(f32_code::zero(), [&](std::size_t i) { return worker_.ds(i)[0]; }, [&](std::size_t i) { return q_[element(i, column)]; });
    if (shares.empty()) return sum;
    std::vector<traced_bf16> high, low;
    for (std::size_t i = 0; i < lse_.size(); ++i) {
      const auto row = std::int32_t(first_ + std::int64_t(i));
      const traced_f32 share(all_, all_.input(format::f32, shares[std::size_t(row)].to_bits(), {0, 0}, {"share", row}));
      const traced_f32 x = scalars::mul(share.negated(), widened(q_[element(i, column)]));
      high.push_back(scalars::to_bf16(x));
      low.push_back(scalars::to_bf16(scalars::add(x, widened(high.back()).negated())));
    }
    const auto weight = [&](std::size_t i) { return mass_weight(i); };
    sum = chain_over_rows(sum, weight, [&](std::size_t i) { return high[i]; });
    return chain_over_rows(sum, weight, [&](std::size_t i) { return low[i]; });
  }

 private:
  /// lse_log2 and delta of the rows: what the preprocessing stored, as inputs that stand for their exact values.
  void take_stored(forward_result const& forward, backward_result const& stored, head_gradients const& exact, std::size_t index, std::size_t rows) {
    const bool natural = plan_.rules->weight != weight_form::fused && plan_.rules->weight != weight_form::scaled_difference;
    for (std::size_t i = 0; i < rows; ++i) {
      const std::size_t row = std::size_t(first_) + i;
      const double_double lse = std::isfinite(exact.rows[row].lse.hi) ? exact.rows[row].lse : double_double{};  // a row without keys has no weight
      const auto number = std::int32_t(row);
      const f32_code natural_lse = forward.lse[index + i] == f32_code::infinity(true) ? f32_code::zero() : forward.lse[index + i];
      lse_.emplace_back(all_, natural ? all_.input(format::f32, natural_lse.to_bits(), lse, {"lse", number})
                                      : all_.input(format::f32, stored.lse_log2[index + i].to_bits(), lse * exact_log2_e, {"lse2", number}));
      delta_.emplace_back(all_, all_.input(format::f32, stored.delta[index + i].to_bits(), exact.delta[row], {"delta", number}));
    }
  }

  std::size_t element(std::size_t i, std::int64_t column) const { return i * std::size_t(p_.head_dim) + std::size_t(column); }

  Operand mass_weight(std::size_t i) {
    if (plan_.rules->mass == row_mass::by_weights) return worker_.p_cast(i)[0];
    return row_product<scalars, Operand>::operand(traced_f32(worker_.visible(i) > 0 ? f32_code::from_bits(0x3f800000) : f32_code::zero()));
  }

  /// sum + Σ a(i)·b(i), the rows in the rules' order.
  template <class A, class B>
  traced_f32 chain_over_rows(traced_f32 sum, A const& a, B const& b) {
    const auto take = [&](std::int64_t from, std::int64_t count) {
      if constexpr (std::same_as<Operand, traced_f32>) {
        for (std::int64_t row = from; row < from + count; ++row) sum = scalars::fma(widened(b(std::size_t(row - first_))), a(std::size_t(row - first_)), sum);
      } else {
        std::vector<account_operand> as, bs;
        for (std::int64_t row = from; row < from + count; ++row) {
          as.push_back(a(std::size_t(row - first_)).as_operand());
          bs.push_back(b(std::size_t(row - first_)).as_operand());
        }
        sum = trace_chain(*plan_.unit, as, bs, sum, all_);
      }
    };
    if (lse_.empty()) return sum;
    const std::int64_t tile = plan_.tile.query_rows;
    if (plan_.rules->queries == query_order::ascending) take(first_, p_.queries - first_);
    else
      for (std::int64_t m = (p_.queries - 1) / tile; m >= first_ / tile; --m) take(m * tile, std::min(tile, p_.queries - m * tile));
    return sum;
  }

  backward_plan const& plan_;
  attention_problem const& p_;
  account& all_;
  backward_key_panels panels_;
  score_worker<scalars, Operand> worker_;
  std::int64_t first_, batch_, head_;
  std::vector<traced_bf16> q_, d_o_;      // [rows × d]
  std::vector<traced_f32> lse_, delta_;   // [rows]
};

/// The call with one key of one key head: its K and V rows.
attention_problem key_alone(attention_problem const& p, element_place at) {
  const auto row = [&](std::vector<bf16_code> const& m) {
    const auto begin = m.begin() + p.key_strides().offset(at.batch, at.head, at.row);
    return std::vector<bf16_code>(begin, begin + p.head_dim);
  };
  return {.queries = p.queries, .keys = 1, .head_dim = p.head_dim, .softmax_scale = p.softmax_scale, .q = {}, .k = row(p.k), .v = row(p.v), .d_o = {}};
}

/// What the backward pass keeps of every row, as the emulator has it.
struct stored_rows {
  backward_result results;
  std::vector<f32_code> shares;  // of the row mass, [b, h, s]; empty where dK is not corrected

  [[nodiscard]] std::span<f32_code const> shares_of(attention_problem const& p, std::int64_t b, std::int64_t head) const {
    return shares.empty() ? std::span<f32_code const>() : std::span(shares).subspan(std::size_t((b * p.heads + head) * p.queries), std::size_t(p.queries));
  }
};

template <class Scalars>
stored_rows with_shares(attention_schedule const& schedule, attention_problem const& p, forward_result const& forward) {
  struct row_sums {
    four_lanes<Scalars> mass, weight;
  };
  std::vector<row_sums> sums(std::size_t(p.batch * p.heads * p.queries));
  backward_options options;
  options.scores = [&](score_block_row const& r) {  // each row's blocks come one after another
    row_sums& sum = sums[std::size_t((r.batch * p.heads + r.head) * p.queries + r.row)];
    sum.mass.add(r.ds);
    std::vector<f32_code> ones(r.p_cast.size(), f32_code::zero());
    std::fill_n(ones.begin(), r.visible, f32_code::from_bits(0x3f800000));
    sum.weight.add(schedule.backward.mass == row_mass::by_weights ? r.p_cast : std::span<f32_code const>(ones));
  };
  stored_rows stored{attention_backward(schedule, p, forward, options), {}};
  for (row_sums const& sum : sums) {
    const f32_code weight = sum.weight.joined();
    stored.shares.push_back(weight.is_zero() ? f32_code::zero() : Scalars::div(sum.mass.joined(), weight));
  }
  return stored;
}

stored_rows what_is_stored(attention_schedule const& schedule, attention_problem const& p, forward_result const& forward) {
  if (schedule.backward.mass == row_mass::kept || !schedule.backward.mass_in_dk) return {attention_backward(schedule, p, forward), {}};
  if (schedule.backward.scalars == subnormals::flushed) return with_shares<defined_scalars<subnormals::flushed>>(schedule, p, forward);
  return with_shares<defined_scalars<subnormals::kept>>(schedule, p, forward);
}

}  // namespace

account key_gradient_account(attention_schedule const& schedule, attention_problem const& p, std::string_view tensor, element_place at, forward_result const& forward) {
  const backward_plan plan = plan_backward(schedule, p);
  const attention_problem key = key_alone(p, at);
  const bool finite = std::ranges::all_of(key.k, [](bf16_code c) { return c.is_finite(); }) && std::ranges::all_of(key.v, [](bf16_code c) { return c.is_finite(); });
  if (!finite && plan.rows_padded() != p.queries) throw unsupported_call(fmt::format("key {}: its infinities or NaN meet the padding of the last tile, which has no account", at.row));
  std::vector<std::int64_t> visible;
  for (std::int64_t row = 0; row < p.queries; ++row) visible.push_back(plan.visible(row) > at.row ? 1 : 0);
  backward_plan alone = plan;
  alone.keys = 1;
  alone.key_blocks = 1;
  alone.mask = mask_alignment::none;
  alone.visible_rows = visible;
  account all = account_for(schedule, p);
  const stored_rows stored = what_is_stored(schedule, p, forward);
  const std::int64_t group = p.heads / p.key_heads;
  return with_arithmetic(schedule.backward.scalars, schedule.backward_in_fp32, [&]<subnormals S, class Operand>() {
    double_double value{};  // the mathematical one
    group_gradient<tracing_scalars, S> sum(*plan.rules, group, 1);
    const std::optional<f32_code> scale = tensor == "dk" && plan.rules->scaled == scale_place::outputs ? std::optional(plan.scales.scale) : std::nullopt;
    for (std::int64_t i = 0; i < group; ++i) {
      const std::int64_t head = at.head * group + i;
      const head_gradients exact = exact_gradients_of_head(p, plan.mask, at.batch, head).evaluate();
      value = value + (tensor == "dv" ? exact.dv : exact.dk)[std::size_t(at.row * p.head_dim + at.column)];
      traced_key<S, Operand> of_head(plan, alone, p, key, all, at, head, forward, stored.results, exact);
      const traced_f32 one = tensor == "dv" ? of_head.dv(at.column) : of_head.dk(at.column, stored.shares_of(p, at.batch, head));
      name(one, {"part", std::int32_t(i)});
      sum.add(i, {&one, 1}, scale);
    }
    account told = finished(all, sum.finish()[0], {tensor == "dk" ? "dK" : "dV"});
    told.set_exact(std::int32_t(told.size()) - 1, value);
    return told;
  });
}

}  // namespace stickybit::detail
