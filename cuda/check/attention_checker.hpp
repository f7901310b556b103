#pragma once
#include <string>
#include <vector>

#include "../support/options.hpp"
#include "stickybit/schedule/attention_schedule.hpp"

namespace stickybit::gpu {

/// The options that check_attention knows.  @throws std::invalid_argument
[[nodiscard]] options attention_options(std::vector<std::string> words);

/// Random calls on the GPU against the emulator, as the options say; prints what differs and the totals.  @returns whether every code is equal
bool check_attention(options const& line);

/// The schedule of `kernel` (sm80, sm90; none: fa3) on the unit that this GPU has; name and unit: instead, where they are not empty.
[[nodiscard]] attention_schedule checked_schedule(std::string const& kernel, std::string const& name = "", std::string unit = "");

}  // namespace stickybit::gpu
