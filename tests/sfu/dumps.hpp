#pragma once
#include <cstdint>
#include <filesystem>
#include <vector>

namespace testing {

/// The folder of what an H200 gave for every code of a binade; not part of this repository.
[[nodiscard]] std::filesystem::path dump_folder();

/// Can the dumps be read here? If not, prints a line that begins "SKIPPED: " and says why.
[[nodiscard]] bool dumps_available();

/// The 2^23 results of a binade, in order of its codes. A file is xz; inside are little-endian 32-bit differences from one
/// result to the next (the first from 0), modulo 2^32.
/// @throws std::runtime_error naming the file
[[nodiscard]] std::vector<std::uint32_t> read_dump(std::filesystem::path const& file);

}  // namespace testing
