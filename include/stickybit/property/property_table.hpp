#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stickybit/property/properties.hpp"

// Which properties hold for which schedule: found by search, so that nobody need believe it.

namespace stickybit {

enum class holding : std::uint8_t {
  exactly,        ///< no deviation in any case that was tried
  approximately,  ///< deviations, none above the property's tolerance
  no,             ///< a deviation above the tolerance
  untested,       ///< no case applied: the schedule has no backward pass, or takes no such call
};
[[nodiscard]] std::string_view name_of(holding h) noexcept;

/// What a search found of one property of one kernel.
struct property_finding {
  std::string property;
  holding holds = holding::untested;
  std::int64_t cases = 0;            ///< that applied
  double largest = 0;                ///< deviation, in units of the tolerance
  std::uint64_t seed = 0;            ///< of the case with the largest deviation
  std::string recipe, what;
};

/// A case by its recipe, so that it stays the same when generators are added.
struct searched_case {
  std::string_view recipe;
  std::uint64_t seed;
};

struct property_search {
  case_space space;
  std::uint64_t first_seed = 1;
  std::int64_t cases = 100;
  std::span<searched_case const> larger = {};  ///< further cases, of calls of every size (the default space, with as many queries at least)
};

/// The cases of table() for a schedule: small ones, so that the search is quick; as many queries as the schedule's kernel needs.
[[nodiscard]] property_search table_search(attention_schedule const& schedule);

[[nodiscard]] property_finding search_property(attention_property const& property, kernel_under_test& kernel, attention_schedule const& schedule, property_search const& search);

/// What is known of a schedule: the table, as data. Every entry is the outcome of table_search(), compared by a test.
/// @returns nothing where the table has not the schedule (a changed one: search_property says)
[[nodiscard]] std::optional<holding> known_holding(std::string_view schedule, std::string_view property) noexcept;

/// Every schedule of stickybit, every property but equals-schedule: docs/properties.md, as `stickybit check --properties` prints it.
[[nodiscard]] std::string properties_markdown();

}  // namespace stickybit
