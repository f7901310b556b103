#include "stickybit/explain/operations.hpp"

#include <fmt/format.h>

#include <array>
#include <stdexcept>
#include <vector>

#include "by_format.hpp"
#include "stickybit/machine/machine.hpp"
#include "stickybit/rounding/convert.hpp"

namespace stickybit {
namespace {

account empty_account() { return account(*sm90().special_functions); }

account_operand literal(std::uint32_t bits) { return {.bits = bits}; }
account_operand from(std::int32_t step) { return {.step = step}; }

std::int32_t record(account& into, account_step const& like, std::initializer_list<account_operand> operands) { return into.record(like, std::vector(operands)); }

/// The chain c + a·b; the block that ends at product k is named name(k).
template <format In, class Name>
std::int32_t record_chain(account& into, machine_unit const& unit, std::span<code<In> const> a, std::span<code<In> const> b, account_operand c, Name&& name) {
  if (unit.input != In) throw shape_error(fmt::format("unit {} takes {}, the operands are {}", unit.name, traits_of(unit.input).name, traits_of(In).name));
  if (a.size() != b.size()) throw shape_error(fmt::format("a has {} elements, b has {}: expected equally many", a.size(), b.size()));
  if (a.empty()) throw shape_error("a and b have no elements: expected at least one product");
  const auto n = std::size_t(unit.block_size);
  for (std::size_t first = 0; first < a.size(); first += n) {
    std::vector<account_operand> operands;
    for (std::size_t k = first; k < first + n; ++k) {
      operands.push_back(literal(k < a.size() ? a[k].to_bits() : 0));
      operands.push_back(literal(k < a.size() ? b[k].to_bits() : 0));
    }
    operands.push_back(c);
    const std::int32_t step = into.record({.op = operation::block_fma, .unit = &unit}, operands);
    into.name(step, name(std::min(first + n, a.size())));
    c = from(step);
  }
  return c.step;
}

}  // namespace

account account_of_add(std::span<f32_code const> operands, format result) {
  if (operands.size() < 2) throw std::invalid_argument("explain add: expected at least two operands");
  account a = empty_account();
  account_operand sum = literal(operands[0].to_bits());
  for (std::size_t i = 1; i < operands.size(); ++i) {
    sum = from(record(a, {.op = operation::add}, {sum, literal(operands[i].to_bits())}));
    if (i + 1 < operands.size() || result != format::f32) a.name(sum.step, {"partial", std::int32_t(i)});
  }
  if (result != format::f32) sum = from(record(a, {.op = operation::cast, .result = result}, {sum}));
  a.name(sum.step, {"result"});
  return a;
}

fma_accounts accounts_of_fma(format f, std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  if (f != format::f32 && f != format::bf16 && f != format::f16) throw std::invalid_argument(fmt::format("fma in {}: expected f32, bf16 or f16", traits_of(f).name));
  const auto wide = [f](std::uint32_t bits) {
    return literal(detail::with_format(f, [&]<format F>() { return convert<format::f32>(detail::code_from<F>(bits)).to_bits(); }));
  };
  fma_accounts accounts{empty_account(), std::nullopt, empty_account()};
  accounts.fused.name(record(accounts.fused, {.op = operation::fma, .result = f}, {literal(a), literal(b), literal(c)}), {"result"});
  if (f != format::f32) {
    account through = empty_account();
    const std::int32_t in_f32 = record(through, {.op = operation::fma}, {wide(a), wide(b), wide(c)});
    through.name(record(through, {.op = operation::cast, .result = f}, {from(in_f32)}), {"result"});
    accounts.through_f32 = std::move(through);
  }
  const std::int32_t product = record(accounts.unfused, {.op = operation::multiply, .result = f}, {literal(a), literal(b)});
  accounts.unfused.name(product, {"product"});
  accounts.unfused.name(record(accounts.unfused, {.op = operation::add, .result = f}, {from(product), literal(c)}), {"result"});
  return accounts;
}

template <format In>
account account_of_dot(machine_unit const& unit, std::span<code<In> const> a, std::span<code<In> const> b, f32_code c) {
  account told = empty_account();
  record_chain<In>(told, unit, a, b, literal(c.to_bits()), [&](std::size_t k) { return k == a.size() ? quantity{"d"} : quantity{"d", std::int32_t(k)}; });
  return told;
}

template <format In>
account account_of_gemm(machine_unit const& unit, gemm_problem_of<In> const& p, int slices, std::int64_t row, std::int64_t column) {
  if (row < 0 || row >= p.m) throw std::out_of_range(fmt::format("row {}: expected 0 to {}", row, p.m - 1));
  if (column < 0 || column >= p.n) throw std::out_of_range(fmt::format("column {}: expected 0 to {}", column, p.n - 1));
  if (slices < 1) throw shape_error(fmt::format("K cannot be cut into {} slices", slices));
  const auto a = p.a.subspan(std::size_t(row * p.k), std::size_t(p.k)), b = p.b.subspan(std::size_t(column * p.k), std::size_t(p.k));
  const f32_code c = p.c.empty() ? f32_code::zero() : p.c[std::size_t(row * p.n + column)];
  const std::vector<std::int64_t> boundaries = split_boundaries(p.k, slices);
  const std::size_t count = boundaries.size() - 1;
  if (count < 2) return account_of_dot<In>(unit, a, b, c);

  account told = empty_account();
  std::int32_t sum = -1;
  for (std::size_t s = 0; s < count; ++s) {
    const auto first = std::size_t(boundaries[s]), length = std::size_t(boundaries[s + 1]) - first;
    const std::int32_t slice = record_chain<In>(told, unit, a.subspan(first, length), b.subspan(first, length), literal(s == 0 ? c.to_bits() : 0),
                                                [&](std::size_t k) { return quantity{"slice", std::int32_t(s), std::int32_t(first + k)}; });
    sum = s == 0 ? slice : record(told, {.op = operation::add}, {from(sum), from(slice)});
    if (s != 0) told.name(sum, s + 1 == count ? quantity{"d"} : quantity{"joined", std::int32_t(s)});
  }
  return told;
}

account account_of_function(operation function, f32_code x) {
  constexpr std::array functions{operation::ex2, operation::rcp, operation::lg2, operation::exp2, operation::expf, operation::logf, operation::log2f};
  if (std::find(functions.begin(), functions.end(), function) == functions.end()) throw std::invalid_argument(fmt::format("{} is no elementary function", name_of(function)));
  account told = empty_account();
  told.name(record(told, {.op = function}, {literal(x.to_bits())}), {"result"});
  return told;
}

account account_of_cast(f32_code x, format to, rounding mode, subnormals subnormal) {
  if (mode == rounding::stochastic) throw std::invalid_argument("an account of a stochastic rounding would need its random bits");
  account told = empty_account();
  told.name(record(told, {.op = operation::cast, .result = to, .mode = mode, .subnormal = subnormal}, {literal(x.to_bits())}), {"result"});
  return told;
}

template account account_of_dot<format::bf16>(machine_unit const&, std::span<bf16_code const>, std::span<bf16_code const>, f32_code);
template account account_of_dot<format::f16>(machine_unit const&, std::span<f16_code const>, std::span<f16_code const>, f32_code);
template account account_of_dot<format::e4m3fn>(machine_unit const&, std::span<e4m3fn_code const>, std::span<e4m3fn_code const>, f32_code);
template account account_of_dot<format::e5m2>(machine_unit const&, std::span<e5m2_code const>, std::span<e5m2_code const>, f32_code);
template account account_of_gemm<format::bf16>(machine_unit const&, gemm_problem const&, int, std::int64_t, std::int64_t);
template account account_of_gemm<format::f16>(machine_unit const&, f16_gemm_problem const&, int, std::int64_t, std::int64_t);

}  // namespace stickybit
