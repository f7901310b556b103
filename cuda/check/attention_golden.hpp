#pragma once
#include <cstdint>
#include <string>

namespace stickybit::gpu {

/// Chosen small calls, one file each, with the results of every kernel that this GPU has: for tests/golden/<gpu>/attention/.
/// @returns whether the emulator gives every code of them
bool record_golden_calls(std::string const& folder, std::uint64_t seed);

}  // namespace stickybit::gpu
