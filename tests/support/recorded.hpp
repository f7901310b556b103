#pragma once
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "stickybit/tensor_file/tensor_file.hpp"

namespace stickybit {

/// A file of tests/golden/h200, recorded on an NVIDIA H200.
inline tensor_file golden(std::string const& name) { return tensor_file::load(std::filesystem::path(STICKYBIT_GOLDEN_DIR) / "h200" / name); }

/// The captures outside the repository under `folder`, sorted; says that it skips when they are not there.
inline std::vector<std::filesystem::path> captures(std::string const& folder) {
  const std::filesystem::path path = std::filesystem::path(STICKYBIT_CAPTURES_DIR) / folder;
  std::vector<std::filesystem::path> files;
  if (!std::filesystem::is_directory(path)) {
    std::cout << "SKIPPED: no captures at " << path.string() << " (set STICKYBIT_CAPTURES)\n";
    return files;
  }
  for (auto const& entry : std::filesystem::directory_iterator(path))
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

}  // namespace stickybit
