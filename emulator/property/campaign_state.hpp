#pragma once
#include <filesystem>
#include <string>

#include "stickybit/property/campaign.hpp"

namespace stickybit::detail {

/// What must be equal for a checkpoint to be gone on with.
[[nodiscard]] std::string space_text(campaign_options const& options);
[[nodiscard]] std::string state_text(campaign_result const& result, std::string const& space);
/// @throws std::invalid_argument where it is of something else, or no checkpoint
void restore(campaign_result& result, std::filesystem::path const& path, std::string const& space);

}  // namespace stickybit::detail
