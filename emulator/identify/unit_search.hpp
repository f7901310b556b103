#pragma once
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "stickybit/identify/unit_probe.hpp"
#include "unit_cases.hpp"
#include "unit_rules.hpp"

namespace stickybit::detail {

/// Every case that a black box was asked, with its answer.
class probe_log {
 public:
  explicit probe_log(unit_under_test& unit) : unit_(unit) {}
  /// The answers, in order; they are kept.
  std::span<std::uint64_t const> ask(std::vector<unit_case> cases);
  std::uint64_t ask_one(unit_case x) { return ask({std::move(x)})[0]; }
  /// Asks without keeping.
  [[nodiscard]] std::vector<std::uint64_t> ask_again(std::span<unit_case const> cases) {
    asked_again_ += std::ssize(cases);
    return unit_.evaluate(cases);
  }
  [[nodiscard]] std::span<unit_case const> cases() const noexcept { return cases_; }
  [[nodiscard]] std::span<std::uint64_t const> answers() const noexcept { return answers_; }
  [[nodiscard]] std::int64_t count() const noexcept { return std::ssize(cases_) + asked_again_; }

 private:
  unit_under_test& unit_;
  std::vector<unit_case> cases_;
  std::vector<std::uint64_t> answers_;
  std::int64_t asked_again_ = 0;
};

/// Of a result, which is an FP32 code, or an FP64 code.
[[nodiscard]] bool is_nan(format output, std::uint64_t bits) noexcept;

/// How far an answer must be as predicted. `loosely`: signs of zero and flushed results are rules of their own. Any NaN is any other.
enum class agreement : std::uint8_t { loosely, exactly };
[[nodiscard]] bool agrees(format output, std::uint64_t predicted, std::uint64_t answer, agreement how) noexcept;
/// Is the unit right about all of these? Later cases first: those chosen last exclude most.
[[nodiscard]] bool fits(machine_unit const& unit, std::span<unit_case const> cases, std::span<std::uint64_t const> answers, agreement how);

/// Every combination of the rules' values on each base that is canonical and fits the cases; the number tried is added.
[[nodiscard]] std::vector<machine_unit> fitting(std::span<machine_unit const> bases, std::span<unit_rule const> rules, std::span<unit_case const> cases, std::span<std::uint64_t const> answers,
                                                agreement how, std::int64_t& tried);

/// Asks the cases, of random ones, on which the hypotheses disagree most, until none are left that differ on any of them.
void narrow_down(std::vector<machine_unit>& hypotheses, probe_log& log, case_maker& maker, std::span<case_kind const> kinds, agreement how);

/// Cases of these kinds.
[[nodiscard]] std::vector<unit_case> make_cases(case_maker& maker, std::span<case_kind const> kinds, int count);

/// What can be said of the blocks before any rule is known.
struct block_structure {
  std::vector<std::vector<int>> blocks;   ///< products that may change places without any effect
  std::vector<std::vector<int>> orders;   ///< of the blocks, as far as not excluded
  std::vector<int> fraction_bits;         ///< F, as far as not excluded; empty: any
};
/// @param trials  pairs of cases that must agree before two products are said to be in one block
[[nodiscard]] block_structure find_blocks(probe_log& log, case_maker& maker, int trials);

/// Keeps what units' views point to.
using permutation_store = std::deque<std::vector<std::uint8_t>>;
/// The unit with these blocks in this order; consecutive blocks and pairs get no permutation.
[[nodiscard]] machine_unit with_blocks(machine_unit unit, std::vector<std::vector<int>> const& blocks, std::vector<int> const& order, permutation_store& store);

}  // namespace stickybit::detail
