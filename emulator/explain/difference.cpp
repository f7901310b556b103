#include "stickybit/explain/difference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "chain.hpp"
#include "formula.hpp"
#include "step_words.hpp"
#include "stickybit/explain/teller.hpp"
#include "words.hpp"

namespace stickybit {
namespace {

using namespace detail;

/// One of the two, with its name and the step that is being compared.
struct side {
  account const& told;
  std::string_view name;
  std::size_t step;

  [[nodiscard]] account_step const& at() const { return told[step]; }
  [[nodiscard]] std::string formula() const { return formula_of(told, step); }
};

bool same_code(side const& a, side const& b) {
  if (a.at().result == b.at().result) return a.at().bits == b.at().bits;
  const double x = a.told.value_of(a.step), y = b.told.value_of(b.step);
  return x == y || (std::isnan(x) && std::isnan(y));
}

bool same_operand(side const& a, std::size_t k, side const& b, std::size_t l) {
  const double x = a.told.value_of(a.step, k), y = b.told.value_of(b.step, l);
  return (x == y && std::signbit(x) == std::signbit(y)) || (std::isnan(x) && std::isnan(y));
}

bool factors_commute(operation op) { return op == operation::add || op == operation::multiply || op == operation::fma; }

/// The first operand that differs; the first two may be exchanged where the operation does not mind.
std::optional<std::size_t> first_other_operand(side const& a, side const& b) {
  const bool swapped = factors_commute(a.at().op) && !same_operand(a, 0, b, 0) && same_operand(a, 0, b, 1) && same_operand(a, 1, b, 0);
  for (std::size_t k = swapped ? 2 : 0; k < a.at().operands; ++k)
    if (!same_operand(a, k, b, k)) return k;
  return std::nullopt;
}

/// Named steps and constants below a step, not looking through a name.
void collect_names(account const& a, std::size_t i, std::vector<std::pair<quantity, std::size_t>>& steps, std::vector<std::string_view>& constants) {
  for (account_operand const& o : a.operands(i)) {
    if (o.step == account_operand::literal) {
      if (account::constant const* c = a[i].op == operation::block_fma ? nullptr : a.constant_of(o); c != nullptr && std::ranges::find(constants, c->symbol) == constants.end()) constants.push_back(c->symbol);
      continue;
    }
    const auto step = std::size_t(o.step);
    if (a[step].name.symbol.empty()) collect_names(a, step, steps, constants);
    else if (std::ranges::find(steps, std::pair{a[step].name, step}) == steps.end()) steps.emplace_back(a[step].name, step);
  }
}

/// What both expressions take with equal values, by name.
std::vector<std::string> equal_names(side const& a, side const& b) {
  std::vector<std::pair<quantity, std::size_t>> steps_a, steps_b;
  std::vector<std::string_view> constants_a, constants_b;
  collect_names(a.told, a.step, steps_a, constants_a);
  collect_names(b.told, b.step, steps_b, constants_b);
  std::vector<std::string> names;
  for (auto const& [name, step] : steps_a)
    for (auto const& [other, other_step] : steps_b)
      if (name == other && same_code({a.told, a.name, step}, {b.told, b.name, other_step})) names.push_back(text_of(name));
  for (std::string_view c : constants_a)
    if (std::ranges::find(constants_b, c) != constants_b.end()) names.emplace_back(c);
  return names;
}

std::string list(std::vector<std::string> const& names) {
  constexpr std::size_t most = 6;
  std::string text;
  for (std::size_t n = 0; n < names.size() && n < most; ++n) text += fmt::format("{}{}", n == 0 ? "" : ", ", names[n]);
  return names.size() > most ? text + fmt::format(" and {} more", names.size() - most) : text;
}

/// The product of x's factors that `other` rounds by itself before adding; none where it has none.
std::optional<std::size_t> rounded_product(side const& x, side const& other) {
  if (x.at().op != operation::fma || other.at().op != operation::add) return std::nullopt;
  for (account_operand const& o : other.told.operands(other.step)) {
    if (o.step == account_operand::literal || other.told[std::size_t(o.step)].op != operation::multiply) continue;
    const side product{other.told, other.name, std::size_t(o.step)};
    const bool straight = same_operand(x, 0, product, 0) && same_operand(x, 1, product, 1), crossed = same_operand(x, 0, product, 1) && same_operand(x, 1, product, 0);
    if (straight || crossed) return product.step;
  }
  return std::nullopt;
}

/// All the bits that a rounding cuts; where they are very many, those up to the last that is not 0.
std::string padded_cut(rounded const& r) { return r.drop <= 32 ? bits_of(r.significand, r.drop) : cut_bits(r.significand, r.drop) + "…"; }

/// `x` fuses what `other` rounds in two.
std::string fused_words(side const& x, side const& other, std::size_t product) {
  step_events events;
  static_cast<void>(other.told.carry_out(product, &events));
  const auto roundings = events.all<rounded>();
  std::string cut = "exactly";
  if (!roundings.empty() && roundings.front().cut != tail::zero) {
    const double worth = error_of(roundings.front()) / (error_of(roundings.front()) / error_in_ulp(roundings.front()));
    cut = fmt::format("cutting its last {} bits ({}), an error of {} ulp of the product", roundings.front().drop, padded_cut(roundings.front()), signed_ulps(worth));
  }
  const double own_error = other.told.own_error(product), ulp = std::fabs(other.told.value_of(other.step)) == 0 ? 0 : other.told.own_error(other.step) / other.told.own_error_in_ulp(other.step);
  std::string in_result;
  if (own_error != 0 && std::isfinite(own_error / ulp) && ulp != 0) in_result = fmt::format(" and {} ulp of the result", signed_ulps(own_error / ulp));
  return fmt::format("{} fuses the multiplication into the addition, {}, and rounds once. {} rounds the product {} first, {}{}; its result is {}.", x.name, x.formula(), other.name,
                     formula_of(other.told, product), cut, in_result, other.formula());
}

std::string rules_of(account_step const& s) { return fmt::format("{} in {}, {}{}", name_of(s.op), traits_of(s.result).name, name_of(s.mode), s.subnormal == subnormals::flushed ? ", .ftz" : ""); }

std::string other_operation(side const& a, side const& b) {
  if (const auto product = rounded_product(a, b)) return fused_words(a, b, *product);
  if (const auto product = rounded_product(b, a)) return fused_words(b, a, *product);
  const auto one = [](side const& s) { return fmt::format("{} computes {} ({}; own error {} ulp)", s.name, s.formula(), rules_of(s.at()), signed_ulps(s.told.own_error_in_ulp(s.step))); };
  return fmt::format("{}; {}.", one(a), one(b));
}

/// "S[192] to S[383]": the named quantities that a step takes, where they are one symbol's and follow each other.
std::string range_below(side const& x) {
  std::vector<std::pair<quantity, std::size_t>> steps;
  std::vector<std::string_view> constants;
  collect_names(x.told, x.step, steps, constants);
  std::erase_if(steps, [](auto const& s) { return s.first.symbol != "S"; });
  if (steps.empty()) return {};
  const auto [least, most] = std::ranges::minmax_element(steps, {}, [](auto const& s) { return s.first.i; });
  if (std::size_t(most->first.i - least->first.i) + 1 != steps.size()) return {};
  return fmt::format("{} to {}", text_of(least->first), text_of(most->first));
}

std::string other_count(side const& a, side const& b) {
  const std::string of_a = range_below(a), of_b = range_below(b);
  if (a.at().op == operation::maximum && !of_a.empty() && !of_b.empty() && of_a != of_b)
    return fmt::format("It is another number: {} takes the maximum of {} in this block, {} of {}. The blocks of keys are cut or ordered in another way.", a.name, of_a, b.name, of_b);
  return fmt::format("{} takes the {} of {} numbers, {} of {}: the blocks are cut or ordered in another way.", a.name, name_of(a.at().op), a.at().operands, b.name, b.at().operands);
}

std::string given_words(side const& a, side const& b, std::size_t k) {
  return fmt::format("Both compute {}, but operand {} is given as {} to {} and as {} to {}.", a.formula(), k + 1, number(a.told.value_of(a.step, k)), a.name, number(b.told.value_of(b.step, k)), b.name);
}

/// Walks down from two steps with other codes; leaves the sides where they part.
class descent {
 public:
  descent(side a, side b) : a_(a), b_(b) {}

  std::string go() {
    for (;;) {
      if (a_.at().op == operation::block_fma && b_.at().op == operation::block_fma) {
        if (const std::string words = chains(); !words.empty()) return words;
        continue;
      }
      if (a_.at().op != b_.at().op) return other_operation(a_, b_);
      if (a_.at().op == operation::input) return fmt::format("It is given: {} to {}, {} to {}.", number(a_.told.value_of(a_.step)), a_.name, number(b_.told.value_of(b_.step)), b_.name);
      if (a_.at().operands != b_.at().operands || (a_.at().op == operation::maximum && range_below(a_) != range_below(b_))) return other_count(a_, b_);
      const std::optional<std::size_t> k = first_other_operand(a_, b_);
      if (!k) return fmt::format("The operands of {} are equal, the rules are not. {}", a_.formula(), other_operation(a_, b_));
      if (!step_into(a_.step, *k, b_.step, *k)) return given_words(a_, b_, *k);
    }
  }

  [[nodiscard]] side const& a() const noexcept { return a_; }
  [[nodiscard]] side const& b() const noexcept { return b_; }

 private:
  /// Goes on with an operand of each; false where one is a literal.
  bool step_into(std::size_t of_a, std::size_t k, std::size_t of_b, std::size_t l) {
    account_operand const &x = a_.told.operands(of_a)[k], &y = b_.told.operands(of_b)[l];
    if (x.step == account_operand::literal || y.step == account_operand::literal) return false;
    a_.step = std::size_t(x.step);
    b_.step = std::size_t(y.step);
    return true;
  }

  /// Empty: went on with the operands that differ.
  std::string chains() {
    const product_chain chain_a = product_chain_of(a_.told, a_.step), chain_b = product_chain_of(b_.told, b_.step);
    const std::size_t first_a = chain_a.blocks.front(), first_b = chain_b.blocks.front(), c_a = a_.at().operands - 1, c_b = b_.at().operands - 1;
    const side start_a{a_.told, a_.name, first_a}, start_b{b_.told, b_.name, first_b};
    if (chain_a.products != chain_b.products) return other_products(chain_a, chain_b);
    if (!same_operand(start_a, c_a, start_b, c_b)) {
      if (step_into(first_a, c_a, first_b, c_b)) return {};
      return fmt::format("The products are equal, but the chain starts from {} in {} and from {} in {}.", number(start_a.told.value_of(first_a, c_a)), a_.name,
                         number(start_b.told.value_of(first_b, c_b)), b_.name);
    }
    const stretch where = first_parting(a_.told, chain_a, b_.told, chain_b);
    if (where.end == 0) return "The chains end at other products.";
    a_.step = chain_a.blocks[where.block_a];
    b_.step = chain_b.blocks[where.block_b];
    const std::string before = where.first == 0 ? "" : fmt::format("After k = {} both have {}. ", where.first - 1, number(before_value(chain_a, where.first)));
    return fmt::format("{}{} {}. {} {}. After k = {} they have {} and {}.", before, a_.name, chain_words(a_.told, chain_a, where), b_.name, chain_words(b_.told, chain_b, where), where.end - 1,
                       number(a_.told.value_of(a_.step)), number(b_.told.value_of(b_.step)));
  }

  [[nodiscard]] double before_value(product_chain const& chain, std::size_t products) const {
    const auto at = std::ranges::find(chain.ends, products);
    return a_.told.value_of(chain.blocks[std::size_t(at - chain.ends.begin())]);
  }

  std::string other_products(product_chain const& chain_a, product_chain const& chain_b) {
    auto sorted_a = chain_a.products, sorted_b = chain_b.products;
    std::ranges::sort(sorted_a);
    std::ranges::sort(sorted_b);
    std::size_t n = 0;
    while (n < chain_a.products.size() && n < chain_b.products.size() && chain_a.products[n] == chain_b.products[n]) ++n;
    if (sorted_a == sorted_b) return fmt::format("{} and {} take the same {} products in another order; the first that differs is number {}.", a_.name, b_.name, sorted_a.size(), n + 1);
    if (n == chain_a.products.size() || n == chain_b.products.size())
      return fmt::format("{} takes {} products, {} takes {}.", a_.name, chain_a.products.size(), b_.name, chain_b.products.size());
    const auto [block_a, k_a] = place(a_.told, chain_a, n);
    const auto [block_b, k_b] = place(b_.told, chain_b, n);
    const std::size_t factor = chain_a.products[n].first != chain_b.products[n].first ? 0 : 1;
    if (step_into(block_a, 2 * k_a + factor, block_b, 2 * k_b + factor)) return {};
    return fmt::format("Product {} is {} × {} in {} and {} × {} in {}.", n, number(chain_a.products[n].first), number(chain_a.products[n].second), a_.name, number(chain_b.products[n].first),
                       number(chain_b.products[n].second), b_.name);
  }

  /// Block and k of product n.
  static std::pair<std::size_t, std::size_t> place(account const& a, product_chain const& chain, std::size_t n) {
    std::size_t before = 0;
    for (std::size_t block : chain.blocks) {
      const std::size_t count = a[block].operands / 2;
      if (n < before + count) return {block, n - before};
      before += count;
    }
    return {chain.blocks.back(), 0};
  }

  side a_, b_;
};

account_difference described(side a, side b) {
  account_difference d{.where = a.at().name.symbol.empty() ? b.at().name : a.at().name, .at_a = a.step, .at_b = b.step, .bits_a = a.at().bits, .bits_b = b.at().bits, .equal = {}, .sentence = {}};
  descent down(a, b);
  const std::string words = down.go();
  d.step_a = down.a().step;
  d.step_b = down.b().step;
  d.equal = equal_names(down.a(), down.b());
  const auto value = [](side const& s) { return fmt::format("{} ({}) in {}", decimal_of(s.at().result, s.at().bits), hex_of(s.at().result, s.at().bits), s.name); };
  d.sentence = fmt::format("The first quantity that differs is {}: {}, {}.", label_of(a.told, a.step), value(a), value(b));
  if (!d.equal.empty()) d.sentence += fmt::format(" Equal in both: {}.", list(d.equal));
  d.sentence += " " + words;
  return d;
}

}  // namespace

std::optional<account_difference> first_difference(account const& a, account const& b, std::string_view name_a, std::string_view name_b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].name.symbol.empty() || a.find(a[i].name) != i) continue;
    const std::optional<std::size_t> j = b.find(a[i].name);
    if (!j) continue;
    const side of_a{a, name_a, i}, of_b{b, name_b, *j};
    if (!same_code(of_a, of_b)) return described(of_a, of_b);
  }
  if (a.size() == 0 || b.size() == 0) return std::nullopt;
  const side of_a{a, name_a, a.size() - 1}, of_b{b, name_b, b.size() - 1};
  if (!same_code(of_a, of_b)) return described(of_a, of_b);
  return std::nullopt;
}

std::string tell(account_difference const& d) { return wrapped(d.sentence, 110); }

}  // namespace stickybit
