#include "stickybit/explain/account.hpp"

#include <cmath>
#include <limits>
#include <stdexcept>

#include "stickybit/block_fma/evaluate.hpp"
#include "stickybit/exact/constants.hpp"
#include "stickybit/format/value.hpp"
#include "stickybit/format/with_format.hpp"
#include "stickybit/rounding/arithmetic.hpp"
#include "stickybit/rounding/convert.hpp"
#include "stickybit/sfu/cuda_math.hpp"

namespace stickybit {
namespace {


double value_in(format of, std::uint32_t bits) {
  return with_format(of, [&]<format F>() { return to_double(code_from<F>(bits)); });
}

double ulp_in(format of, double at) {
  return with_format(of, [&]<format F>() { return ulp_at<F>(at); });
}

struct context {
  account_step const& step;
  special_function_tables const& tables;
  std::span<std::uint32_t const> bits;
  step_events* events;
};

/// f(sink), with the context's events as the sink where they are wanted.
template <class F>
auto with_sink(context const& c, F&& f) {
  if (c.events == nullptr) {
    null_sink none;
    return f(none);
  }
  return f(*c.events);
}

template <format F>
std::uint32_t arithmetic(context const& c) {
  const rounding_rule rule{.mode = c.step.mode, .subnormal = c.step.subnormal};
  const auto x = [&](std::size_t i) { return code_from<F>(c.bits[i]); };
  return with_sink(c, [&](auto& sink) -> std::uint32_t {
    switch (c.step.op) {
      case operation::add: return add(x(0), x(1), rule, sink).to_bits();
      case operation::multiply: return mul(x(0), x(1), rule, sink).to_bits();
      case operation::fma: return fma(x(0), x(1), x(2), rule, sink).to_bits();
      default: return div(x(0), x(1), rule, sink).to_bits();
    }
  });
}

std::uint32_t any_arithmetic(context const& c) {
  switch (c.step.result) {
    case format::f32: return arithmetic<format::f32>(c);
    case format::bf16: return arithmetic<format::bf16>(c);
    case format::f16: return arithmetic<format::f16>(c);
    default: throw std::invalid_argument("account: arithmetic is in f32, bf16 or f16");
  }
}

std::uint32_t largest_of(context const& c) {
  f32_code largest = f32_code::from_bits(c.bits[0]);
  for (std::uint32_t b : c.bits.subspan(1)) largest = max(largest, f32_code::from_bits(b), c.step.subnormal);
  return largest.to_bits();
}

std::uint32_t block(context const& c) {
  const std::size_t n = c.bits.size() / 2;
  std::vector<std::uint32_t> a(n), b(n);
  for (std::size_t k = 0; k < n; ++k) {
    a[k] = c.bits[2 * k];
    b[k] = c.bits[2 * k + 1];
  }
  return with_sink(c, [&](auto& sink) { return block_of_bits(*c.step.unit, a, b, f32_code::from_bits(c.bits.back()), sink).to_bits(); });
}

std::uint32_t cast(context const& c) {
  const f32_code x = f32_code::from_bits(c.bits[0]);
  return with_format(c.step.result, [&]<format F>() {
    return with_sink(c, [&](auto& sink) -> std::uint32_t { return convert<F>(x, rounding_rule{.mode = c.step.mode, .subnormal = c.step.subnormal}, sink).to_bits(); });
  });
}

std::uint32_t perform(context const& c) {
  const auto x = [&] { return f32_code::from_bits(c.bits[0]); };
  switch (c.step.op) {
    case operation::input: return c.step.bits;
    case operation::add:
    case operation::multiply:
    case operation::fma:
    case operation::divide: return any_arithmetic(c);
    case operation::maximum: return largest_of(c);
    case operation::ex2: return with_sink(c, [&](auto& sink) { return ex2(c.tables, x(), sink).to_bits(); });
    case operation::rcp: return with_sink(c, [&](auto& sink) { return rcp(c.tables, x(), sink).to_bits(); });
    case operation::lg2: return with_sink(c, [&](auto& sink) { return lg2(c.tables, x(), sink).to_bits(); });
    case operation::exp2: return with_sink(c, [&](auto& sink) { return exp2_keeping_subnormals(c.tables, x(), sink).to_bits(); });
    case operation::expf: return with_sink(c, [&](auto& sink) { return cuda_expf(c.tables, x(), sink).to_bits(); });
    case operation::logf: return with_sink(c, [&](auto& sink) { return cuda_logf(x(), sink).to_bits(); });
    case operation::log2f: return with_sink(c, [&](auto& sink) { return cuda_log2f(x(), sink).to_bits(); });
    case operation::block_fma: return block(c);
    case operation::cast: return cast(c);
  }
  return 0;
}

/// The operation on real numbers. `maximum` is not here: which operand is the largest, the codes decide.
double_double on_real_numbers(operation op, std::span<double_double const> x) {
  switch (op) {
    case operation::add: return x[0] + x[1];
    case operation::multiply: return x[0] * x[1];
    case operation::fma: return x[0] * x[1] + x[2];
    case operation::divide: return x[0] / x[1];
    case operation::ex2:
    case operation::exp2: return x[0].hi == std::numeric_limits<double>::infinity() ? x[0] : exp(x[0] * exact_ln_2);
    case operation::rcp: return double_double{1, 0} / x[0];
    case operation::lg2:
    case operation::log2f: return log(x[0]) / exact_ln_2;
    case operation::expf: return exp(x[0]);
    case operation::logf: return log(x[0]);
    case operation::block_fma: {
      double_double sum = x.back();
      for (std::size_t k = 0; k + 1 < x.size(); k += 2)
        if ((x[k].hi != 0 && x[k + 1].hi != 0) || !std::isfinite(x[k].hi) || !std::isfinite(x[k + 1].hi)) sum = sum + x[k] * x[k + 1];
      return sum;
    }
    default: return x[0];
  }
}

}  // namespace

std::string_view name_of(operation op) noexcept {
  switch (op) {
    case operation::input: return "input";
    case operation::add: return "add";
    case operation::multiply: return "multiply";
    case operation::fma: return "fma";
    case operation::divide: return "divide";
    case operation::maximum: return "maximum";
    case operation::ex2: return "ex2";
    case operation::rcp: return "rcp";
    case operation::lg2: return "lg2";
    case operation::exp2: return "exp2";
    case operation::expf: return "expf";
    case operation::logf: return "logf";
    case operation::log2f: return "log2f";
    case operation::block_fma: return "block_fma";
    case operation::cast: return "cast";
  }
  return {};
}

void account::name_constant(std::uint32_t f32_bits, std::string_view symbol, double_double exact) { constants_.push_back({f32_bits, symbol, exact}); }

account::constant const* account::constant_of(account_operand const& o) const noexcept {
  if (o.step != account_operand::literal) return nullptr;
  for (constant const& c : constants_)
    if (c.bits == o.bits) return &c;
  return nullptr;
}

std::int32_t account::input(format f, std::uint32_t bits, double_double exact, quantity name) {
  steps_.push_back({.op = operation::input, .result = f, .bits = bits, .first_operand = std::uint32_t(operands_.size()), .name = name, .exact = exact});
  return std::int32_t(steps_.size()) - 1;
}

std::int32_t account::record(account_step like, std::span<account_operand const> operands) {
  like.first_operand = std::uint32_t(operands_.size());
  like.operands = std::uint32_t(operands.size());
  operands_.insert(operands_.end(), operands.begin(), operands.end());
  steps_.push_back(like);
  const std::size_t i = steps_.size() - 1;
  steps_[i].bits = carry_out(i);
  steps_[i].exact = exact_result(i);
  return std::int32_t(i);
}

void account::name(std::int32_t step, quantity q) noexcept {
  if (step >= 0 && steps_[std::size_t(step)].name.symbol.empty()) steps_[std::size_t(step)].name = q;
}

format account::format_of(std::size_t i, std::size_t operand) const noexcept {
  account_step const& s = steps_[i];
  if (s.op == operation::block_fma) return operand + 1 == s.operands ? format::f32 : operand % 2 == 0 ? s.unit->input : s.unit->input_b;
  const bool arithmetic = s.op == operation::add || s.op == operation::multiply || s.op == operation::fma || s.op == operation::divide;
  return arithmetic ? s.result : format::f32;
}

std::uint32_t account::bits_of(std::size_t i, std::size_t operand) const noexcept {
  account_operand const& o = operands(i)[operand];
  const format wanted = format_of(i, operand);
  std::uint32_t bits = o.bits;
  if (o.step != account_operand::literal) {
    account_step const& from = steps_[std::size_t(o.step)];
    bits = from.bits;
    if (from.result != wanted && wanted == format::f32)
      bits = with_format(from.result, [&]<format F>() -> std::uint32_t {
        if constexpr (F == format::bf16) return widen(code_from<F>(bits)).to_bits();  // a NaN keeps its payload
        else return convert<format::f32>(code_from<F>(bits)).to_bits();
      });
  }
  if (o.negated) bits = with_format(wanted, [&]<format F>() -> std::uint32_t {
      if constexpr (traits_of(F).is_signed) return code_from<F>(bits).negated().to_bits();
      else return bits;
    });
  return bits;
}

double account::value_of(std::size_t i, std::size_t operand) const noexcept { return value_in(format_of(i, operand), bits_of(i, operand)); }

double account::value_of(std::size_t i) const noexcept { return value_in(steps_[i].result, steps_[i].bits); }

double_double account::exact_of(std::size_t i, std::size_t operand) const noexcept {
  account_operand const& o = operands(i)[operand];
  if (o.step != account_operand::literal) {
    const double_double x = steps_[std::size_t(o.step)].exact;
    return o.negated ? -x : x;
  }
  if (constant const* c = format_of(i, operand) == format::f32 ? constant_of(o) : nullptr) return o.negated ? -c->exact : c->exact;
  return {value_of(i, operand), 0};
}

double_double account::exact_result(std::size_t i) const {
  account_step const& s = steps_[i];
  if (s.op == operation::maximum) {
    for (std::size_t k = 0; k < s.operands; ++k)
      if (bits_of(i, k) == s.bits) return exact_of(i, k);
    return {value_of(i), 0};
  }
  std::vector<double_double> x(s.operands);
  for (std::size_t k = 0; k < x.size(); ++k) x[k] = exact_of(i, k);
  return on_real_numbers(s.op, x);
}

double account::error_in_ulp(std::size_t i) const noexcept {
  const double value = value_of(i), exact = steps_[i].exact.hi;
  if (!std::isfinite(value) || !std::isfinite(exact)) return std::numeric_limits<double>::quiet_NaN();
  return to_double(double_double{value, 0} - steps_[i].exact) / ulp_of(i);
}

double_double account::exact_on_codes(std::size_t i) const {
  account_step const& s = steps_[i];
  if (s.op == operation::input || s.op == operation::maximum) return {value_of(i), 0};
  std::vector<double_double> x(s.operands);
  for (std::size_t k = 0; k < x.size(); ++k) x[k] = {value_of(i, k), 0};
  return on_real_numbers(s.op, x);
}

double account::own_error(std::size_t i) const {
  const double_double exact = exact_on_codes(i);
  const double value = value_of(i);
  if (!std::isfinite(value) || !std::isfinite(exact.hi)) return std::numeric_limits<double>::quiet_NaN();
  return to_double(double_double{value, 0} - exact);
}

double account::own_error_in_ulp(std::size_t i) const { return own_error(i) / ulp_in(ulp_format(i), exact_on_codes(i).hi); }

double account::ulp_of(std::size_t i) const noexcept {
  const double exact = steps_[i].exact.hi, value = value_of(i);
  const bool is_noise = std::isfinite(value) && std::fabs(exact) < std::ldexp(std::fabs(value), -60);
  return ulp_in(ulp_format(i), is_noise ? value : exact);
}

std::uint32_t account::carry_out(std::size_t i, step_events* events) const {
  std::vector<std::uint32_t> bits(steps_[i].operands);
  for (std::size_t k = 0; k < bits.size(); ++k) bits[k] = bits_of(i, k);
  return perform({steps_[i], *tables_, bits, events});
}

account account::only(std::int32_t result) const {
  std::vector<std::int32_t> place(steps_.size(), -1);
  std::vector<std::uint8_t> wanted(steps_.size(), 0);
  wanted[std::size_t(result)] = 1;
  for (std::size_t i = std::size_t(result) + 1; i-- > 0;) {
    if (wanted[i] == 0) continue;
    for (account_operand const& o : operands(i))
      if (o.step != account_operand::literal) wanted[std::size_t(o.step)] = 1;
  }
  account kept(*tables_);
  kept.constants_ = constants_;
  for (std::size_t i = 0; i <= std::size_t(result); ++i) {
    if (wanted[i] == 0) continue;
    place[i] = std::int32_t(kept.steps_.size());
    account_step s = steps_[i];
    s.first_operand = std::uint32_t(kept.operands_.size());
    for (account_operand o : operands(i)) {
      if (o.step != account_operand::literal) o.step = place[std::size_t(o.step)];
      kept.operands_.push_back(o);
    }
    kept.steps_.push_back(s);
  }
  return kept;
}

std::optional<std::size_t> account::find(quantity q) const noexcept {
  for (std::size_t i = steps_.size(); i-- > 0;)
    if (steps_[i].name == q) return i;
  return std::nullopt;
}

std::optional<std::size_t> replay(account const& a) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a.carry_out(i) != a[i].bits) return i;
  return std::nullopt;
}

}  // namespace stickybit
