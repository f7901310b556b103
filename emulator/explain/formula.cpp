#include "formula.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "stickybit/explain/teller.hpp"

namespace stickybit::detail {
namespace {

using operand_text = std::string (*)(account const&, std::size_t, std::size_t, int);

/// The formula with each operand as `text` gives it.
std::string compose(account const& a, std::size_t i, operand_text text, int depth) {
  const auto x = [&](std::size_t k) { return text(a, i, k, depth); };
  const auto factor = [&](std::size_t k) {  // a sum as a factor needs brackets; rn( ) has them
    const std::string t = x(k);
    return t.find(' ') != t.npos && t.back() != ')' ? fmt::format("({})", t) : t;
  };
  account_step const& s = a[i];
  switch (s.op) {
    case operation::input: return "given";
    case operation::add: {
      const std::string second = x(1);
      return second.starts_with('-') ? fmt::format("{} - {}", x(0), second.substr(1)) : fmt::format("{} + {}", x(0), second);
    }
    case operation::multiply: return fmt::format("{}·{}", factor(0), factor(1));
    case operation::fma: return fmt::format("fma({}, {}, {})", x(0), x(1), x(2));
    case operation::divide: return fmt::format("{} / {}", factor(0), factor(1));
    case operation::maximum:
      if (s.operands > 3) return fmt::format("max({}, … {} numbers)", x(0), s.operands);
      return s.operands == 1 ? fmt::format("max({})", x(0)) : s.operands == 2 ? fmt::format("max({}, {})", x(0), x(1)) : fmt::format("max({}, {}, {})", x(0), x(1), x(2));
    case operation::cast: return fmt::format("{}({})", traits_of(s.result).name, x(0));
    case operation::block_fma: {
      const std::size_t products = products_in(a, i);
      const std::string c = x(s.operands - 1), sum = fmt::format("{} product{}", products, products == 1 ? "" : "s");
      return c == "0" ? sum : fmt::format("{} + {}", c, sum);
    }
    default: return fmt::format("{}({})", name_of(s.op), x(0));
  }
}

std::string in_numbers(account const& a, std::size_t i, std::size_t k, int) { return number(a.value_of(i, k)); }

bool rounds_arithmetic(operation op) { return op == operation::add || op == operation::multiply || op == operation::fma || op == operation::divide; }

/// `depth` unnamed steps may be written out below this one.
std::string in_names(account const& a, std::size_t i, std::size_t k, int depth) {
  account_operand const& o = a.operands(i)[k];
  if (o.step == account_operand::literal) {
    account::constant const* named = a[i].op == operation::block_fma ? nullptr : a.constant_of(o);
    return named == nullptr ? number(a.value_of(i, k)) : fmt::format("{}{}", o.negated ? "-" : "", named->symbol);
  }
  const auto step = std::size_t(o.step);
  std::string text = short_label(a, step);
  if (a[step].name.symbol.empty() && depth > 0) {
    if (a[step].op == operation::block_fma) {
      const std::vector<std::size_t> chain = chain_of(a, step);
      std::size_t products = 0;
      for (std::size_t block : chain) products += products_in(a, block);
      text = fmt::format("({} + {} products)", in_names(a, chain.front(), a[chain.front()].operands - 1, depth - 1), products);
    } else if (a[step].op != operation::input) {
      text = compose(a, step, in_names, depth - 1);
      if (rounds_arithmetic(a[step].op)) text = fmt::format("rn({})", text);
    }
  }
  return o.negated ? fmt::format("-{}", text) : text;
}

}  // namespace

std::string number(double value) { return fmt::format("{:.9g}", value == 0 ? 0.0 : value); }

std::string number(double_double value) { return fmt::format("{}{}", value.hi, value.lo != 0 ? "…" : ""); }

std::size_t columns_of(std::string_view text) noexcept {
  return std::size_t(std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string short_label(account const& a, std::size_t i) {
  quantity const& q = a[i].name;
  if (q.symbol.empty()) return fmt::format("t{}", i);
  if (q.symbol == "partial") return text_of(q);
  if (q.i < 0) return std::string(q.symbol);
  return q.j < 0 ? fmt::format("{}[{}]", q.symbol, q.i) : fmt::format("{}[{},{}]", q.symbol, q.i, q.j);
}

std::vector<std::size_t> chain_of(account const& a, std::size_t i) {
  std::vector<std::size_t> chain{i};
  for (;;) {
    account_operand const& c = a.operands(chain.back())[a[chain.back()].operands - 1];
    if (c.step == account_operand::literal || c.negated || a[std::size_t(c.step)].op != operation::block_fma || !a[std::size_t(c.step)].name.symbol.empty()) break;
    chain.push_back(std::size_t(c.step));
  }
  std::ranges::reverse(chain);
  return chain;
}

std::size_t products_in(account const& a, std::size_t block) {
  std::size_t count = (a[block].operands - 1) / 2;
  const auto filling = [&](std::size_t k) {
    const auto of = a.operands(block);
    return of[2 * k].step == account_operand::literal && of[2 * k + 1].step == account_operand::literal && of[2 * k].bits == 0 && of[2 * k + 1].bits == 0;
  };
  while (count > 1 && filling(count - 1)) --count;
  return count;
}

std::string formula_of(account const& a, std::size_t i, std::size_t width) {
  for (int depth : {3, 2, 1}) {
    std::string text = compose(a, i, in_names, depth);
    if (columns_of(text) <= width) return text;
  }
  return compose(a, i, in_names, 0);
}

std::string formula_in_numbers(account const& a, std::size_t i) { return compose(a, i, in_numbers, 0); }

}  // namespace stickybit::detail
