#pragma once
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace stickybit {

/// A file that appears whole or not at all: written beside its place, and renamed to it by commit(). Without that call it is
/// removed, and what was there before stays. Only a regular file is replaced; a link leads to what it names.
/// Every failure is a file_error.
class output_file {
 public:
  explicit output_file(std::filesystem::path const& path);
  ~output_file();
  output_file(output_file const&) = delete;
  output_file& operator=(output_file const&) = delete;

  void write(std::span<std::byte const> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  /// The last call.
  void commit();

 private:
  struct closer {
    void operator()(std::FILE* stream) const noexcept { std::fclose(stream); }
  };

  std::string name_;  ///< what messages call the file
  std::filesystem::path target_, temporary_;
  std::unique_ptr<std::FILE, closer> stream_;
};

}  // namespace stickybit
