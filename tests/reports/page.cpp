// What the command prints: the page in docs/ is its Markdown, lines fit in 100 columns, JSON holds the same, unknown names are refused.
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/command.hpp"
#include "stickybit/reports/report.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

using namespace stickybit;
using Catch::Matchers::Contains;

namespace {

struct fixture {
  temporary_folder folder;
  outcome run_reports(std::string const& words) { return run_command("reports " + words, (folder / "stderr").string()); }
};

std::vector<std::string> lines_of(std::string const& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace

TEST_CASE_METHOD(fixture, "reports: docs/reports.md is what `stickybit reports --markdown` prints", "[reports][cli]") {
  std::ifstream in(STICKYBIT_DOCS_DIR "/reports.md", std::ios::binary);
  REQUIRE(in);
  const std::string page{std::istreambuf_iterator<char>(in), {}};
  const outcome printed = run_reports("--markdown");
  CHECK(printed.status == 0);
  CHECK(printed.error.empty());
  CHECK((page == printed.output));  // in parentheses: the page is too long to print
  CHECK_THAT(page, Contains("## 30. deepgemm-37-fp8-accumulator") && Contains("1.0001220703125"));
}

TEST_CASE_METHOD(fixture, "reports: table and accounts are plain text of at most 100 columns", "[reports][cli]") {
  for (const char* words : {"", "--all", "5 43 vllm"}) {
    const outcome printed = run_reports(words);
    CHECK(printed.status == 0);
    const std::vector<std::string> lines = lines_of(printed.output);
    CHECK(lines.size() > 20);
    for (std::string const& line : lines) {
      INFO(line);
      CHECK(line.size() <= 100);
      CHECK(std::all_of(line.begin(), line.end(), [](char c) { return c >= ' ' && c <= '~'; }));
      CHECK((line.empty() || line.back() != ' '));
    }
  }
}

TEST_CASE_METHOD(fixture, "reports: the table has every report and its wrong and right value", "[reports][cli]") {
  const outcome printed = run_reports("");
  for (public_report const& r : all_reports()) CHECK_THAT(printed.output, Contains(std::string(r.id)));
  CHECK_THAT(printed.output, Contains("-4.71875 -> -4.70399045944214") && Contains("0.99609375 -> 1\n") && Contains("NaN -> 133120\n"));
  CHECK_THAT(printed.output, Contains(std::to_string(all_reports().size()) + " reports;"));
}

TEST_CASE_METHOD(fixture, "reports: an account has address, symptom, input, results, cause and what it does not show", "[reports][cli]") {
  const outcome printed = run_reports("fa-1046-pythia");
  CHECK(printed.status == 0);
  CHECK_THAT(printed.output,
             Contains("https://github.com/Dao-AILab/flash-attention/issues/1046") && Contains("symptom") && Contains("input") && Contains("cause") && Contains("beware"));
  CHECK_THAT(printed.output, Contains("eager-bf16") && Contains("-177.446 ulp  wrong") && Contains("right 0.00390625"));
  CHECK(printed.output.find("nanogpt") == std::string::npos);
  const outcome two = run_reports("30 5 30");  // each once, in order
  CHECK_THAT(two.output, Contains("5 fa-2721-v-is-one") && Contains("\n\n30 deepgemm-37-fp8-accumulator"));
  CHECK(two.output.find("30 deepgemm") == two.output.rfind("30 deepgemm"));
}

TEST_CASE_METHOD(fixture, "reports: JSON holds every result", "[reports][cli]") {
  const nlohmann::json all = nlohmann::json::parse(run_reports("--json").output);
  REQUIRE(all.at("reports").size() == all_reports().size());
  const nlohmann::json one = nlohmann::json::parse(run_reports("fa-2721-v-is-one --json").output).at("reports");
  REQUIRE(one.size() == 1);
  nlohmann::json const& result = one[0].at("findings").at(0).at("results").at(0);
  CHECK(one[0].at("number") == 5);
  CHECK(result.at("who") == "fa3");
  CHECK(result.at("value") == "0.99609375");
  CHECK(result.at("code") == "0x3F7F");
  CHECK(result.at("error_ulp") == -0.5);
  CHECK(result.at("judged") == "wrong");
  CHECK(nlohmann::json::parse(run_reports("15 --json").output).at("reports")[0].at("findings")[0].at("results")[0].at("error_ulp").is_null());
}

TEST_CASE_METHOD(fixture, "reports: an unknown report is status 2 and one line that names near ones", "[reports][cli]") {
  for (auto const& [words, expected] : {std::pair<std::string, std::string>{"nanogtp-explodes", "nanogpt-explodes"},
                                        {"9", "'9'"},
                                        {"1 nothing-of-the-kind", "'nothing-of-the-kind'"},
                                        {"--all 5", "--all"},
                                        {"--json --markdown", "--markdown"},
                                        {"''", "''"}}) {
    const outcome refused = run_reports(words);
    INFO(words);
    CHECK(refused.status == 2);
    CHECK(refused.output.empty());
    CHECK(lines_of(refused.error).size() == 1);
    CHECK_THAT(refused.error, Contains(expected));
  }
}
