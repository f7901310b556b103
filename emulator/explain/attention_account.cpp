#include "stickybit/explain/attention_account.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <stdexcept>

#include "row_account.hpp"
#include "stickybit/attention/exact_head.hpp"
#include "stickybit/attention/smooth_keys.hpp"
#include "stickybit/rounding/ieee_environment.hpp"

namespace stickybit {
namespace {

constexpr std::array<std::string_view, 11> tensors{"o", "lse", "delta", "lse_log2", "s", "p", "dp", "ds", "dq", "dk", "dv"};

bool is_one_of(std::string_view tensor, std::initializer_list<std::string_view> names) { return std::ranges::find(names, tensor) != names.end(); }

void require_inside(std::string_view what, std::int64_t index, std::int64_t size) {
  if (size == 0) throw std::out_of_range(fmt::format("{} {}: the call has none", what, index));
  if (index < 0 || index >= size) throw std::out_of_range(fmt::format("{} {}: expected 0 to {}", what, index, size - 1));
}

void require_place(attention_problem const& p, std::string_view tensor, element_place at) {
  const bool of_key = is_one_of(tensor, {"dk", "dv"});
  require_inside("batch element", at.batch, p.batch);
  require_inside(of_key ? "key head" : "head", at.head, of_key ? p.key_heads : p.heads);
  require_inside(of_key ? "key" : "row", at.row, of_key ? p.keys : p.queries);
  if (is_one_of(tensor, {"s", "p", "dp", "ds"})) require_inside("key", at.column, p.keys);
  else if (!is_one_of(tensor, {"lse", "delta", "lse_log2"})) require_inside("column", at.column, p.head_dim);
}

/// The mathematical value of an element of o, lse, delta, dq, dk or dv; of others 0.
double_double exact_element(attention_problem const& p, mask_alignment mask, std::string_view tensor, element_place at) {
  const auto row = std::size_t(at.row), d = std::size_t(p.head_dim), column = std::size_t(at.column);
  if (is_forward_tensor(tensor)) {
    const exact_rows exact = exact_head(p, mask, at.batch, at.head).evaluate(row, 1);
    return tensor == "o" ? exact.o[column] : exact.lse[0];
  }
  if (is_one_of(tensor, {"dk", "dv"})) {
    const std::int64_t group = p.heads / p.key_heads;
    double_double sum{};
    for (std::int64_t head = at.head * group; head < (at.head + 1) * group; ++head) {
      const head_gradients g = exact_gradients_of_head(p, mask, at.batch, head).evaluate();
      sum = sum + (tensor == "dk" ? g.dk : g.dv)[row * d + column];
    }
    return sum;
  }
  const exact_gradients head = exact_gradients_of_head(p, mask, at.batch, at.head);
  std::vector<double_double> weights(std::size_t(p.keys)), dp(weights.size()), ds(weights.size()), dq(d);
  const gradient_row exact = head.evaluate_row(row, weights, dp, ds, dq);
  return tensor == "dq" ? dq[column] : tensor == "delta" ? exact.delta : double_double{};
}

/// lse moves with the keys; what is of single keys is of the smoothed ones.
bool keeps_value_under_smoothing(std::string_view tensor) { return is_one_of(tensor, {"o", "delta", "dq", "dk", "dv"}); }

account with_exact(account a, double_double exact) {
  a.set_exact(std::int32_t(a.size()) - 1, exact);
  return a;
}

}  // namespace

std::span<std::string_view const> explained_tensors() noexcept { return tensors; }

bool is_forward_tensor(std::string_view tensor) noexcept { return tensor == "o" || tensor == "lse"; }

account account_of(attention_schedule const& schedule, attention_problem const& p, std::string_view tensor, element_place at, forward_result const& forward) {
  const host::ieee_environment ieee;
  if (std::ranges::find(tensors, tensor) == tensors.end()) throw std::invalid_argument(fmt::format("tensor {}: expected one of {}", tensor, fmt::join(tensors, " ")));
  require_place(p, tensor, at);
  if (schedule.kind == schedule_kind::exact_value) throw unsupported_call(fmt::format("schedule {}: nothing is rounded before the end, so there is nothing to tell", schedule.name));
  if (schedule.smooths_keys) {
    account smoothed = account_of(without_smoothing(schedule), smooth_keys(p, mask_of(schedule, p), schedule.rules.scalars), tensor, at, forward);
    if (keeps_value_under_smoothing(tensor)) smoothed.set_exact(std::int32_t(smoothed.size()) - 1, exact_element(p, mask_of(schedule, p), tensor, at));
    return smoothed;
  }
  if (is_forward_tensor(tensor)) return with_exact(detail::forward_account(schedule, p, tensor, at), exact_element(p, mask_of(schedule, p), tensor, at));
  if (schedule.kind == schedule_kind::eager) throw unsupported_call(fmt::format("schedule {}: its gradients have no accounts, only o and lse", schedule.name));
  if (p.d_o.size() != p.q.size()) throw std::invalid_argument(fmt::format("tensor {}: the problem has no dO: expected a tensor 'do' of q's shape", tensor));
  if (forward.o.size() != p.q.size() || forward.lse.size() != std::size_t(p.batch * p.heads * p.queries))
    throw std::invalid_argument(fmt::format("tensor {}: expected the stored O and lse of the forward pass", tensor));
  if (is_one_of(tensor, {"dk", "dv"})) return detail::key_gradient_account(schedule, p, tensor, at, forward);
  account row = detail::row_gradient_account(schedule, p, tensor, at, forward);
  const bool of_score = is_one_of(tensor, {"s", "p", "dp", "ds", "lse_log2"});  // in the units and with the scale that the rules have
  return of_score ? row : with_exact(std::move(row), exact_element(p, mask_of(schedule, p), tensor, at));
}

namespace detail {

account account_for(attention_schedule const& schedule, attention_problem const& p) {
  account a(*sm90().special_functions);
  const std::uint32_t scale = std::bit_cast<std::uint32_t>(static_cast<float>(p.softmax_scale));
  const auto name = [&](std::uint32_t bits, std::string_view symbol, double_double exact) {
    if (bits != 0x3f800000) a.name_constant(bits, symbol, exact);  // not every 1 of the law is this one
  };
  name(scale, "s", {p.softmax_scale, 0});
  name(scale_log2_bits(schedule.rules.scale, p.softmax_scale), "L", exact_log2_e * p.softmax_scale);
  a.name_constant(f32_log2_e.to_bits(), "log2(e)", exact_log2_e);
  a.name_constant(0x3f317218, "ln(2)", exact_ln_2);
  return a;
}

std::vector<traced_bf16> literals(account& in, std::span<bf16_code const> codes) {
  std::vector<traced_bf16> of;
  for (bf16_code c : codes) of.emplace_back(in, c);
  return of;
}

}  // namespace detail
}  // namespace stickybit
