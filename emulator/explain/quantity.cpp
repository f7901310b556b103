#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "stickybit/explain/teller.hpp"

namespace stickybit {
namespace {

/// How the indices of a symbol are written: {i} and {j} stand for them.
struct symbol_words {
  std::string_view symbol, with_index, meaning;
};

constexpr std::array symbols{
    symbol_words{"S", "S[{i}]", "score of key i: q·k, not scaled"},
    symbol_words{"x", "x[{i}]", "argument of the exponential of key i"},
    symbol_words{"p", "p[{i}]", "weight of key i in FP32, before division by the sum"},
    symbol_words{"P", "P[{i}]", "the same weight as the product with V takes it, in BF16"},
    symbol_words{"m", "m after block {i}", "largest score of the row so far"},
    symbol_words{"r", "r of block {i}", "factor that takes what earlier blocks gave down to the new maximum"},
    symbol_words{"l", "l[{j}] after block {i}", "sum of the weights that lane j has seen"},
    symbol_words{"sum", "sum {i}", "sum of the row's weights"},
    symbol_words{"1/sum", "1/sum {i}", "its reciprocal"},
    symbol_words{"lse", "lse {i}", "logarithm of the row's sum of exponentials"},
    symbol_words{"lse2", "lse2 {i}", "the same to base 2, as the backward pass takes it"},
    symbol_words{"A", "A after block {i}", "element of O before the division"},
    symbol_words{"O/sum", "O/sum {i}", "that element divided by the sum, in FP32"},
    symbol_words{"O", "O {i}", "the element of O"},
    symbol_words{"delta", "delta {i}", "row sum of dO·O"},
    symbol_words{"dP", "dP[{i}]", "gradient of the weight of key i: dO·v"},
    symbol_words{"dS", "dS[{i}]", "gradient of the score of key i, in FP32"},
    symbol_words{"dS^", "dS^[{i}]", "the same as the products take it, in BF16"},
    symbol_words{"part", "part of block {i}", "what block i gives to dQ"},
    symbol_words{"dQ", "dQ {i}", "the element of dQ"},
    symbol_words{"dK", "dK {i}", "the element of dK"},
    symbol_words{"dV", "dV {i}", "the element of dV"},
    symbol_words{"weight", "weight {i}", "exp(lse of the part - lse of the row), by which a part's O enters"},
    symbol_words{"bf16 sum", "bf16 sum {i}", "sum of the row's weights as the product takes them"},
    symbol_words{"softmax", "softmax[{i}]", "weight of key i divided by the sum, in FP32"},
    symbol_words{"O in FP32", "O in FP32 {i}", "element i of O before its cast"},
    symbol_words{"row mass", "row mass", "sum of the row of dS as the products take it, 0 in mathematics"},
    symbol_words{"wK", "wK", "the keys' mean by the weights of the correction"},
    symbol_words{"share", "share {i}", "row mass of row i for one unit of weight"},
    symbol_words{"partial", "partial sum {i}", "sum so far"},
    symbol_words{"product", "product", "a·b, rounded by itself"},
    symbol_words{"d", "d, k < {i}", "c + a·b"},
    symbol_words{"slice", "slice {i}, k < {j}", "a slice of K: a chain of its own"},
    symbol_words{"joined", "slices 0 to {i}", "the slices' sums added"},
};

void replace(std::string& text, std::string_view what, std::int32_t by) {
  if (const std::size_t at = text.find(what); at != text.npos) text.replace(at, what.size(), std::to_string(by));
}

}  // namespace

std::string text_of(quantity q) {
  if (q.i < 0 && q.j < 0) return std::string(q.symbol);
  const auto known = std::ranges::find(symbols, q.symbol, &symbol_words::symbol);
  const bool both = q.i >= 0 && q.j >= 0, takes_two = known != symbols.end() && known->with_index.find("{j}") != std::string_view::npos;
  if (q.j >= 0 && known != symbols.end() && !takes_two) return fmt::format("{} of part {}", text_of({q.symbol, q.i}), q.j);  // of split keys
  if (known == symbols.end() || (both && known->with_index.find("{j}") == std::string_view::npos))
    return both ? fmt::format("{}[{},{}]", q.symbol, q.i, q.j) : fmt::format("{}[{}]", q.symbol, q.i);
  if (!both && known->with_index.find("{j}") != std::string_view::npos) return fmt::format("{} {}", q.symbol, q.i);
  std::string text(known->with_index);
  replace(text, "{i}", q.i);
  replace(text, "{j}", q.j);
  return text;
}

std::string_view meaning_of(std::string_view symbol) noexcept {
  const auto known = std::ranges::find(symbols, symbol, &symbol_words::symbol);
  return known == symbols.end() ? std::string_view{} : known->meaning;
}

std::string meaning_of(quantity q) {
  std::string text(meaning_of(q.symbol));
  for (std::string_view what : {"key i", "block i"})
    if (const std::size_t at = text.find(what); at != text.npos && q.i >= 0) text.replace(at + what.size() - 1, 1, std::to_string(q.i));
  if (const std::size_t at = text.find("lane j"); at != text.npos && q.j >= 0) text.replace(at + 5, 1, std::to_string(q.j));
  return text;
}

std::string label_of(account const& a, std::size_t i) { return a[i].name.symbol.empty() ? fmt::format("t{}", i) : text_of(a[i].name); }

}  // namespace stickybit
