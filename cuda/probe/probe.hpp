#pragma once
#include <cmath>
#include <initializer_list>
#include <string>
#include <string_view>

#include "../record/hardware_ways.hpp"
#include "../record/unit_batch.hpp"

// Questions to the hardware. A probe is a file here: its question, operands, what each answer would mean, the answer found.

namespace stickybit::gpu {

/// What a probe found out, line by line; and whether that is what we state.
struct findings {
  bool as_stated = true;
  std::vector<std::string> lines;

  void say(bool stated, std::string line) {
    as_stated = as_stated && stated;
    lines.push_back((stated ? "    " : "    NOT AS STATED: ") + std::move(line));
  }
};

struct probe {
  std::string_view name, question, answer;  ///< the answer that we state
  findings (*ask)();
};

/// One product of a case, at place k.
struct factor_pair {
  int k;
  double a, b;
};

/// One inner product with numbers for operands, and what its result tells.
struct trial {
  std::string_view operands;              ///< in words
  std::initializer_list<factor_pair> products;  ///< all others +0
  double c;
  std::uint64_t stated;                   ///< the result, a code of the output format
  std::string_view meaning, otherwise;    ///< of that result; what another would have meant
};

/// The number's code, which must be exact.  @throws std::logic_error
[[nodiscard]] std::uint64_t code_of_number(case_format const& f, double value);
/// @throws std::out_of_range where nothing on this GPU has that unit and form; form: the end of the instruction's name, empty for the recorded one
[[nodiscard]] hardware_way const& way_of(std::string_view unit, std::string_view form = {});
/// Raw codes of the output format.
[[nodiscard]] std::vector<std::uint64_t> results_of(hardware_way const& way, std::vector<unit_case> const& cases, call_options options = {});
[[nodiscard]] std::uint64_t result_of(hardware_way const& way, unit_case const& x, call_options options = {});
[[nodiscard]] unit_case case_of(hardware_way const& way, std::initializer_list<factor_pair> products, double c, int instructions = 1);
/// The trial by each of the units, in order.
void try_on(findings& found, std::initializer_list<std::string_view> units, trial const& t, int instructions = 1);

/// Random cases for a way: `count` of each named generator, or of all.
[[nodiscard]] std::vector<unit_case> random_cases(std::string_view unit, std::initializer_list<std::string_view> generators, std::size_t count);
/// How many results differ.
[[nodiscard]] std::size_t differing(std::vector<std::uint64_t> const& x, std::vector<std::uint64_t> const& y);
/// "12 of 34 differ", stated or not.
void say_differing(findings& found, bool stated_equal, std::string_view what, std::vector<std::uint64_t> const& x, std::vector<std::uint64_t> const& y);
/// Mismatches of the hardware with the unit sm90.`unit` as `change` makes it.
[[nodiscard]] std::size_t mismatches_with(hardware_way const& way, machine_unit const& unit, std::vector<unit_case> const& cases);
[[nodiscard]] std::string hex_result(hardware_way const& way, std::uint64_t code);

[[nodiscard]] inline double pow2(int e) { return std::ldexp(1.0, e); }

}  // namespace stickybit::gpu
