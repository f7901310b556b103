#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/command.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

namespace stickybit {

TEST_CASE("check: status 0 for a kernel that equals the schedule, 1 for one that does not, 2 for bad usage", "[cli][check]") {
  const temporary_folder folder;
  ::setenv("OMP_NUM_THREADS", "1", 1);  // calls are small
  const auto call = [&](std::string const& words) { return run_command("check " + words, folder / "errors"); };
  const outcome same = call("emulated:fa3 --schedule fa3 --cases 20 --most-queries 8");
  CHECK(same.status == 0);
  CHECK(same.output.ends_with("PASSED\n"));
  const std::string json = folder / "r.json", junit = folder / "r.xml", out = folder / "shrunk";
  const outcome other = call("emulated:fa3+subtract-first --schedule fa3 --cases 50 --most-queries 8 --finite --json '" + json + "' --junit '" + junit + "' --out '" + out + "'");
  CHECK(other.status == 1);
  CHECK(other.output.find("Likeliest cause: exponent: subtract first") != std::string::npos);
  CHECK(other.output.ends_with("FAILED\n"));
  std::ifstream in(json);
  const auto j = nlohmann::json::parse(in);
  CHECK(j["passed"] == false);
  REQUIRE(j["reports"].size() == 1);
  CHECK(j["reports"][0]["cause_known"] == true);
  CHECK(std::filesystem::exists(junit));
  const std::string file = j["reports"][0]["file"];
  CHECK(call("emulated:fa3+subtract-first --schedule fa3 --replay '" + file + "'").status == 1);
  CHECK(call("emulated:fa3 --schedule fa3 --replay '" + file + "'").status == 0);
  for (const char* wrong : {"", "nothing --schedule fa3", "emulated:fa3 --schedule fa9", "emulated:fa3 --schedule fa3 --property nothing", "lib:/nowhere.so --schedule fa3", "emulated:flex --schedule flex --backward"}) {
    INFO(wrong);
    const outcome bad = call(wrong);
    CHECK(bad.status == 2);
    CHECK(std::count(bad.error.begin(), bad.error.end(), '\n') == 1);
  }
}

TEST_CASE("check: a command that fails is a failure with its input; a schedule is looked for where none is named", "[cli][check]") {
  const temporary_folder folder;
  ::setenv("OMP_NUM_THREADS", "1", 1);
  const outcome failed = run_command("check 'cmd:exit 5 #' --schedule fa3 --cases 3 --out '" + std::string(folder / "out") + "'", folder / "errors");
  CHECK(failed.status == 1);
  CHECK(failed.output.find("FAILED crash") != std::string::npos);
  CHECK(std::filesystem::exists(folder / "out"));
  const outcome found = run_command("check emulated:cudnn --cases 5 --most-queries 6 --most-keys 150", folder / "errors");
  CHECK(found.status == 0);
  CHECK(found.output.find("tested against cudnn") != std::string::npos);
  CHECK(run_command("check --generators", folder / "errors").output.find("tied-apart") != std::string::npos);
}

TEST_CASE("check: the first kernel of docs/check.md compiles, equals no schedule, passes approximately, and fails when its mask is broken", "[cli][check]") {
  const temporary_folder folder;
  ::setenv("OMP_NUM_THREADS", "1", 1);
  std::ifstream in(STICKYBIT_DOCS_DIR "/check.md");
  const std::string page((std::istreambuf_iterator<char>(in)), {});
  const std::size_t begin = page.find("```c\n") + 5;
  std::string source = page.substr(begin, page.find("```", begin) - begin);
  const auto compiled = [&](std::string const& text, std::string const& name) {
    std::ofstream(std::string(folder / (name + ".c"))) << text;
    const std::string library = folder / (name + ".so");
    REQUIRE(std::system(("cc -O2 -shared -fPIC -I '" STICKYBIT_DOCS_DIR "/../include' '" + std::string(folder / (name + ".c")) + "' -lm -o '" + library + "'").c_str()) == 0);
    return library;
  };
  const std::string library = compiled(source, "my_kernel");
  const outcome exact = run_command("check '" + library + "' --schedule fa3 --cases 20 --no-diagnosis --shrink-seconds 1", folder / "errors");
  CHECK(exact.status == 1);
  CHECK(exact.output.find("FAILED equals-schedule") != std::string::npos);
  const outcome approximate = run_command("check '" + library + "' --approximate --cases 150", folder / "errors");
  INFO(approximate.output);
  CHECK(approximate.status == 0);
  const std::string offset = " + c->keys - c->queries";
  REQUIRE(source.find(offset) != std::string::npos);
  const outcome broken = run_command("check '" + compiled(source.erase(source.find(offset), offset.size()), "broken") + "' --approximate --cases 150 --shrink-seconds 1", folder / "errors");
  CHECK(broken.status == 1);
}

}  // namespace stickybit
