#include "unit_lines.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace stickybit::detail {
namespace {

constexpr int no_answer = -1;

int terms_in(unit_case const& x, machine_unit const& unit) {
  int count = (x.c & 0x7fffffff) != 0;
  for (std::size_t k = 0; k < x.a.size(); ++k) count += x.a[k] != zero_bits(unit.input, false) || x.b[k] != zero_bits(unit.input_b, false);
  return count;
}

/// The asked case with fewest terms on which the two differ, or no_answer. Looks at no more than it must: cases chosen to divide come first.
int simplest_difference(machine_unit const& unit, machine_unit const& other, probe_log const& log) {
  int best = no_answer, fewest = 1000, found = 0;
  for (std::size_t i = 0; i < log.cases().size() && found < 4; ++i) {
    unit_case const& x = log.cases()[i];
    if (agrees(unit.output, result_of(other, x), log.answers()[i], agreement::exactly)) continue;
    ++found;
    if (const int terms = terms_in(x, unit); terms < fewest) {
      fewest = terms;
      best = int(i);
    }
  }
  return best;
}

struct alternative {
  std::string text;
  machine_unit unit;
  int value = 0;
};

/// Which of these the answers exclude, with the smallest proof against the first of them; returns the values that they do not.
std::vector<int> judge(unit_line& line, machine_unit const& unit, std::vector<alternative> const& others, probe_log& log) {
  std::vector<int> open;
  for (alternative const& other : others) {
    const int at = simplest_difference(unit, other.unit, log);
    if (at == no_answer) {
      line.also_fits.push_back(other.text);
      open.push_back(other.value);
      continue;
    }
    if (line.proof) continue;
    unit_proof proof{shrunk(log.cases()[std::size_t(at)], unit, other.unit), 0, other.text, 0};
    proof.result = log.ask_one(proof.x);
    proof.other_result = result_of(other.unit, proof.x);
    if (!agrees(unit.output, proof.result, proof.other_result, agreement::exactly)) line.proof = std::move(proof);
  }
  return open;
}

/// Other ways to make blocks of as many products.
std::vector<alternative> other_blocks(machine_unit const& unit) {
  std::vector<alternative> others;
  const auto add = [&](int size) {
    if (size < 1 || size > 32 || unit.instruction_k % size != 0 || (size == unit.block_size && unit.permutation.empty() && unit.order == product_order::ascending)) return;
    machine_unit u = unit;
    u.block_size = size;
    u.permutation = {};
    u.order = product_order::ascending;
    others.push_back({size == unit.instruction_k ? std::string("one block") : fmt::format("blocks of {} in ascending k", size), u});
  };
  add(unit.block_size);
  add(unit.instruction_k);
  for (int size = unit.block_size + 1; size < unit.instruction_k; ++size) add(size);
  for (int size = unit.block_size - 1; size >= 1; --size) add(size);
  return others;
}

/// Values in the order in which a reader would doubt the chosen one: neighbours of a number first.
std::vector<int> doubted(unit_rule const& rule, int chosen) {
  std::vector<int> values = rule.values;
  std::erase(values, chosen);
  if (is_numeric(rule)) std::ranges::stable_sort(values, {}, [&](int v) { return std::abs(v - chosen); });
  return values;
}

}  // namespace

std::vector<std::string> ranges_of(std::vector<int> values) {
  std::ranges::sort(values);
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < values.size();) {
    std::size_t j = i;
    while (j + 1 < values.size() && values[j + 1] == values[j] + 1) ++j;
    texts.push_back(values[i] == no_clamp ? std::string("none") : i == j ? fmt::format("{}", values[i]) : fmt::format("{} to {}", values[i], values[j]));
    i = j + 1;
  }
  return texts;
}

unit_case shrunk(unit_case x, machine_unit const& unit, machine_unit const& other) {
  const auto differ = [&](unit_case const& y) { return !agrees(unit.output, result_of(unit, y), result_of(other, y), agreement::exactly); };
  if (!differ(x)) return x;
  const auto keep_if = [&](unit_case const& y) {
    if (!(y == x) && differ(y)) x = y;
  };
  for (int pass = 0; pass < 2; ++pass) {
    for (std::size_t k = x.a.size(); k-- > 0;) {
      unit_case fewer = x;
      fewer.a[k] = zero_bits(unit.input, false);
      fewer.b[k] = zero_bits(unit.input_b, false);
      keep_if(fewer);
    }
    unit_case without_c = x;
    without_c.c = 0;
    keep_if(without_c);
  }
  return x;
}

std::vector<unit_line> explain_lines(machine_unit const& unit, std::vector<unit_rule> const& rules, probe_log& log) {
  std::vector<unit_line> lines;
  unit_line blocks{"blocks", blocks_text(unit), {}, {}};
  (void)judge(blocks, unit, other_blocks(unit), log);
  lines.push_back(std::move(blocks));
  if (unit.arithmetic == block_arithmetic::exact_sum) {
    lines.push_back({"sum", "products and c are added exactly and rounded once, to nearest even", {}, {}});
    return lines;
  }
  for (unit_rule const& rule : rules) {
    machine_unit changed = unit;
    if (rule.name == "additions" && unit.accumulator == accumulator_place::aligned && unit.join == block_join::chain) continue;
    unit_line line{std::string(rule.name), rule.text(unit), {}, {}};
    std::vector<alternative> others;
    for (int value : doubted(rule, rule.get(unit))) {
      rule.set(changed, value);
      if (is_canonical(changed)) others.push_back({rule.text(changed), changed, value});
    }
    std::vector<int> open = judge(line, unit, others, log);
    if (is_numeric(rule)) line.also_fits = ranges_of(std::move(open));
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace stickybit::detail
