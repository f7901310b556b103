#pragma once
#include <algorithm>
#include <array>
#include <initializer_list>
#include <span>
#include <vector>

#include "attention/row_product.hpp"
#include "stickybit/explain/account.hpp"
#include "stickybit/machine/machine.hpp"
#include "stickybit/softmax/scalars.hpp"

// Numbers that remember where they come from, and the arithmetic on them: given to the law of a kernel in place of codes, they write its account.

namespace stickybit::detail {

/// A code of F, and the step of an account that gave it. Without a step it is a literal; without an account a constant of the law.
template <format F>
class traced {
 public:
  traced() = default;
  traced(code<F> constant) : value_(constant) {}  // NOLINT(google-explicit-constructor): the law's constants are codes
  /// A literal of an account: operations on it are recorded there.
  traced(account& in, code<F> literal) : value_(literal), account_(&in) {}
  traced(account& in, std::int32_t step) : value_(code<F>::from_bits(typename code<F>::bits_type(in[std::size_t(step)].bits))), account_(&in), step_(step) {}

  [[nodiscard]] code<F> value() const noexcept { return value_; }
  [[nodiscard]] account* in() const noexcept { return account_; }
  [[nodiscard]] std::int32_t step() const noexcept { return step_; }
  [[nodiscard]] account_operand as_operand() const noexcept {
    return {step_, step_ == account_operand::literal ? std::uint32_t(value_.to_bits()) : 0, step_ != account_operand::literal && negated_};
  }

  [[nodiscard]] traced negated() const noexcept {
    traced n = *this;
    n.value_ = value_.negated();
    n.negated_ = !negated_;
    return n;
  }
  [[nodiscard]] bool is_zero() const noexcept { return value_.is_zero(); }
  [[nodiscard]] bool is_nan() const noexcept { return value_.is_nan(); }
  [[nodiscard]] bool is_finite() const noexcept { return value_.is_finite(); }
  [[nodiscard]] bool negative() const noexcept { return value_.negative(); }
  friend bool operator==(traced const& a, traced const& b) noexcept { return a.value_ == b.value_; }

  /// The same number as an FP32 one, by the same step.
  friend traced<format::f32> widened(traced const& x) noexcept {
    traced<format::f32> wide(f32_code{});
    wide.value_ = stickybit::widen(x.value_);
    wide.account_ = x.account_;
    wide.step_ = x.step_;
    wide.negated_ = x.negated_;
    return wide;
  }

 private:
  template <format>
  friend class traced;
  code<F> value_ = {};
  account* account_ = nullptr;
  std::int32_t step_ = account_operand::literal;
  bool negated_ = false;
};

using traced_f32 = traced<format::f32>;
using traced_bf16 = traced<format::bf16>;

/// Carries an operation out in the account of its operands; with constants alone there is none, and the result is one more constant.
template <format F = format::f32>
traced<F> trace(account_step like, std::span<traced_f32 const> operands) {
  account* in = nullptr;
  std::vector<account_operand> of;
  for (traced_f32 const& x : operands) {
    if (in == nullptr) in = x.in();
    of.push_back(x.as_operand());
  }
  if (in != nullptr) return traced<F>(*in, in->record(like, of));
  account constants(*sm90().special_functions);
  return traced<F>(traced<F>(constants, constants.record(like, of)).value());
}
template <format F = format::f32>
traced<F> trace(account_step like, std::initializer_list<traced_f32> operands) {
  return trace<F>(like, std::span(operands.begin(), operands.size()));
}

// What the law calls by name, for these numbers. The tables are the account's.
inline traced_f32 ex2(special_function_tables const&, traced_f32 x) { return trace({.op = operation::ex2}, {x}); }
inline traced_f32 rcp(special_function_tables const&, traced_f32 x) { return trace({.op = operation::rcp}, {x}); }
inline traced_f32 lg2(special_function_tables const&, traced_f32 x) { return trace({.op = operation::lg2}, {x}); }
inline traced_f32 cuda_expf(special_function_tables const&, traced_f32 x) { return trace({.op = operation::expf}, {x}); }
inline traced_f32 cuda_logf(traced_f32 x) { return trace({.op = operation::logf}, {x}); }
inline traced_f32 cuda_log2f(traced_f32 x) { return trace({.op = operation::log2f}, {x}); }
inline traced_f32 widen(traced_bf16 const& x) { return widened(x); }
inline float to_float(traced_f32 const& x) { return stickybit::to_float(x.value()); }
template <format To>
traced<To> convert(traced_f32 x, rounding mode) {
  return trace<To>({.op = operation::cast, .result = To, .mode = mode}, {x});
}

/// A kernel's FP32 arithmetic, recorded. See defined_scalars.
template <subnormals S>
struct tracing_scalars {
  using number = traced_f32;
  using narrow = traced_bf16;
  using input = traced_bf16;

  static number fma(number a, number b, number c) { return trace({.op = operation::fma, .subnormal = S}, {a, b, c}); }
  static number add(number a, number b) { return trace({.op = operation::add, .subnormal = S}, {a, b}); }
  static number mul(number a, number b) { return trace({.op = operation::multiply, .subnormal = S}, {a, b}); }
  static number div(number a, number b) { return trace({.op = operation::divide, .subnormal = S}, {a, b}); }
  static number max(number a, number b) { return trace({.op = operation::maximum, .subnormal = S}, {a, b}); }
  static narrow to_bf16(number c) {
    const narrow cast = convert<format::bf16>(c, rounding::nearest_even);
    if (cast.in() != nullptr && c.step() >= 0 && (*c.in())[std::size_t(c.step())].name.symbol == "p")
      cast.in()->name(cast.step(), {"P", (*c.in())[std::size_t(c.step())].name.i});
    return cast;
  }
  static number exp2(special_function_tables const&, number x) { return trace({.op = S == subnormals::flushed ? operation::ex2 : operation::exp2}, {x}); }

  using array = std::span<number const>;
  using result = std::span<number>;
  static void mul(array x, number y, result out) { each(x.size(), out, [&](std::size_t i) { return mul(x[i], y); }); }
  static void mul(array x, array y, result out) { each(x.size(), out, [&](std::size_t i) { return mul(x[i], y[i]); }); }
  static void add(array x, number y, result out) { each(x.size(), out, [&](std::size_t i) { return add(x[i], y); }); }
  static void add(array x, array y, result out) { each(x.size(), out, [&](std::size_t i) { return add(x[i], y[i]); }); }
  static void fma(array x, number y, number z, result out) { each(x.size(), out, [&](std::size_t i) { return fma(x[i], y, z); }); }
  static void fma(array x, number y, array z, result out) { each(x.size(), out, [&](std::size_t i) { return fma(x[i], y, z[i]); }); }
  static void fma(array x, array y, array z, result out) { each(x.size(), out, [&](std::size_t i) { return fma(x[i], y[i], z[i]); }); }
  /// One step for all of them.
  static number max(array x, number start) {
    std::vector<number> all{start};
    all.insert(all.end(), x.begin(), x.end());
    return trace({.op = operation::maximum, .subnormal = S}, all);
  }
  static void to_bf16(array x, std::span<narrow> out) { std::transform(x.begin(), x.end(), out.begin(), [](number const& a) { return to_bf16(a); }); }
  static void widen(std::span<narrow const> x, result out) { std::transform(x.begin(), x.end(), out.begin(), [](narrow const& a) { return widened(a); }); }
  static void add_in_lanes(array x, std::array<number, 4>& sums) {
    for (std::size_t i = 0; i < x.size(); ++i) sums[lane_of(i)] = add(sums[lane_of(i)], x[i]);
  }
  static void ex2(ex2_rows const&, array x, result out) { each(x.size(), out, [&](std::size_t i) { return trace({.op = operation::ex2}, {x[i]}); }); }
  static void exp2(ex2_rows const& t, array x, result out) { each(x.size(), out, [&](std::size_t i) { return exp2(t.tables(), x[i]); }); }
  static void expf(ex2_rows const&, array x, result out) { each(x.size(), out, [&](std::size_t i) { return trace({.op = operation::expf}, {x[i]}); }); }

 private:
  template <class Operation>
  static void each(std::size_t n, result out, Operation operation) {
    for (std::size_t i = 0; i < n; ++i) out[i] = operation(i);
  }
};

/// One step of a tensor core for each block of a chain. All operands count as given in the account of the first that has one.
/// @param a, b  bits in the unit's input format or steps that give it, equally many
inline traced_f32 trace_chain(machine_unit const& unit, std::span<account_operand const> a, std::span<account_operand const> b, traced_f32 c, account& in) {
  const auto n = std::size_t(unit.block_size);
  for (std::size_t first = 0; first < a.size(); first += n) {
    std::vector<account_operand> operands;
    for (std::size_t k = first; k < first + n; ++k) {
      operands.push_back(k < a.size() ? a[k] : account_operand{});
      operands.push_back(k < a.size() ? b[k] : account_operand{});
    }
    operands.push_back(c.as_operand());
    c = traced_f32(in, in.record({.op = operation::block_fma, .unit = &unit}, operands));
  }
  return c;
}

/// Rows of traced numbers against a panel of literals, on the schedule's tensor core.
template <subnormals S>
class row_product<tracing_scalars<S>, traced_bf16> {
 public:
  row_product(machine_unit const& unit, engine) : unit_(&unit) {}

  void accumulate(matrix_rows<traced_bf16 const> a, column_panel const& panel, std::int64_t k_begin, std::int64_t n_begin, matrix_rows<traced_f32> c) {
    for (std::int64_t i = 0; i < a.rows; ++i) {
      account* in = nullptr;
      std::vector<account_operand> row, column(std::size_t(a.columns));
      for (traced_bf16 const& x : a.row(i)) {
        if (in == nullptr) in = x.in();
        row.push_back(x.as_operand());
      }
      account constants(*sm90().special_functions);
      for (std::int64_t j = 0; j < c.columns; ++j) {
        for (std::int64_t k = 0; k < a.columns; ++k) column[std::size_t(k)].bits = panel.at(k_begin + k, n_begin + j).to_bits();
        traced_f32& sum = c.row(i)[std::size_t(j)];
        if (account* where = in != nullptr ? in : sum.in()) sum = trace_chain(*unit_, row, column, sum, *where);
        else sum = traced_f32(trace_chain(*unit_, row, column, sum, constants).value());
      }
    }
  }
  static void operands(std::span<traced_f32 const> x, std::span<traced_bf16> out) { tracing_scalars<S>::to_bf16(x, out); }
  static traced_bf16 operand(traced_f32 x) { return tracing_scalars<S>::to_bf16(x); }
  static traced_f32 value(traced_bf16 x) { return widened(x); }
  static void values(std::span<traced_bf16 const> x, std::span<traced_f32> out) { tracing_scalars<S>::widen(x, out); }

 private:
  machine_unit const* unit_;
};

/// The same where a fix computes in FP32.
template <subnormals S>
class row_product<tracing_scalars<S>, traced_f32> {
 public:
  row_product(machine_unit const&, engine) {}

  template <format F>
  void accumulate(matrix_rows<traced<F> const> a, column_panel const& panel, std::int64_t k_begin, std::int64_t n_begin, matrix_rows<traced_f32> c) {
    for (std::int64_t k = 0; k < a.columns; ++k)
      for (std::int64_t i = 0; i < a.rows; ++i)
        for (std::int64_t j = 0; j < c.columns; ++j) {
          traced_f32& sum = c.row(i)[std::size_t(j)];
          sum = tracing_scalars<S>::fma(traced_f32(stickybit::widen(panel.at(k_begin + k, n_begin + j))), wide(a.row(i)[std::size_t(k)]), sum);
        }
  }
  static void operands(std::span<traced_f32 const> x, std::span<traced_f32> out) { std::copy(x.begin(), x.end(), out.begin()); }
  static traced_f32 operand(traced_f32 x) { return x; }
  static traced_f32 value(traced_f32 x) { return x; }
  static void values(std::span<traced_f32 const> x, std::span<traced_f32> out) { std::copy(x.begin(), x.end(), out.begin()); }

 private:
  static traced_f32 wide(traced_f32 x) { return x; }
  static traced_f32 wide(traced_bf16 const& x) { return widened(x); }
};

}  // namespace stickybit::detail
