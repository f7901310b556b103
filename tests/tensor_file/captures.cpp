// The recorded files, where they are: each loads whole, and its content survives writing.
#include <filesystem>
#include <iostream>
#include <string>

#include "tensor_file/file_bytes.hpp"

using namespace stickybit;
namespace fs = std::filesystem;

TEST_CASE("tensor_file: every capture loads, and parse undoes to_bytes", "[tensor_file][captures]") {
  const fs::path folder = STICKYBIT_CAPTURES_DIR;
  if (!fs::is_directory(folder)) {
    std::cout << "SKIPPED: no captures at " << folder << '\n';
    return;
  }
  std::size_t files = 0;
  std::size_t tensors = 0;
  for (auto const& item : fs::recursive_directory_iterator(folder)) {
    if (item.path().extension() != ".safetensors") continue;
    INFO(item.path().string());
    const tensor_file file = tensor_file::load(item.path());
    CHECK(!file.tensors().empty());
    // Equal content, not equal bytes: other writers order metadata as they like.
    CHECK(tensor_file::parse(file.to_bytes(), "again") == file);
    ++files;
    tensors += file.tensors().size();
  }
  std::cout << "captures: " << files << " files, " << tensors << " tensors\n";
  CHECK(files > 0);
}
