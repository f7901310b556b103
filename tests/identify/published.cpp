// Hardware vectors that others have published: every file 0 mismatches on the unit that its metadata names. They stay outside the repository.
#include "stickybit/identify/validate.hpp"

#include <fmt/format.h>

#include "stickybit/machine/machine.hpp"
#include "support/catch.hpp"
#include "support/recorded.hpp"

using namespace stickybit;

TEST_CASE("validate: every published file of hardware vectors has 0 mismatches", "[identify][golden]") {
  const auto files = captures("published");
  std::int64_t compared = 0;
  for (std::filesystem::path const& path : files) {
    const tensor_file file = tensor_file::load(path);
    const std::vector<verdict> verdicts = validate(file);
    INFO(path.filename().string());
    REQUIRE(verdicts.size() == 1);
    CHECK(verdicts[0].skipped.empty());
    CHECK(verdicts[0].mismatches == 0);
    CHECK(verdicts[0].total == 5000);
    compared += verdicts[0].total;
  }
  if (!files.empty()) fmt::print("published vectors: {} files, {} inner products, 0 mismatches\n", files.size(), compared);
}

TEST_CASE("validate: published FP8 vectors through mma.sync fit no other unit of FP8", "[identify][golden]") {
  const auto files = captures("published");
  for (std::filesystem::path const& path : files) {
    const std::string name = path.stem().string();
    if (name != "H200_E4M3_fp16" && name != "H200_E5M2_fp16" && name != "B200_E4M3_fp32" && name != "B200_E5M2_fp32") continue;
    const tensor_file file = tensor_file::load(path);
    const bool half = name.ends_with("fp16");
    for (const char* machine : {"sm89.mma.", "sm90.wgmma.", "sm100.tcgen05."}) {
      const std::string unit = std::string(machine) + (name.find("E4M3") != name.npos ? "e4m3" : "e5m2") + (half ? ".f16" : ".f32");
      const std::vector<verdict> verdicts = validate(file, {.unit = unit});
      INFO(name << " on " << unit);
      CHECK(verdicts.at(0).mismatches > 100);
    }
  }
}
