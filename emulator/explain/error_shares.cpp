#include "stickybit/explain/error_shares.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "stickybit/format/value.hpp"

namespace stickybit {
namespace {

constexpr double ln_2 = 0x1.62e42fefa39efp-1;

/// d result / d operand k of step i, at the codes.
double derivative(account const& a, std::size_t i, std::size_t k) {
  account_step const& s = a[i];
  const auto x = [&](std::size_t operand) { return a.value_of(i, operand); };
  switch (s.op) {
    case operation::input: return 0;
    case operation::add:
    case operation::cast: return 1;
    case operation::multiply: return x(1 - k);
    case operation::fma: return k == 2 ? 1 : x(1 - k);
    case operation::divide: return k == 0 ? 1 / x(1) : -x(0) / (x(1) * x(1));
    case operation::ex2:
    case operation::exp2: return ln_2 * std::exp2(x(0));
    case operation::expf: return std::exp(x(0));
    case operation::rcp: return -1 / (x(0) * x(0));
    case operation::lg2:
    case operation::log2f: return 1 / (x(0) * ln_2);
    case operation::logf: return 1 / x(0);
    case operation::block_fma: return k + 1 == s.operands ? 1 : x(k ^ 1);
    case operation::maximum: return 0;  // the winner alone: see winner_of
  }
  return 0;
}

std::size_t winner_of(account const& a, std::size_t i) {
  std::size_t k = 0;
  while (k + 1 < a[i].operands && a.bits_of(i, k) != a[i].bits) ++k;
  return k;
}

/// Adds adjoint · derivative to what step i was made from.
void pass_on(account const& a, std::size_t i, std::vector<double>& adjoint, std::vector<double>& of_constants) {
  const auto operands = a.operands(i);
  const auto add = [&](std::size_t k, double amount) {
    if (amount == 0) return;
    account_operand const& o = operands[k];
    if (o.negated) amount = -amount;
    if (o.step != account_operand::literal) adjoint[std::size_t(o.step)] += amount;
    else if (a[i].op != operation::block_fma)
      if (account::constant const* c = a.constant_of(o)) of_constants[std::size_t(c - a.constants().data())] += amount;
  };
  if (a[i].op == operation::maximum) return add(winner_of(a, i), adjoint[i]);
  for (std::size_t k = 0; k < operands.size(); ++k)
    if (const double d = derivative(a, i, k); d != 0) add(k, adjoint[i] * d);
}

/// The step's own error, as a number.
double own_error(account const& a, std::size_t i) {
  account_step const& s = a[i];
  if (s.op == operation::input) return to_double(double_double{a.value_of(i), 0} - s.exact);
  return a.own_error(i);
}

std::size_t deciding_step(account const& a, std::vector<double> const& shares) {
  std::size_t deciding = a.size() - 1;
  if (!std::isfinite(a.value_of(deciding))) return first_not_finite(a).value_or(deciding);
  for (std::size_t i = a.size(); i-- > 0;)
    if (std::fabs(shares[i]) > std::fabs(shares[deciding])) deciding = i;
  return deciding;
}

}  // namespace

std::optional<std::size_t> first_not_finite(account const& a) noexcept {
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double value = a.value_of(i);
    const bool is_masked = a[i].name.symbol == "x" && value < 0;
    if (!std::isfinite(value) && !is_masked && a[i].op != operation::input) return i;
  }
  return std::nullopt;
}

double error_shares::of_constants() const noexcept { return std::accumulate(constants.begin(), constants.end(), 0.0); }

error_shares share_error(account const& a) {
  const std::size_t last = a.size() - 1;
  error_shares shares{.steps = std::vector<double>(a.size(), 0.0), .constants = {}, .total = a.error_in_ulp(last)};
  std::vector<double> adjoint(a.size(), 0), of_constants(a.constants().size(), 0);
  adjoint.back() = 1;
  const double ulp = a.ulp_of(last);
  for (std::size_t i = a.size(); i-- > 0;) {
    if (adjoint[i] == 0) continue;
    const double error = own_error(a, i);
    shares.steps[i] = error == 0 ? 0 : adjoint[i] * error / ulp;
    pass_on(a, i, adjoint, of_constants);
  }
  for (std::size_t c = 0; c < of_constants.size(); ++c) {
    account::constant const& k = a.constants()[c];
    shares.constants.push_back(of_constants[c] * to_double(double_double{to_double(f32_code::from_bits(k.bits)), 0} - k.exact) / ulp);
  }
  const double sum = std::accumulate(shares.steps.begin(), shares.steps.end(), shares.of_constants());
  shares.finite = std::isfinite(sum) && std::isfinite(shares.total);
  shares.not_linear = shares.finite ? shares.total - sum : 0;
  shares.deciding = deciding_step(a, shares.steps);
  return shares;
}

std::vector<std::size_t> owners(account const& a) {
  std::vector<std::size_t> owner(a.size());
  for (std::size_t i = a.size(); i-- > 0;) {
    if (!a[i].name.symbol.empty() || i + 1 == a.size()) owner[i] = i;
    for (account_operand const& o : a.operands(i))
      if (o.step != account_operand::literal) owner[std::size_t(o.step)] = std::max(owner[std::size_t(o.step)], owner[i]);
  }
  for (std::size_t i = 0; i < owner.size(); ++i)
    if (!a[i].name.symbol.empty()) owner[i] = i;
  return owner;
}

std::vector<error_group> group_shares(account const& a, error_shares const& shares) {
  std::map<std::string_view, error_group> groups;
  const auto add = [&](std::string_view symbol, double share) {
    if (symbol == "l" || symbol == "bf16 sum") symbol = "sum";  // lanes are parts of the row sum
    error_group& g = groups[symbol];
    g.symbol = symbol;
    g.sum += share;
    g.magnitude += std::fabs(share);
    ++g.steps;
  };
  const std::vector<std::size_t> owner = owners(a);
  for (std::size_t i = 0; i < shares.steps.size(); ++i)
    if (shares.steps[i] != 0) add(a[owner[i]].name.symbol, shares.steps[i]);
  for (std::size_t c = 0; c < shares.constants.size(); ++c)
    if (shares.constants[c] != 0) add(a.constants()[c].symbol, shares.constants[c]);
  std::vector<error_group> list;
  for (auto const& [symbol, group] : groups) list.push_back(group);
  std::ranges::sort(list, [](error_group const& x, error_group const& y) { return std::fabs(x.sum) > std::fabs(y.sum); });
  return list;
}

}  // namespace stickybit
