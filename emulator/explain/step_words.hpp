#pragma once
#include <cstddef>
#include <string>

#include "stickybit/explain/account.hpp"

namespace stickybit::detail {

/// What a step's own rounding did, as half a sentence: "it cuts 1000011, more than half: grows by one ulp".
[[nodiscard]] std::string step_reason(account const& a, std::size_t i);

}  // namespace stickybit::detail
