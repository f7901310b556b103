// `stickybit bias` on the gradients: what it prints, its JSON, and how it ends.
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/command.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

using namespace stickybit;
using Catch::Matchers::Contains;
using nlohmann::json;

namespace {

const std::string goldens = std::string(STICKYBIT_GOLDEN_DIR) + "/h200/";
const std::string call = "'" + goldens + "gauss_s64_d128_c1.safetensors'";                        // causal, 64 queries and keys, 2 heads, d = 128, with dO
const std::string call_without_gradient = "'" + goldens + "ties_b1_q128_k256_h1x1_d64_c1.safetensors'";

struct command_fixture {
  temporary_folder folder;
  outcome run(std::string const& words) { return run_command(words, (folder / "stderr").string()); }
  std::string json_option() { return " --json '" + (folder / "bias.json").string() + "'"; }
  json report() {
    std::ifstream in(folder / "bias.json");
    return json::parse(in);
  }
};

}  // namespace

TEST_CASE_METHOD(command_fixture, "command: bias of the gradients, one line a tensor, and every field in the JSON", "[cli][golden]") {
  const outcome r = run("bias " + call + " --schedule fa3" + json_option());
  CHECK(r.status == 0);
  CHECK(r.error.empty());
  CHECK_THAT(r.output, Contains("most biased rows") && Contains("gradients of fa3") && Contains("\n  delta ") && Contains("\n  dP ") && Contains("\n  dS ") && Contains("\n  dQ ") &&
                           Contains("\n  dK ") && Contains("\n  dV "));
  const json tensors = report()["tensors"];
  REQUIRE(tensors.size() == 7);
  for (const char* name : {"o", "delta", "dp", "ds", "dq", "dk", "dv"}) {
    INFO(name);
    json const& t = tensors.at(name);
    for (const char* field : {"mean_signed_error_ulp", "standard_error_ulp", "rms_error_ulp", "median_relative_error"}) CHECK(t.at(field).is_number_float());
    for (const char* field : {"rows_left_out", "counted", "not_finite", "exact_zeros", "positive", "negative"}) CHECK(t.at(field).is_number_integer());
    const bool listed = std::string(name) == "o" || (name[0] == 'd' && std::string("qkv").find(name[1]) != std::string::npos);
    CHECK(t.contains("columns") == listed);
    CHECK(t.contains("rows") == listed);
  }
  CHECK(tensors["dp"]["counted"] == 2 * 64 * 65 / 2);
  CHECK(tensors["ds"]["rows_left_out"] == 2);  // the first row of each head sees one key: its dS is 0
  CHECK(tensors["delta"]["counted"] == 2 * 64);
  CHECK(tensors["dk"]["columns"].size() == 2 * 128);
  CHECK(tensors["dk"]["rows"].size() == 2 * 64);
}

TEST_CASE_METHOD(command_fixture, "command: bias --tensors, and a fix that changes the gradients alone", "[cli][golden]") {
  const outcome r = run("bias " + call + " --schedule fa3 --tensors dq,delta" + json_option());
  CHECK(r.status == 0);
  CHECK_THAT(r.output, Contains("\n  delta ") && Contains("\n  dQ ") && !Contains("\n  dP ") && !Contains("\n  dS ") && !Contains("by column"));
  const json before = report()["tensors"];
  CHECK(before.size() == 2);
  CHECK(run("bias " + call + " --schedule fa3 --fix fp32-backward --tensors o,dq" + json_option()).status == 0);
  const json after = report();
  CHECK(after["fix"] == "fp32-backward");
  CHECK(after["tensors"].size() == 2);
  CHECK(after["tensors"]["dq"]["median_relative_error"].get<double>() < before["dq"]["median_relative_error"].get<double>());
  CHECK(run("bias " + call + " --schedule fa3 --tensors o" + json_option()).status == 0);
  CHECK(report()["tensors"].size() == 1);
  CHECK(report()["tensors"]["o"]["mean_signed_error_ulp"] == after["tensors"]["o"]["mean_signed_error_ulp"]);
}

TEST_CASE_METHOD(command_fixture, "command: bias says in one line why there are no gradients; asked for by name that is an error", "[cli][golden]") {
  const outcome none = run("bias " + call_without_gradient + " --schedule fa3" + json_option());
  CHECK(none.status == 0);
  CHECK_THAT(none.output, Contains("\nno gradients: the file has no tensor 'do'\n"));
  CHECK(report()["tensors"].size() == 1);
  CHECK(report()["gradients_unavailable"] == "the file has no tensor 'do'");
  const outcome forward_only = run("bias " + call + " --schedule triton-m64-n64");
  CHECK(forward_only.status == 0);
  CHECK_THAT(forward_only.output, Contains("\nno gradients: schedule triton-m64-n64: its backward pass is not emulated\n"));
  const auto refused = [&](std::string const& words, std::string const& why) {
    const outcome r = run("bias " + words);
    INFO(words);
    CHECK(r.status == 2);
    CHECK_THAT(r.error, Contains(why));
    CHECK(std::count(r.error.begin(), r.error.end(), '\n') == 1);
    CHECK(r.output.empty());
  };
  refused(call_without_gradient + " --schedule fa3 --tensors o,dq", "do");
  refused(call + " --schedule triton-m64-n64 --tensors ds", "backward pass is not emulated");
  refused(call + " --schedule fa3 --tensors p", "--tensors");
}
