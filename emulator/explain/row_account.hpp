#pragma once
#include "stickybit/exact/constants.hpp"
#include "stickybit/explain/attention_account.hpp"
#include "tracing.hpp"

// What the accounts of forward and backward passes share.

namespace stickybit::detail {

/// An account that knows s and L of a call.
[[nodiscard]] account account_for(attention_schedule const& schedule, attention_problem const& problem);

/// Literals of the account, which get recorded where they meet.
[[nodiscard]] std::vector<traced_bf16> literals(account& in, std::span<bf16_code const> codes);

inline void name(traced_f32 const& x, quantity q) {
  if (x.in() != nullptr) x.in()->name(x.step(), q);
}
inline void name(traced_bf16 const& x, quantity q) {
  if (x.in() != nullptr) x.in()->name(x.step(), q);
}

/// Names S, P, dP and dS of one place of a score worker's block; the last step before a cast is named too.
/// @param index  the key, or the row
template <class Worker>
void name_scores(account& all, Worker const& worker, std::size_t row, std::size_t column, std::int32_t index) {
  name(worker.s(row)[column], {"S", index});
  name(worker.p(row)[column], {"p", index});
  name(worker.p_cast(row)[column], {"P", index});
  name(worker.dp(row)[column], {"dP", index});
  name(worker.ds(row)[column], {"dS^", index});
  const std::int32_t last = worker.ds(row)[column].step();
  if (last >= 0 && all[std::size_t(last)].op == operation::cast) all.name(all.operands(std::size_t(last))[0].step, {"dS", index});
}

/// The account of a result: the steps that it depends on. A result that no step gave (a constant of the law) becomes an input.
template <format F>
[[nodiscard]] account finished(account& all, traced<F> const& result, quantity q) {
  std::int32_t step = result.step();
  if (step == account_operand::literal) step = all.input(F, result.value().to_bits(), {to_double(result.value()), 0}, q);
  all.name(step, q);
  return all.only(step);
}

[[nodiscard]] account forward_account(attention_schedule const& schedule, attention_problem const& problem, std::string_view tensor, element_place at);
[[nodiscard]] account row_gradient_account(attention_schedule const& schedule, attention_problem const& problem, std::string_view tensor, element_place at,
                                           forward_result const& forward);
[[nodiscard]] account key_gradient_account(attention_schedule const& schedule, attention_problem const& problem, std::string_view tensor, element_place at,
                                           forward_result const& forward);

/// Runs f with the subnormals of scalar operations and the operand type of products as template arguments: f.template operator()<S, Operand>().
template <class F>
auto with_arithmetic(subnormals s, bool in_fp32, F&& f) {
  if (s == subnormals::flushed) return in_fp32 ? f.template operator()<subnormals::flushed, traced_f32>() : f.template operator()<subnormals::flushed, traced_bf16>();
  return in_fp32 ? f.template operator()<subnormals::kept, traced_f32>() : f.template operator()<subnormals::kept, traced_bf16>();
}

}  // namespace stickybit::detail
