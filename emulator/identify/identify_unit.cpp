#include "stickybit/identify/identify_unit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ranges>

#include "stickybit/machine/machine.hpp"
#include "unit_lines.hpp"
#include "unit_search.hpp"

namespace stickybit {
namespace {

using namespace detail;

constexpr int repeated_cases = 64, opening_cases = 32, first_trials = 48, patient_trials = 256, most_repairs = 6, nan_cases = 48, verification_batch = 500;
constexpr std::size_t most_repaired = 64, most_beams = 48;
constexpr int most_block = 32;

/// Fewest unusual rules first, where answers leave a choice.
void sort_by_usualness(std::vector<machine_unit>& units, std::vector<unit_rule> const& rules) {
  const auto unusual = [&](machine_unit const& u) {
    return std::ranges::count_if(rules, [&](unit_rule const& r) { return !is_numeric(r) && r.get(u) != r.values.front(); });
  };
  std::ranges::stable_sort(units, {}, unusual);
}

class identification {
 public:
  identification(unit_under_test& unit, identify_unit_options const& options) : options_(options), log_(unit), maker_(unit.formats(), options.seed), formats_(unit.formats()) {
    result_.formats = formats_;
  }

  unit_identification run() {
    if (!is_repeatable()) return finish();
    if (is_describable()) {
      report("blocks");
      for (const int trials : {first_trials, patient_trials})
        if (!result_.description) try_to_describe(trials);
    }
    if (!result_.description) check_only();
    report("known units");
    find_known();
    return finish();
  }

 private:
  void report(std::string_view stage) const {
    if (options_.report) options_.report(stage);
  }

  bool is_describable() {
    const bool known_output = formats_.output == format::f32 || formats_.output == format::f16;
    if (!known_output) result_.failure = "descriptions have FP32 or FP16 results";
    return known_output;
  }

  /// Is the unit a function of its operands?
  bool is_repeatable() {
    std::vector<unit_case> cases = make_cases(maker_, all_kinds, repeated_cases);
    const std::vector<unit_case> forward = cases;
    const std::span<std::uint64_t const> first = log_.ask(std::move(cases));
    std::vector<unit_case> backward(forward.rbegin(), forward.rend());
    for (int round = 0; round < 2; ++round) {
      const std::vector<std::uint64_t> again = log_.ask_again(backward);
      for (std::size_t i = 0; i < again.size(); ++i) {
        const std::uint64_t before = first[first.size() - 1 - i];
        if (again[i] == before) continue;
        result_.failure = "not a function of its operands: the same ones gave two results";
        result_.first_difference = unit_proof{backward[i], before, "the same operands again", again[i]};
        return false;
      }
    }
    return true;
  }

  /// One unit for each order of the blocks that is not excluded.
  std::vector<machine_unit> bases_of(block_structure const& s) {
    std::vector<machine_unit> bases;
    for (auto const& order : s.orders) bases.push_back(with_blocks(blank_unit(formats_), s.blocks, order, store_));
    return bases;
  }

  void try_to_describe(int trials) {
    result_.failure.clear();
    if (find_rules(trials)) {
      find_nans();
      doubt();
      verify();
    } else if (result_.failure.empty()) {
      result_.failure = "no combination of the rules gives the answers to ordinary operands";
    }
  }

  /// Exchanges that change nothing say what the blocks are; then the rules, group by group.
  bool find_rules(int trials) {
    const block_structure structure = find_blocks(log_, maker_, trials);
    several_blocks_ = structure.blocks.size() > 1;
    if (std::ranges::any_of(structure.blocks, [](auto const& b) { return std::ssize(b) > most_block; })) {
      result_.failure = fmt::format("a block has more than {} products", most_block);
      return false;
    }
    const std::vector<machine_unit> bases = bases_of(structure);
    report("ordinary numbers");
    std::vector<machine_unit> found = ordinary(bases, structure.fraction_bits);
    if (found.empty() && !structure.fraction_bits.empty()) found = ordinary(bases, {});
    if (found.empty()) return false;
    unit_ = found.front();
    ordinary_ = std::move(found);
    report("small numbers");
    // Where nothing fits, verify() will say on what.
    if (!settle(std::span(&unit_, 1), small_rules(formats_), small_kinds)) {
      report("small numbers, with what ordinary ones left open");
      (void)settle(std::span(ordinary_).first(std::min(ordinary_.size(), most_beams)), small_rules(formats_), small_kinds);
    }
    (void)settle(std::span(&unit_, 1), large_rules(), large_kinds);
    if (const std::vector<unit_rule> low_bits = low_bit_rules(formats_); !low_bits.empty()) (void)settle(std::span(&unit_, 1), low_bits, low_bit_kinds);
    return true;
  }

  std::vector<machine_unit> ordinary(std::vector<machine_unit> const& bases, std::vector<int> const& fraction_bits) {
    (void)log_.ask(make_cases(maker_, ordinary_kinds, opening_cases));
    std::vector<unit_rule> rules = ordinary_rules(formats_, several_blocks_, fraction_bits);
    if (formats_.output == format::f16) {  // FP16's ends are near: a partial sum may pass them
      for (unit_rule& rule : small_rules(formats_))
        if (rule.name == "subnormal results" || rule.name == "subnormal c") rules.push_back(std::move(rule));
      rules.push_back(large_rules().front());
    }
    const auto cases = log_.cases().last(opening_cases);
    const auto answers = log_.answers().last(opening_cases);
    std::vector<machine_unit> found = fitting(bases, rules, cases, answers, agreement::loosely, tried_);
    if (formats_.output == format::f32)
      for (machine_unit exact : bases) {
        exact.arithmetic = block_arithmetic::exact_sum;
        if (fits(exact, cases, answers, agreement::loosely)) found.push_back(exact);
      }
    narrow_down(found, log_, maker_, ordinary_kinds, agreement::loosely);
    sort_by_usualness(found, rules);
    return found;
  }

  /// The unit gets the values of these rules, on one of the bases, that fit cases of these kinds.
  bool settle(std::span<machine_unit const> bases, std::vector<unit_rule> const& rules, std::span<case_kind const> kinds) {
    (void)log_.ask(make_cases(maker_, kinds, opening_cases));
    std::vector<machine_unit> found = fitting(bases, rules, log_.cases().last(opening_cases), log_.answers().last(opening_cases), agreement::exactly, tried_);
    narrow_down(found, log_, maker_, kinds, agreement::exactly);
    if (found.empty()) return false;
    sort_by_usualness(found, rules);
    unit_ = found.front();
    return true;
  }

  void find_nans() {
    std::vector<unit_case> cases;
    for (int i = 0; i < 20 * nan_cases && std::ssize(cases) < nan_cases; ++i) {
      unit_case x = maker_.make(i % 2 == 0 ? case_kind::special : case_kind::any_bits);
      if (is_nan(formats_.output, result_of(unit_, x))) cases.push_back(std::move(x));
    }
    if (cases.empty()) return;
    bool any = false;
    for (std::uint64_t d : log_.ask(std::move(cases))) {
      if (!is_nan(formats_.output, d)) continue;
      if (any && d != unit_.nan_bits) result_.several_nans = true;
      if (!any) unit_.nan_bits = std::uint32_t(d);
      any = true;
    }
    if (result_.several_nans) unit_.nan_bits = 0x7fffffff;
  }

  /// One rule changed, where all answers so far allow it: cases that tell such a unit from the description are asked.
  void doubt() {
    if (!fits(unit_, log_.cases(), log_.answers(), agreement::exactly)) return;
    report("doubts");
    const std::vector<unit_rule> rules = all_rules(formats_, several_blocks_);
    std::vector<machine_unit> found{unit_};
    for (unit_rule const& rule : rules)
      for (int value : rule.values) {
        machine_unit u = unit_;
        rule.set(u, value);
        if (value != rule.get(unit_) && is_canonical(u) && fits(u, log_.cases(), log_.answers(), agreement::exactly)) found.push_back(u);
      }
    narrow_down(found, log_, maker_, all_kinds, agreement::exactly);
    sort_by_usualness(found, rules);
    if (!found.empty()) unit_ = found.front();
  }

  [[nodiscard]] bool is_right(machine_unit const& unit, unit_case const& x, std::uint64_t answer, bool any_nan) const {
    const std::uint64_t predicted = result_of(unit, x);
    return predicted == answer || (any_nan && is_nan(formats_.output, predicted) && is_nan(formats_.output, answer));
  }

  /// Fresh random cases; a difference sends the search back with that case, a few times.
  void verify() {
    for (int repairs = 0;; ++repairs) {
      report("final check");
      const std::optional<std::size_t> wrong = check();
      if (!wrong) break;
      const unit_case x = checked_.cases[*wrong];
      const std::uint64_t answer = checked_.answers[*wrong];
      if (repairs < most_repairs && repair(x)) continue;
      result_.failure = "no description found gives every answer";
      result_.nearest = made_unit();
      result_.several_nans = false;
      result_.first_difference = unit_proof{x, answer, "the nearest description", result_of(unit_, x)};
      return;
    }
    describe();
  }

  /// The first of fresh cases about which the description is wrong. They are kept for the known units.
  std::optional<std::size_t> check() {
    checked_ = {};
    for (int done = 0; done < options_.verification_cases; done += verification_batch) {
      std::vector<unit_case> cases = make_cases(maker_, all_kinds, verification_batch);
      const std::vector<std::uint64_t> answers = log_.ask_again(cases);
      for (std::size_t i = 0; i < cases.size(); ++i) {
        checked_.cases.push_back(std::move(cases[i]));
        checked_.answers.push_back(answers[i]);
        if (!is_right(unit_, checked_.cases.back(), answers[i], result_.several_nans)) return checked_.cases.size() - 1;
      }
    }
    for (std::size_t i = 0; i < log_.cases().size(); ++i)
      if (!is_right(unit_, log_.cases()[i], log_.answers()[i], result_.several_nans)) {
        checked_.cases.push_back(log_.cases()[i]);
        checked_.answers.push_back(log_.answers()[i]);
        return checked_.cases.size() - 1;
      }
    return {};
  }

  /// No description: cases for the known units alone.
  void check_only() {
    checked_.cases = make_cases(maker_, all_kinds, options_.verification_cases);
    checked_.answers = log_.ask_again(checked_.cases);
  }

  /// One rule or two changed so that this answer too is right, and all before.
  bool repair(unit_case const& x) {
    report("second thoughts");
    (void)log_.ask({x});
    const std::vector<unit_rule> rules = all_rules(formats_, several_blocks_);
    std::vector<machine_unit> found;
    const auto change = [&](machine_unit const& from, std::size_t first_rule, auto&& visit) {
      for (std::size_t i = first_rule; i < rules.size(); ++i)
        for (int v : rules[i].values) {
          machine_unit u = from;
          rules[i].set(u, v);
          if (found.size() < most_repaired) visit(u, i);
        }
    };
    const auto try_one = [&](machine_unit const& u) {
      if (is_canonical(u) && fits(u, log_.cases(), log_.answers(), agreement::exactly)) found.push_back(u);
    };
    for (machine_unit u : ordinary_) {  // what ordinary operands left open
      for (auto const& group : {small_rules(formats_), large_rules(), low_bit_rules(formats_)})
        for (unit_rule const& rule : group) rule.set(u, rule.get(unit_));
      u.nan_bits = unit_.nan_bits;
      if (found.size() < most_repaired) try_one(u);
    }
    if (found.empty()) change(unit_, 0, [&](machine_unit const& u, std::size_t) { try_one(u); });
    if (found.empty()) change(unit_, 0, [&](machine_unit const& one, std::size_t i) { change(one, i + 1, [&](machine_unit const& u, std::size_t) { try_one(u); }); });
    narrow_down(found, log_, maker_, all_kinds, agreement::exactly);
    if (found.empty()) return false;
    sort_by_usualness(found, rules);
    unit_ = found.front();
    return true;
  }

  /// The unit as it is known now, with what its views point to.
  [[nodiscard]] std::shared_ptr<owned_unit const> made_unit() const {
    auto made = std::make_shared<owned_unit>(owned_unit{"measured", "measured", {unit_.permutation.begin(), unit_.permutation.end()}, unit_});
    made->unit.name = made->name;
    made->unit.instruction = made->instruction;
    made->unit.permutation = made->permutation;
    return made;
  }

  void describe() {
    auto made = made_unit();
    report("proofs");
    result_.lines = explain_lines(made->unit, all_rules(formats_, several_blocks_), log_);
    result_.lines.push_back({"NaN", result_.several_nans ? std::string("several codes") : fmt::format("{:08x}", unit_.nan_bits), {}, {}});
    result_.description = std::move(made);
  }

  void find_known() {
    const auto fits_all = [&](machine_unit const& u, std::span<unit_case const> cases, std::span<std::uint64_t const> answers) {
      for (std::size_t i = 0; i < cases.size(); ++i)
        if (!is_right(u, cases[i], answers[i], false)) return false;
      return true;
    };
    for (machine const* m : all_machines())
      for (machine_unit const& u : m->units) {
        if (u.is_scaled() || u.arithmetic == block_arithmetic::grouped_sum) continue;
        unit_formats f = formats_of(u);
        if (u.output == format::f16) f.c = formats_.c;
        if (f == formats_ && fits_all(u, log_.cases(), log_.answers()) && fits_all(u, checked_.cases, checked_.answers)) result_.known.emplace_back(u.name);
      }
  }

  unit_identification finish() {
    result_.verified = std::ssize(checked_.cases);
    result_.probes = log_.count() - result_.verified;
    return std::move(result_);
  }

  struct checked_cases {
    std::vector<unit_case> cases;
    std::vector<std::uint64_t> answers;
  };

  identify_unit_options options_;
  probe_log log_;
  case_maker maker_;
  unit_formats formats_;
  unit_identification result_;
  permutation_store store_;
  std::vector<machine_unit> ordinary_;  ///< all that ordinary operands do not exclude
  machine_unit unit_{blank_unit({})};
  checked_cases checked_;
  bool several_blocks_ = false;
  std::int64_t tried_ = 0;
};

}  // namespace

unit_identification identify_unit(unit_under_test& unit, identify_unit_options const& options) { return identification(unit, options).run(); }

}  // namespace stickybit
