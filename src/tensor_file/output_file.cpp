#include "stickybit/tensor_file/output_file.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <random>
#include <system_error>

#include "stickybit/tensor_file/file_error.hpp"

namespace stickybit {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void cannot_write(std::string const& file, std::error_code reason) {
  throw file_error(file, "a file that can be written", fmt::format("an error: {}", reason.message()));
}

/// Where the bytes go in the end: what a link leads to. Only a regular file may be there.
fs::path target_of(fs::path const& path, std::string const& file) {
  std::error_code failed;
  const fs::file_status status = fs::status(path, failed);
  if (fs::is_directory(status)) throw file_error(file, "a file to write", "a folder");
  if (!fs::exists(status)) return path;
  if (!fs::is_regular_file(status)) throw file_error(file, "a file to write", "a device or a pipe");
  const fs::path target = fs::canonical(path, failed);
  return failed ? path : target;
}

std::error_code last_error() { return {errno, std::generic_category()}; }

}  // namespace

output_file::output_file(fs::path const& path) : name_(path.string()), target_(target_of(path, name_)) {
  std::random_device random;
  do {
    temporary_ = target_.parent_path() / fmt::format(".stickybit-{:08x}{:08x}.tmp", random(), random());
    errno = 0;
    stream_.reset(std::fopen(temporary_.c_str(), "wbx"));  // x: never an existing file
  } while (!stream_ && errno == EEXIST);
  if (!stream_) cannot_write(name_, last_error());
}

output_file::~output_file() {
  if (temporary_.empty()) return;
  stream_.reset();
  std::error_code ignored;
  fs::remove(temporary_, ignored);
}

void output_file::write(std::span<std::byte const> bytes) {
  if (bytes.empty()) return;
  if (std::fwrite(bytes.data(), 1, bytes.size(), stream_.get()) != bytes.size()) cannot_write(name_, last_error());
}

void output_file::commit() {
  // A full disk can show as late as here.
  if (std::fclose(stream_.release()) != 0) cannot_write(name_, last_error());
  std::error_code failed;
  fs::rename(temporary_, target_, failed);
  if (failed) cannot_write(name_, failed);
  temporary_.clear();
}

}  // namespace stickybit
