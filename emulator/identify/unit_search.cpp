#include "unit_search.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <ranges>

namespace stickybit::detail {
namespace {

constexpr std::uint64_t sign_of_f32 = 0x80000000;

constexpr int candidates_a_round = 64, asked_a_round = 4, idle_rounds = 14;
constexpr std::size_t sample_size = 24;

/// How evenly a case divides the hypotheses: Σ over its answers of (hypotheses that give it)², least is best; all of them squared: not at all.
std::size_t collision_of(std::span<machine_unit const> sample, unit_case const& x, format output, agreement how) {
  std::vector<std::pair<std::uint64_t, std::size_t>> groups;
  for (machine_unit const& u : sample) {
    const std::uint64_t d = result_of(u, x);
    const auto same = std::ranges::find_if(groups, [&](auto const& g) { return agrees(output, d, g.first, how) && agrees(output, g.first, d, how); });
    if (same == groups.end()) groups.emplace_back(d, 1);
    else ++same->second;
  }
  std::size_t sum = 0;
  for (auto const& [answer, count] : groups) sum += count * count;
  return sum;
}

/// The cases that divide a sample of the hypotheses best; none where no candidate divides it.
std::vector<unit_case> dividing_cases(std::span<machine_unit const> hypotheses, case_maker& maker, std::span<case_kind const> kinds, agreement how) {
  std::vector<machine_unit> sample;
  if (hypotheses.size() <= sample_size) sample.assign(hypotheses.begin(), hypotheses.end());
  else
    for (std::size_t i = 0; i < sample_size; ++i) sample.push_back(hypotheses[std::size_t(maker.between(0, int(hypotheses.size()) - 1))]);
  std::vector<std::pair<std::size_t, unit_case>> found;
  for (int i = 0; i < candidates_a_round; ++i) {
    unit_case x = maker.make(kinds);
    const std::size_t collision = collision_of(sample, x, hypotheses[0].output, how);
    if (collision < sample.size() * sample.size()) found.emplace_back(collision, std::move(x));
  }
  std::ranges::stable_sort(found, {}, &std::pair<std::size_t, unit_case>::first);
  std::vector<unit_case> best;
  for (std::size_t i = 0; i < found.size() && i < asked_a_round; ++i) best.push_back(std::move(found[i].second));
  return best;
}

void try_combinations(machine_unit const& unit, std::span<unit_rule const> rules, std::function<void(machine_unit const&)> const& visit) {
  if (rules.empty()) return visit(unit);
  machine_unit changed = unit;
  for (int value : rules[0].values) {
    rules[0].set(changed, value);
    try_combinations(changed, rules.subspan(1), visit);
  }
}

}  // namespace

std::span<std::uint64_t const> probe_log::ask(std::vector<unit_case> cases) {
  const std::vector<std::uint64_t> answers = unit_.evaluate(cases);
  if (answers.size() != cases.size()) throw unit_failure("the unit gave another number of results than it was given cases");
  cases_.insert(cases_.end(), std::make_move_iterator(cases.begin()), std::make_move_iterator(cases.end()));
  answers_.insert(answers_.end(), answers.begin(), answers.end());
  return std::span<std::uint64_t const>(answers_).last(answers.size());
}

bool is_nan(format output, std::uint64_t bits) noexcept {
  if (output == format::f64) return (bits & 0x7fffffffffffffff) > 0x7ff0000000000000;
  return (bits & 0x7fffffff) > 0x7f800000;
}

bool agrees(format output, std::uint64_t predicted, std::uint64_t answer, agreement how) noexcept {
  if (predicted == answer) return true;
  if (is_nan(output, predicted) && is_nan(output, answer)) return true;
  if (how == agreement::exactly) return false;
  if ((answer & ~sign_of_f32) != 0) return false;
  const std::uint64_t smallest_normal = output == format::f16 ? power_bits(format::f32, false, -14) : 0x00800000;
  return (predicted & ~sign_of_f32) < smallest_normal;  // both zero, or a subnormal result that is flushed
}

bool fits(machine_unit const& unit, std::span<unit_case const> cases, std::span<std::uint64_t const> answers, agreement how) {
  for (std::size_t i = cases.size(); i-- > 0;)
    if (!agrees(unit.output, result_of(unit, cases[i]), answers[i], how)) return false;
  return true;
}

std::vector<machine_unit> fitting(std::span<machine_unit const> bases, std::span<unit_rule const> rules, std::span<unit_case const> cases, std::span<std::uint64_t const> answers,
                                  agreement how, std::int64_t& tried) {
  std::vector<machine_unit> found;
  for (machine_unit const& base : bases)
    try_combinations(base, rules, [&](machine_unit const& u) {
      if (!is_canonical(u)) return;
      ++tried;
      if (fits(u, cases, answers, how)) found.push_back(u);
    });
  return found;
}

void narrow_down(std::vector<machine_unit>& hypotheses, probe_log& log, case_maker& maker, std::span<case_kind const> kinds, agreement how) {
  for (int idle = 0; hypotheses.size() > 1 && idle < idle_rounds;) {
    std::vector<unit_case> cases = dividing_cases(hypotheses, maker, kinds, how);
    if (cases.empty()) {
      ++idle;
      continue;
    }
    idle = 0;
    const std::vector<unit_case> asked = cases;
    const std::span<std::uint64_t const> answers = log.ask(std::move(cases));
    std::erase_if(hypotheses, [&](machine_unit const& u) { return !fits(u, asked, answers, how); });
  }
}

std::vector<unit_case> make_cases(case_maker& maker, std::span<case_kind const> kinds, int count) {
  std::vector<unit_case> cases;
  for (int i = 0; i < count; ++i) cases.push_back(maker.make(kinds));
  return cases;
}

}  // namespace stickybit::detail
