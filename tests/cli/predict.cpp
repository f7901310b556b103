// `stickybit predict`, and the prediction inside `stickybit bias`.
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/command.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

using namespace stickybit;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

const std::string goldens = std::string(STICKYBIT_GOLDEN_DIR) + "/h200/";
const std::string pair = "'" + goldens + "pair_neg_small_q384_k192_d64.safetensors'";

struct predict_fixture {
  temporary_folder folder;
  outcome run(std::string const& words) { return run_command(words, (folder / "stderr").string()); }
  std::string path(std::string const& name) { return (folder / name).string(); }
  json json_of(std::string const& name) {
    std::ifstream in(folder / name);
    return json::parse(std::string(std::istreambuf_iterator<char>(in), {}));
  }
};

}  // namespace

TEST_CASE_METHOD(predict_fixture, "predict: tensors, standard errors and columns of a call captured on the H200, in JSON and text", "[cli]") {
  const outcome done = run("predict " + pair + " --schedule fa2-torch --json '" + path("p.json") + "'");
  REQUIRE(done.status == 0);
  CHECK_THAT(done.output, Contains("predicted for fa2-torch, nothing emulated") && Contains("columns beyond five standard errors: "));
  const json tensors = json_of("p.json")["tensors"];
  for (char const* name : {"o", "delta", "dp", "ds", "dq", "dk", "dv"}) CHECK(tensors[name]["predicted_standard_error_ulp"].get<double>() > 0);
  REQUIRE(tensors["o"]["columns"].size() == 64);
  // Every row is tied, V is negative and the left-over smaller than the tied: a quarter of an ulp too high.
  CHECK(std::fabs(tensors["o"]["predicted_mean_ulp"].get<double>() - 0.2499) < 0.03);
}

TEST_CASE_METHOD(predict_fixture, "bias: predicted and emulated mean of O and delta agree within their standard errors, captured call", "[cli]") {
  REQUIRE(run("bias " + pair + " --schedule fa2-torch --no-report --json '" + path("b.json") + "'").status == 0);
  const json tensors = json_of("b.json")["tensors"];
  for (char const* name : {"o", "delta", "dp", "ds"}) {
    INFO(name << " " << tensors[name]["mean_signed_error_ulp"] << " predicted " << tensors[name]["predicted_mean_ulp"] << " +- " << tensors[name]["predicted_standard_error_ulp"]);
    CHECK(std::fabs(tensors[name]["mean_signed_error_ulp"].get<double>() - tensors[name]["predicted_mean_ulp"].get<double>()) <=
          4 * tensors[name]["predicted_standard_error_ulp"].get<double>());
  }
}

TEST_CASE_METHOD(predict_fixture, "bias and predict: an output that is an input, or another output, under any name, is refused and nothing is touched", "[cli]") {
  std::filesystem::copy_file(goldens + "gauss_s64_d128_c1.safetensors", folder / "in.safetensors");
  const auto size = std::filesystem::file_size(folder / "in.safetensors");
  const std::string in = fmt::format("'{}'", path("in.safetensors")), other = fmt::format("'{}'", path("./in.safetensors"));
  for (std::string const& words : {fmt::format("bias {} --schedule fa3 --json {}", in, other), fmt::format("bias {} --schedule fa3 --csv {}", in, in),
                                   fmt::format("predict {} --schedule fa3 --json {}", in, other), fmt::format("bias {} --schedule fa3 --csv '{}' --json '{}'", in, path("x"), path("./x"))}) {
    const outcome refused = run(words);
    INFO(words << ": " << refused.error);
    CHECK(refused.status == 2);
    CHECK(std::filesystem::file_size(folder / "in.safetensors") == size);
    CHECK_FALSE(std::filesystem::exists(folder / "x"));
  }
}

TEST_CASE_METHOD(predict_fixture, "bias: where nothing is predicted it says why, in text and JSON", "[cli]") {
  const outcome done = run("bias '" + goldens + "infk_b1_q192_k100_h1x1_d128_c0.safetensors' --schedule fa2-torch --no-report --json '" + path("i.json") + "'");
  REQUIRE(done.status == 0);
  CHECK_THAT(done.output, Contains("no prediction: k is NaN or infinite at row 50, column 3"));
  CHECK(json_of("i.json")["prediction_unavailable"] == "no prediction: k is NaN or infinite at row 50, column 3");
}

TEST_CASE_METHOD(predict_fixture, "predict: what is not predicted is one line and status 2, and nothing is written", "[cli]") {
  const outcome refused = run("predict " + pair + " --schedule exact --json '" + path("none.json") + "'");
  CHECK(refused.status == 2);
  CHECK(refused.error == "stickybit: no prediction for exact: it has no rounding but the last\n");
  CHECK_FALSE(std::ifstream(path("none.json")).good());
  const outcome gproj = run("predict " + pair + " --schedule fa3 --fix gproj");
  CHECK(gproj.status == 0);
  CHECK_THAT(gproj.output, Contains("no gradients: not predicted for fa3"));
}
