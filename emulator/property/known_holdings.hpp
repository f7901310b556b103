#pragma once
#include <optional>
#include <string_view>

#include "stickybit/property/property_table.hpp"

namespace stickybit::detail {

[[nodiscard]] std::optional<holding> known_holding_of(std::string_view schedule, std::string_view property) noexcept;

}  // namespace stickybit::detail
