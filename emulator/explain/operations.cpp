#include "stickybit/explain/operations.hpp"

#include <fmt/format.h>

#include <array>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "stickybit/format/with_format.hpp"
#include "stickybit/machine/machine.hpp"
#include "stickybit/rounding/convert.hpp"

namespace stickybit {
namespace {

account empty_account() { return account(*sm90().special_functions); }

account_operand literal(std::uint32_t bits) { return {.bits = bits}; }
account_operand from(std::int32_t step) { return {.step = step}; }

std::int32_t record(account& into, account_step const& like, std::initializer_list<account_operand> operands) { return into.record(like, std::vector(operands)); }

/// The unit's block alone, c a term of it: what an instruction with c added last is made of. Units made at run time are kept for good.
machine_unit const& block_alone(machine_unit const& unit) {
  static std::mutex lock;
  static std::map<std::string, machine_unit, std::less<>> kept;
  const std::lock_guard guard(lock);
  const auto [at, fresh] = kept.try_emplace(std::string(unit.name), unit);
  if (fresh) {
    at->second.accumulator = accumulator_place::aligned;
    at->second.order = product_order::ascending;
    at->second.instruction_k = unit.block_size;
  }
  return at->second;
}

/// c is added to the instruction's result in the output format.
account_operand add_last(account& into, machine_unit const& unit, account_operand result, account_operand c) {
  if (unit.output != format::f16) return from(record(into, {.op = operation::add}, {result, c}));
  const auto half = [&](account_operand x) { return from(record(into, {.op = operation::cast, .result = format::f16}, {x})); };
  return from(record(into, {.op = operation::add, .result = format::f16}, {half(result), half(c)}));
}

/// The blocks of one instruction, products from `first` on, padded with +0.
account_operand record_blocks(account& into, machine_unit const& unit, machine_unit const& block, raw_operands const& x, std::size_t first, std::size_t blocks, account_operand c) {
  for (std::size_t at = 0; at < blocks; ++at) {
    std::vector<account_operand> operands;
    for (std::size_t i = 0; i < std::size_t(unit.block_size); ++i) {
      const std::size_t k = first + detail::place_in_instruction(unit, at, i);
      operands.push_back(literal(k < x.a.size() ? x.a[k] : 0));
      operands.push_back(literal(k < x.a.size() ? x.b[k] : 0));
    }
    operands.push_back(c);
    c = from(into.record({.op = operation::block_fma, .unit = &block}, operands));
  }
  return c;
}

/// The chain c + a·b; the block, or the instruction that adds c last, that ends at product k is named name(k).
template <class Name>
std::int32_t record_chain(account& into, machine_unit const& unit, raw_operands const& x, account_operand c, Name&& name) {
  if (unit.arithmetic != block_arithmetic::aligned_sum || unit.is_scaled() || !unit.has_usual_rules())
    throw shape_error(fmt::format("unit {}: no accounts of units with scales, of FP64, of matrix cores, or with rules that no known unit has; `validate` and `gemm` compute them", unit.name));
  if (x.a.size() != x.b.size()) throw shape_error(fmt::format("a has {} elements, b has {}: expected equally many", x.a.size(), x.b.size()));
  if (x.a.empty()) throw shape_error("a and b have no elements: expected at least one product");
  const bool last = unit.accumulator == accumulator_place::added_last;
  const bool steps = !last && unit.order == product_order::ascending;
  const auto n = std::size_t(steps ? unit.block_size : unit.instruction_k), blocks = steps ? 1 : detail::blocks_of(unit);
  machine_unit const& block = steps ? unit : block_alone(unit);
  for (std::size_t first = 0; first < x.a.size(); first += n) {
    const account_operand sum = record_blocks(into, unit, block, x, first, blocks, last ? literal(0) : c);
    c = last ? add_last(into, unit, sum, c) : sum;
    into.name(c.step, name(std::min(first + n, x.a.size())));
  }
  return c.step;
}

template <format F>
std::vector<std::uint32_t> bits_of(std::span<code<F> const> codes) {
  std::vector<std::uint32_t> bits;
  for (code<F> c : codes) bits.push_back(c.to_bits());
  return bits;
}

template <format In>
void require_input(machine_unit const& unit) {
  if (unit.input != In || unit.input_b != In) throw shape_error(fmt::format("unit {} takes {}, the operands are {}", unit.name, traits_of(unit.input).name, traits_of(In).name));
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
    return literal(with_format(f, [&]<format F>() { return convert<format::f32>(code_from<F>(bits)).to_bits(); }));
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

account account_of_dot(machine_unit const& unit, raw_operands const& x, f32_code c) {
  account told = empty_account();
  record_chain(told, unit, x, literal(c.to_bits()), [&](std::size_t k) { return k == x.a.size() ? quantity{"d"} : quantity{"d", std::int32_t(k)}; });
  return told;
}

template <format In>
account account_of_dot(machine_unit const& unit, std::span<code<In> const> a, std::span<code<In> const> b, f32_code c) {
  require_input<In>(unit);
  const std::vector<std::uint32_t> a_bits = bits_of(a), b_bits = bits_of(b);
  return account_of_dot(unit, raw_operands{a_bits, b_bits}, c);
}

account account_of_slices(machine_unit const& unit, raw_operands const& x, f32_code c, int slices) {
  if (slices < 1) throw shape_error(fmt::format("K cannot be cut into {} slices", slices));
  const std::vector<std::int64_t> boundaries = split_boundaries(std::int64_t(x.a.size()), slices);
  const std::size_t count = boundaries.size() - 1;
  if (count < 2) return account_of_dot(unit, x, c);
  account told = empty_account();
  std::int32_t sum = -1;
  for (std::size_t s = 0; s < count; ++s) {
    const auto first = std::size_t(boundaries[s]), length = std::size_t(boundaries[s + 1]) - first;
    const raw_operands part{x.a.subspan(first, length), x.b.subspan(first, length)};
    const std::int32_t slice = record_chain(told, unit, part, literal(s == 0 ? c.to_bits() : 0), [&](std::size_t k) { return quantity{"slice", std::int32_t(s), std::int32_t(first + k)}; });
    sum = s == 0 ? slice : record(told, {.op = operation::add}, {from(sum), from(slice)});
    if (s != 0) told.name(sum, s + 1 == count ? quantity{"d"} : quantity{"joined", std::int32_t(s)});
  }
  return told;
}

template <format In>
account account_of_gemm(machine_unit const& unit, gemm_problem_of<In> const& p, int slices, std::int64_t row, std::int64_t column) {
  require_input<In>(unit);
  if (row < 0 || row >= p.m) throw std::out_of_range(fmt::format("row {}: expected 0 to {}", row, p.m - 1));
  if (column < 0 || column >= p.n) throw std::out_of_range(fmt::format("column {}: expected 0 to {}", column, p.n - 1));
  const std::vector<std::uint32_t> a = bits_of(p.a.subspan(std::size_t(row * p.k), std::size_t(p.k))), b = bits_of(p.b.subspan(std::size_t(column * p.k), std::size_t(p.k)));
  return account_of_slices(unit, {a, b}, p.c.empty() ? f32_code::zero() : p.c[std::size_t(row * p.n + column)], slices);
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
