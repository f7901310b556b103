// `stickybit bias`: early warnings, the risk report, trends, CSV and JSON of several files; `stickybit study isolation`.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/command.hpp"
#include "stickybit/tensor_file/tensor_file.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

using namespace stickybit;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

const std::string goldens = std::string(STICKYBIT_GOLDEN_DIR) + "/h200/";
const std::string gauss = "'" + goldens + "gauss_s64_d128_c1.safetensors'", ties = "'" + goldens + "ties_s384_d64_c0.safetensors'";
const std::string forward_only = "'" + goldens + "ties_b1_q128_k256_h1x1_d64_c1.safetensors'";

struct report_fixture {
  temporary_folder folder;
  outcome run(std::string const& words) { return run_command(words, (folder / "stderr").string()); }
  std::string path(std::string const& name) { return (folder / name).string(); }
  std::string text_of(std::string const& name) {
    std::ifstream in(folder / name);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  json json_of(std::string const& name) { return json::parse(text_of(name)); }
};

std::vector<std::vector<std::string>> rows_of(std::string const& csv) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(csv);
  for (std::string line; std::getline(lines, line);) {
    std::vector<std::string> cells;
    std::istringstream in(line + ",");
    for (std::string cell; std::getline(in, cell, ',');) cells.push_back(cell);
    rows.push_back(cells);
  }
  return rows;
}

}  // namespace

TEST_CASE_METHOD(report_fixture, "command: bias ends with the risk report, --no-report leaves it out, both in the JSON", "[cli][golden]") {
  const outcome r = run("bias " + ties + " --schedule fa3 --json '" + path("r.json") + "'");
  CHECK(r.status == 0);
  CHECK(r.error.empty());
  CHECK_THAT(r.output, Contains("\nrisk report\n") && Contains("Warning: repeated row maxima 100%") && Contains("delta-pdp"));
  CHECK(r.output.find("\nrisk report\n") > r.output.find("gradients of fa3"));
  const json report = json_of("r.json");
  CHECK(report["early_warnings"]["values"]["repeated_maxima"]["value"] == 1);
  CHECK(report["early_warnings"]["raised"][0] == "repeated_maxima");
  json const& risks = report["risk_report"];
  CHECK(risks["tensors"] == 7);
  CHECK(risks["limit_standard_errors"].get<double>() > 5);
  CHECK(risks["sentences"].size() > 3);
  for (json const& f : risks["findings"])
    for (const char* field : {"tensor", "kind", "direction", "before", "before_standard_error", "standard_errors", "small", "cause", "effect", "fix", "tried"}) CHECK(f.contains(field));
  CHECK(report["tensors"]["o"].contains("columns"));  // as without a report
  const outcome quiet = run("bias " + ties + " --schedule fa3 --no-report --json '" + path("q.json") + "'");
  CHECK(quiet.status == 0);
  CHECK_THAT(quiet.output, !Contains("risk report"));
  CHECK(!json_of("q.json").contains("risk_report"));
  CHECK(json_of("q.json")["early_warnings"] == report["early_warnings"]);
}

TEST_CASE_METHOD(report_fixture, "command: bias of a clean call says that nothing is biased; of a call without do, warnings of its inputs", "[cli][golden]") {
  CHECK_THAT(run("bias " + gauss + " --schedule fa3").output, Contains("Nothing is biased or wrong in the 7 tensors looked at") && !Contains("Warning"));
  const outcome r = run("bias " + forward_only + " --schedule fa3 --json '" + path("r.json") + "'");
  CHECK(r.status == 0);
  CHECK_THAT(r.output, Contains("Warning: repeated row maxima"));
  const json values = json_of("r.json")["early_warnings"]["values"];
  CHECK(values["row_mass_over_dq"]["value"].is_null());
  CHECK(values["row_mass_over_dq"]["raised"] == false);
  CHECK(values["repeated_maxima"]["raised"] == true);
}

TEST_CASE_METHOD(report_fixture, "command: bias --tensors limits the report to what was asked for", "[cli][golden]") {
  const outcome r = run("bias " + ties + " --schedule fa3 --tensors o --json '" + path("r.json") + "'");
  CHECK(r.status == 0);
  CHECK(json_of("r.json")["risk_report"]["tensors"] == 1);
  CHECK_THAT(r.output, !Contains("dQ"));
}

TEST_CASE_METHOD(report_fixture, "command: bias --attribute has every tensor, in the text and in the JSON, and shares add up", "[cli][golden]") {
  const outcome r = run("bias " + gauss + " --schedule fa3 --attribute --json '" + path("r.json") + "'");
  CHECK(r.status == 0);
  CHECK_THAT(r.output, Contains("by rounding point") && Contains("gradients by rounding point"));
  const json tensors = json_of("r.json")["tensors"];
  for (const char* name : {"o", "delta", "dp", "ds", "dq", "dk", "dv"}) {
    INFO(name);
    json const& t = tensors.at(name);
    REQUIRE(t.contains("attribution"));
    double sum = 0;
    for (json const& point : t["attribution"]) {
      for (const char* field : {"rounding_point", "mean_signed_error_ulp", "rms_error_ulp", "alone_mean_signed_error_ulp", "without_mean_signed_error_ulp"}) CHECK(point.contains(field));
      sum += point["mean_signed_error_ulp"].get<double>();
    }
    if (t["attribution_counted"] == t["counted"]) CHECK(sum == Approx(t["mean_signed_error_ulp"].get<double>()).margin(1e-6 + 1e-6 * std::abs(sum)));
  }
  CHECK(run("bias " + gauss + " --schedule fa3 --attribute --no-report --tensors dq").status == 0);
}

TEST_CASE_METHOD(report_fixture, "command: bias of several files: a table, a trend, CSV and JSON that agree", "[cli][golden]") {
  const std::string words = "bias " + gauss + " " + ties + " " + forward_only + " --schedule fa3 --csv '" + path("t.csv") + "' --json '" + path("t.json") + "'";
  const outcome r = run(words);
  CHECK(r.status == 0);
  CHECK(r.error.empty());
  CHECK_THAT(r.output, Contains("over 3 files") && Contains("gauss_s64_d128_c1.safetensors") && Contains("100%!") && Contains("\ntrend") && !Contains("risk report"));
  const json report = json_of("t.json");
  REQUIRE(report["files"].size() == 3);
  CHECK(report["files"][1]["tensors"].contains("dq"));
  CHECK(report["files"][2]["gradients_unavailable"] == "the file has no tensor 'do'");
  const auto maxima = std::find_if(report["trend"].begin(), report["trend"].end(), [](json const& q) { return q["name"] == "repeated_maxima"; });
  REQUIRE(maxima != report["trend"].end());
  CHECK((*maxima)["values"][0] == 0);
  CHECK((*maxima)["values"][1] == 1);
  CHECK((*maxima)["pairs"] == 3);

  const auto rows = rows_of(text_of("t.csv"));
  REQUIRE(rows.size() > 3);
  CHECK(rows[0] == std::vector<std::string>{"index", "file", "schedule", "fix", "kind", "name", "value", "standard_error", "rms", "median_relative_error", "unit", "limit", "raised"});
  std::int64_t tensors = 0;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    INFO(rows[i][5]);
    REQUIRE(rows[i].size() == rows[0].size());
    json const& file = report["files"][std::stoul(rows[i][0])];
    CHECK(file["file"] == rows[i][1]);
    if (rows[i][4] == "tensor") {
      ++tensors;
      CHECK(std::stod(rows[i][6]) == file["tensors"][rows[i][5]]["mean_signed_error_ulp"].get<double>());
      CHECK(std::stod(rows[i][9]) == file["tensors"][rows[i][5]]["median_relative_error"].get<double>());
    } else {
      json const& value = file["early_warnings"]["values"][rows[i][5]]["value"];
      CHECK(rows[i][6].empty() == value.is_null());
      if (!value.is_null()) CHECK(std::stod(rows[i][6]) == value.get<double>());
    }
  }
  CHECK(tensors == 7 + 7 + 1);
}

TEST_CASE_METHOD(report_fixture, "command: CSV of one file, of names with commas and quotes", "[cli][golden]") {
  std::filesystem::copy_file(goldens + "gauss_s64_d128_c1.safetensors", folder / "a,\"b\".safetensors");
  const outcome r = run("bias '" + path("a,\"b\".safetensors") + "' --schedule fa3 --fix beta:beta=2,tol=1e-3 --tensors o --no-report --csv '" + path("t.csv") + "'");
  CHECK(r.status == 0);
  CHECK_THAT(text_of("t.csv"), Contains("a,\"\"b\"\".safetensors\",fa3,\"beta:beta=2,tol=1e-3\",tensor,o,"));
}

TEST_CASE_METHOD(report_fixture, "command: bias with a bad file or a bad option ends in one line and status 2, and writes nothing", "[cli]") {
  const auto refused = [&](std::string const& words, std::string const& why) {
    const outcome r = run(words);
    INFO(words);
    CHECK(r.status == 2);
    CHECK_THAT(r.error, Contains(why));
    CHECK(std::count(r.error.begin(), r.error.end(), '\n') == 1);
    CHECK(r.output.empty());
    CHECK(folder.names() == std::vector<std::string>{"stderr"});
  };
  const std::string outputs = " --schedule fa3 --json '" + path("j") + "' --csv '" + path("c") + "'";
  refused("bias " + gauss + " nowhere.safetensors" + outputs, "nowhere.safetensors");
  refused("bias " + gauss + " " + forward_only + " --tensors dq" + outputs, "do");
  refused("bias " + gauss + " --schedule fa3 --csv '" + path("no/such/folder/c") + "' --json '" + path("j") + "'", "no/such/folder");
  refused("bias " + gauss + " --schedule fa3 --csv '" + path("x") + "' --json '" + path("x") + "'", "expected two");
  refused("bias " + gauss + " " + ties + " --schedule nonsense", "unknown schedule");
  refused("bias --schedule fa3", "FILE");
  refused("study isolation", "expected a FILE");
  refused("study isolation " + gauss + " " + forward_only, "do");
  refused("study isolation " + gauss + " --heads-fp32 7", "no head 7");
  refused("study isolation --regime nonsense", "unknown regime");
  refused("study regime nonsense -o '" + path("x") + "'", "unknown regime");
  refused("study isolation " + gauss + " --schedule fa3,triton-m64-n64", "backward");
}

TEST_CASE_METHOD(report_fixture, "command: bias of a generated call with tied rows says what is biased, which way, how much, why, and what removes it", "[cli]") {
  CHECK(run("study regime pair-neg-small -o '" + path("pair.safetensors") + "'").status == 0);
  const outcome r = run("bias '" + path("pair.safetensors") + "' --schedule fa3 --json '" + path("r.json") + "'");
  CHECK(r.status == 0);
  const json report = json_of("r.json"), findings = report["risk_report"]["findings"];
  const auto of = [&](std::string const& tensor) {
    return *std::find_if(findings.begin(), findings.end(), [&](json const& f) { return f["tensor"] == tensor && f["small"] == false; });
  };
  CHECK(of("o")["direction"] == "high");
  CHECK(of("o")["before"] == report["tensors"]["o"]["mean_signed_error_ulp"]);
  CHECK(of("delta")["direction"] == "high");
  CHECK(of("delta")["effect"] == "removes");
  CHECK(of("dq")["kind"] == "rows");
  CHECK(of("dq")["before"] == report["tensors"]["dq"]["median_relative_error"]);
  CHECK(of("dq")["fix"] == "gproj");
  CHECK_THAT(r.output, Contains("O is too high: +0.2407") && Contains("In short:") && Contains("gproj removes what is wrong with dQ"));
  // The fix's figure is what the command says of the call with it.
  CHECK(run("bias '" + path("pair.safetensors") + "' --schedule fa3 --fix gproj --no-report --json '" + path("g.json") + "'").status == 0);
  CHECK(json_of("g.json")["tensors"]["dq"]["median_relative_error"] == of("dq")["after"]);
  CHECK(!json_of("g.json").contains("risk_report"));
  // The same call from the file and from its name.
  CHECK(run("study isolation '" + path("pair.safetensors") + "' --schedule fa3 --json '" + path("f.json") + "'").status == 0);
  CHECK(run("study isolation --regime pair-neg-small --schedule fa3 --json '" + path("n.json") + "'").status == 0);
  CHECK(json_of("f.json")["calls"][0]["results"] == json_of("n.json")["calls"][0]["results"]);
  CHECK(run("study regime gauss-d64 --queries 7 --heads 3 -o '" + path("g.safetensors") + "'").status == 0);
  CHECK(tensor_file::load(path("g.safetensors")).require("q", dtype::bf16, {7, 3, 64}).element_count() == 7 * 3 * 64);
}

TEST_CASE_METHOD(report_fixture, "command: study isolation prints a verdict beside the paper's, and the JSON holds every figure", "[cli]") {
  const outcome r = run("study isolation --regime pair-neg-small --schedule paper-v2,fa3 --json '" + path("i.json") + "'");
  CHECK(r.status == 0);
  CHECK(r.error.empty());
  CHECK_THAT(r.output, Contains("pair-neg-small: paper-v2") && Contains("pair-neg-small: fa3") && Contains("still biased") && Contains("cured (heads 0)"));
  const json results = json_of("i.json")["calls"][0]["results"];
  REQUIRE(results.size() == 18);
  for (json const& one : results) {
    const std::string preset = one["preset"], verdict = one["verdict"];
    INFO(preset);
    CHECK(verdict == (preset == "none" ? "biased" : preset == "a" || preset == "f'" ? "still biased" : "cured"));
    CHECK(one["delta_mean_signed_error_ulp"].is_number());
    CHECK(one["heads"].size() == 1);
  }
}
