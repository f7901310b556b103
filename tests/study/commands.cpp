#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/command.hpp"
#include "stickybit/fix/fix.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

namespace stickybit {
namespace {

bool has(std::string const& text, std::string_view part) { return text.find(part) != text.npos; }

}  // namespace

TEST_CASE("study fixes --list: a row for every fix", "[study][cli]") {
  const temporary_folder folder;
  const outcome r = run_command("study fixes --list", (folder.path() / "e").string());
  CHECK(r.status == 0);
  for (fix_description const& f : all_fixes()) CHECK(has(r.output, "| " + std::string(f.name) + " |"));
}

TEST_CASE("study low-rank: the made-up run, a table and its JSON; the same again from the same seed", "[study][cli]") {
  const temporary_folder folder;
  const std::string errors = (folder.path() / "e").string(), report = (folder.path() / "r.json").string();
  const std::string words = "study low-rank --steps 3 --tokens 32 --seed 5 --fixes none --fixes gproj:targets=dq,weights=p --json '" + report + "'";
  const outcome r = run_command(words, errors);
  REQUIRE(r.status == 0);
  CHECK(has(r.output, "3 steps of 32 tokens"));
  std::ifstream file(report);
  const nlohmann::json j = nlohmann::json::parse(file);
  REQUIRE(j["results"].size() == 2);
  CHECK(j["results"][0]["coefficients"].size() == 3);
  CHECK(run_command(words, errors).output == r.output);
}

TEST_CASE("study: bad usage is one line and status 2", "[study][cli]") {
  const temporary_folder folder;
  const std::string errors = (folder.path() / "e").string();
  for (std::string_view words : {"study fixes --fixes nonsense", "study fixes nowhere.safetensors", "study beta nowhere.safetensors", "study low-rank --steps 0", "study low-rank --schedule nonsense"}) {
    INFO(words);
    const outcome r = run_command(std::string(words), errors);
    CHECK(r.status == 2);
    CHECK(std::count(r.error.begin(), r.error.end(), '\n') == 1);
  }
}

}  // namespace stickybit
