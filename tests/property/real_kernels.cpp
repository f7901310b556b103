// What property tests of real kernels found on an H200 (docs/real_kernels.md): the smallest calls, which the schedules now have right.
#include <filesystem>

#include "stickybit/attention/forward.hpp"
#include "support/catch.hpp"

namespace stickybit {

TEST_CASE("real kernels: the smallest calls of failures on an H200 are emulated code for code", "[property][golden]") {
  std::int64_t files = 0;
  for (auto const& entry : std::filesystem::directory_iterator(std::filesystem::path(STICKYBIT_GOLDEN_DIR) / "h200" / "property")) {
    if (entry.path().extension() != ".safetensors") continue;
    ++files;
    const tensor_file file = tensor_file::load(entry.path());
    const attention_problem p = read_problem(file);
    for (auto [producer, schedule] : {std::pair{"cudnn", "cudnn"}, {"flex_long", "flex-long"}, {"triton_m64_n64", "triton-m64-n64"}}) {
      if (file.find(std::string(producer) + ".o") == nullptr) continue;
      INFO(entry.path().filename().string());
      const forward_result r = attention_forward(attention_schedule_named(schedule), p);
      CHECK(r.o == file.require(std::string(producer) + ".o", dtype::bf16, p.query_shape()).elements<bf16_code>());
      CHECK(r.lse == file.require(std::string(producer) + ".lse", dtype::f32, p.row_shape()).elements<f32_code>());
    }
  }
  CHECK(files == 4);
}

}  // namespace stickybit
