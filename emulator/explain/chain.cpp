#include "chain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "block_words.hpp"
#include "formula.hpp"
#include "stickybit/format/value.hpp"
#include "stickybit/format/with_format.hpp"

namespace stickybit::detail {
namespace {

struct loss {
  std::string what;
  double amount;
  bool altogether = false;
};

/// What one block loses: of which terms, and in the rounding of its sum.
void add_losses(account const& a, product_chain const& chain, std::size_t n, std::size_t begin, std::vector<loss>& losses) {
  step_events events;
  static_cast<void>(a.carry_out(chain.blocks[n], &events));
  for (term_aligned const& t : events.all<term_aligned>()) {
    if (t.dropped == 0) continue;
    const bool product = t.index != term_aligned::accumulator;
    const std::string k = product ? std::to_string(begin + std::size_t(t.index)) : std::string{};
    if (product && t.kept == 0) losses.push_back({k, -lost_of(t), true});
    else losses.push_back({fmt::format("of {} the last {} lost", product ? fmt::format("term {}", k) : std::string(begin == 0 ? "c" : "the sum so far"), t.shift == -1 ? "bit is" : fmt::format("{} bits are", -t.shift)), -lost_of(t)});
  }
  for (rounded const& e : events.all<rounded>())
    if (const double error = error_of(e); error != 0)
      losses.push_back({fmt::format("rounding the sum ({}) cuts {}{}", name_of(e.rule.mode), name_of(e.cut), e.grew ? " and grows" : ""), error});
}

/// Terms of which nothing is left, as one loss: "term 3 is", "terms 1, 2, 3 and 4 more are lost altogether".
void gather(std::vector<loss>& losses) {
  loss all{"", 0};
  std::size_t count = 0;
  for (loss const& l : losses) {
    if (!l.altogether) continue;
    if (count < 3) all.what += fmt::format("{}{}", count == 0 ? "" : ", ", l.what);
    all.amount += l.amount;
    ++count;
  }
  if (count == 0) return;
  std::erase_if(losses, [](loss const& l) { return l.altogether; });
  if (count > 3) all.what += fmt::format(" and {} more", count - 3);
  losses.push_back({fmt::format("{} {} {} lost altogether", count == 1 ? "term" : "terms", all.what, count == 1 ? "is" : "are"), all.amount});
}

std::string losses_text(std::vector<loss> losses, double ulp) {
  if (losses.empty()) return "nothing is lost";
  gather(losses);
  double total = 0;
  for (loss const& l : losses) total += l.amount;
  std::ranges::stable_sort(losses, [](loss const& x, loss const& y) { return std::fabs(x.amount) > std::fabs(y.amount); });
  std::string text;
  constexpr std::size_t most = 3;
  for (std::size_t n = 0; n < losses.size() && n < most; ++n) {
    const bool only = losses.size() == 1;
    text += fmt::format("{}{} ({}{})", n == 0 ? "" : ", ", losses[n].what, signed_ulps(losses[n].amount / ulp), only ? " ulp of the outcome" : "");
  }
  if (losses.size() > most) text += fmt::format(", and {} smaller losses", losses.size() - most);
  return losses.size() == 1 ? text : text + fmt::format(", together {} ulp of the outcome", signed_ulps(total / ulp));
}

}  // namespace

product_chain product_chain_of(account const& a, std::size_t i) {
  product_chain chain;
  for (std::size_t step = i;;) {
    chain.blocks.push_back(step);
    account_operand const& c = a.operands(step)[a[step].operands - 1];
    if (c.step == account_operand::literal || c.negated || a[std::size_t(c.step)].op != operation::block_fma) break;
    step = std::size_t(c.step);
  }
  std::ranges::reverse(chain.blocks);
  for (std::size_t block : chain.blocks) {
    for (std::size_t k = 0; k + 1 < a[block].operands; k += 2) chain.products.emplace_back(a.value_of(block, k), a.value_of(block, k + 1));
    chain.ends.push_back(chain.products.size());
  }
  while (!chain.products.empty() && chain.products.back() == std::pair{0.0, 0.0}) chain.products.pop_back();
  for (std::size_t& end : chain.ends) end = std::min(end, chain.products.size());
  return chain;
}

stretch first_parting(account const& a, product_chain const& chain_a, account const& b, product_chain const& chain_b) {
  std::size_t first = 0;
  for (std::size_t n = 0; n < chain_a.ends.size(); ++n) {
    const auto same = std::ranges::find(chain_b.ends, chain_a.ends[n]);
    if (same == chain_b.ends.end()) continue;
    const auto m = std::size_t(same - chain_b.ends.begin());
    if (a[chain_a.blocks[n]].bits != b[chain_b.blocks[m]].bits) return {first, chain_a.ends[n], n, m};
    first = chain_a.ends[n];
  }
  return {0, 0, 0, 0};
}

std::string chain_words(account const& a, product_chain const& chain, stretch where) {
  std::string text = "takes";
  std::vector<loss> losses;
  std::size_t last = 0, told = 0;
  for (std::size_t n = 0; n < chain.blocks.size() && chain.ends[n] <= where.end; ++n) {
    const std::size_t begin = n == 0 ? 0 : chain.ends[n - 1];
    if (chain.ends[n] <= where.first && where.first != 0) continue;
    step_events events;
    static_cast<void>(a.carry_out(chain.blocks[n], &events));
    const auto sums = events.all<block_summed>();
    if (told < 4) {
      text += fmt::format("{} k = {} to {}", told == 0 ? "" : ", then", begin, chain.ends[n] - 1);
      if (!sums.empty()) text += fmt::format(" (E = {}, cut at 2^{})", sums.front().max_exponent, sums.front().quantum_exponent);
    }
    ++told;
    add_losses(a, chain, n, begin, losses);
    last = chain.blocks[n];
  }
  if (told > 4) text += fmt::format(" and {} blocks more", told - 4);
  const double value = a.value_of(last);
  const double ulp = std::isfinite(value) ? with_format(a.ulp_format(last), [&]<format F>() { return ulp_at<F>(value); }) : 1;
  return text + ": " + losses_text(losses, ulp);
}

}  // namespace stickybit::detail
