#include "program_files.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "stickybit/tensor_file/tensor_file.hpp"

namespace stickybit::detail {

scratch_folder::scratch_folder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "stickybit-check-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw kernel_failure(failure_kind::error, pattern + ": no folder for the call");
  path_ = pattern;
}

scratch_folder::~scratch_folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string tail_of(std::filesystem::path const& file) {
  std::ifstream in(file);
  std::string text((std::istreambuf_iterator<char>(in)), {});
  if (text.size() > 500) text.erase(0, text.size() - 500);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.empty() ? text : fmt::format(": {}", text);
}

kernel_results read_results(std::string const& command, attention_problem const& p, std::filesystem::path const& path, bool gradients) {
  try {
    const tensor_file file = tensor_file::load(path);
    kernel_results r;
    r.o = file.require("o", dtype::bf16, p.query_shape()).elements<bf16_code>();
    if (file.find("lse") != nullptr) r.lse = file.require("lse", dtype::f32, p.row_shape()).elements<f32_code>();
    if (gradients) {
      r.dq = file.require("dq", dtype::bf16, p.query_shape()).elements<bf16_code>();
      r.dk = file.require("dk", dtype::bf16, p.key_shape()).elements<bf16_code>();
      r.dv = file.require("dv", dtype::bf16, p.key_shape()).elements<bf16_code>();
    }
    return r;
  } catch (file_error const& error) {
    throw kernel_failure(failure_kind::wrong_output, fmt::format("{}: {}", command, error.what()));
  }
}

}  // namespace stickybit::detail
