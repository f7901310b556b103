#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "stickybit/identify/unit_probe.hpp"
#include "stickybit/machine/unit.hpp"

// What may differ from unit to unit: each rule is a field of machine_unit and the values that it may have, the usual one first.

namespace stickybit::detail {

struct unit_rule {
  std::string_view name;
  int (*get)(machine_unit const&);
  void (*set)(machine_unit&, int);
  std::string (*text)(machine_unit const&);
  std::vector<int> values;
};

/// Are its values numbers, not names?
[[nodiscard]] inline bool is_numeric(unit_rule const& rule) noexcept { return rule.values.size() > 6; }

/// Products in one block, and what is done to a block's sum, where nothing is near a format's ends.
[[nodiscard]] std::vector<unit_rule> ordinary_rules(unit_formats const& formats, bool several_blocks, std::vector<int> fraction_bits);
/// The smallest numbers and zeros.
[[nodiscard]] std::vector<unit_rule> small_rules(unit_formats const& formats);
[[nodiscard]] std::vector<unit_rule> large_rules();
[[nodiscard]] std::vector<unit_rule> low_bit_rules(unit_formats const& formats);
/// All of them.
[[nodiscard]] std::vector<unit_rule> all_rules(unit_formats const& formats, bool several_blocks);

/// A rule without effect has its usual value.
[[nodiscard]] bool is_canonical(machine_unit const& unit) noexcept;

/// "2 blocks of 16: k = 0-15, then 16-31".
[[nodiscard]] std::string blocks_text(machine_unit const& unit);
/// The k of each block, as the unit has them.
[[nodiscard]] std::vector<std::vector<int>> blocks_in(machine_unit const& unit);

/// No alignment exponent is below this one.
inline constexpr int no_clamp = -1100;

/// A unit of these formats with the usual rules; its numbers mean nothing yet.
[[nodiscard]] machine_unit blank_unit(unit_formats const& formats);

}  // namespace stickybit::detail
