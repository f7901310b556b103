#pragma once
#include "stickybit/identify/identify_unit.hpp"
#include "unit_search.hpp"

namespace stickybit::detail {

/// The description rule by rule: what every other value is excluded by, or that nothing excludes it. Asks for small proofs.
[[nodiscard]] std::vector<unit_line> explain_lines(machine_unit const& unit, std::vector<unit_rule> const& rules, probe_log& log);

/// "none", "-174 to -140": the values of a rule that has numbers.
[[nodiscard]] std::vector<std::string> ranges_of(std::vector<int> values);

/// The case with products taken out one by one as long as the two still differ.
[[nodiscard]] unit_case shrunk(unit_case x, machine_unit const& unit, machine_unit const& other);

}  // namespace stickybit::detail
