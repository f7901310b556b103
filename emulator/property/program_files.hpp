#pragma once
#include <filesystem>
#include <string>

#include "stickybit/property/kernel.hpp"

// What kernels that are commands share: a folder for a call's files, what the command said, and its results.

namespace stickybit::detail {

/// An empty folder that is gone with the object.
class scratch_folder {
 public:
  scratch_folder();  ///< @throws kernel_failure
  ~scratch_folder();
  scratch_folder(scratch_folder const&) = delete;
  scratch_folder& operator=(scratch_folder const&) = delete;
  [[nodiscard]] std::filesystem::path operator/(const char* name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

/// ": the last 500 bytes of the file", or nothing.
[[nodiscard]] std::string tail_of(std::filesystem::path const& file);

/// @throws kernel_failure(wrong_output) where the file is none, or lacks a result
[[nodiscard]] kernel_results read_results(std::string const& command, attention_problem const& problem, std::filesystem::path const& path, bool gradients);

}  // namespace stickybit::detail
