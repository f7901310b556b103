// `stickybit attention --backward`: the recorded gradients, and the matrices S, P, dP and dS.
#include <bit>
#include <random>

#include "cli/command.hpp"
#include "stickybit/rounding/arithmetic.hpp"
#include "stickybit/tensor_file/tensor_file.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

using namespace stickybit;
using Catch::Matchers::Contains;

namespace {

const std::string golden_call = std::string(STICKYBIT_GOLDEN_DIR) + "/h200/gauss_s64_d128_c1.safetensors";

std::string quoted(std::string const& path) { return "'" + path + "'"; }

struct command_fixture {
  temporary_folder folder;
  outcome run(std::string const& words) { return run_command(words, (folder / "stderr").string()); }
  std::string path(std::string const& name) { return (folder / name).string(); }
};

tensor random_tensor(std::vector<std::int64_t> const& shape, std::mt19937_64& random) {
  std::vector<bf16_code> codes(std::size_t(shape[0] * shape[1] * shape[2]));
  std::normal_distribution<float> normal;
  for (bf16_code& c : codes) c = convert<format::bf16>(f32_code::from_bits(std::bit_cast<std::uint32_t>(normal(random))));
  return make_tensor<bf16_code>(dtype::bf16, shape, codes);
}

}  // namespace

TEST_CASE_METHOD(command_fixture, "command: attention --backward writes what compare finds equal to the captured gradients", "[cli][golden]") {
  for (auto const& [schedule, prefix] : {std::pair{"fa3", "fa3"}, std::pair{"fa2-torch --heads 48", "fa2_torch"}}) {
    const outcome written = run("attention " + quoted(golden_call) + " --backward --schedule " + schedule + " -o " + quoted(path("out.safetensors")));
    CHECK(written.status == 0);
    CHECK(written.error.empty());
    CHECK_THAT(written.output, Contains("dq: BF16 [64, 2, 128]") && Contains("delta: F32 [2, 64]"));
    std::vector<std::string> names;
    const tensor_file out = tensor_file::load(path("out.safetensors"));
    for (named_tensor const& t : out.tensors()) names.push_back(t.name);
    CHECK(names == std::vector<std::string>{"o", "lse", "dq", "dk", "dv", "delta", "lse_log2"});
    for (const char* name : {"o", "lse", "dq", "dk", "dv"}) {
      INFO(prefix << "." << name);
      CHECK(run("compare " + quoted(path("out.safetensors") + ":" + name) + " " + quoted(golden_call + ":" + prefix + "." + name)).status == 0);
    }
  }
  run("attention " + quoted(golden_call) + " --backward --schedule fa3 -o " + quoted(path("out.safetensors")));
  const outcome all = run("compare " + quoted(path("out.safetensors")) + " " + quoted(golden_call + ":fa3"));
  CHECK(all.status == 0);
  CHECK_THAT(all.output, Contains("delta: 0 mismatches of 128\n") && Contains("lse_log2: 0 mismatches of 128\n") && Contains("TOTAL: 0 mismatches of 65920\n"));
}

TEST_CASE_METHOD(command_fixture, "command: attention --backward writes only the tensors that are asked for, both engines the same", "[cli][golden]") {
  const std::string words = "attention " + quoted(golden_call) + " --backward --schedule fa3 --tensors dv,ds,delta";
  CHECK(run(words + " -o " + quoted(path("fast.safetensors"))).status == 0);
  CHECK(run(words + " --engine definition -o " + quoted(path("defined.safetensors"))).status == 0);
  const tensor_file fast = tensor_file::load(path("fast.safetensors"));
  REQUIRE(fast.tensors().size() == 3);
  CHECK(fast.tensors()[1].name == "ds");
  CHECK(fast.metadata.at("schedule") == "fa3");
  CHECK(fast.metadata.at("causal") == "1");
  CHECK(fast == tensor_file::load(path("defined.safetensors")));
}

TEST_CASE_METHOD(command_fixture, "command: attention --backward writes S, P, dP, dS; masked and unvisited places hold what the contract says", "[cli]") {
  // Blocks of 128 keys, tiles of 128 rows: the first tile does not visit the second block.
  constexpr std::int64_t s = 256, h = 2, d = 64;
  std::mt19937_64 random(5);
  tensor_file call("call");
  for (const char* name : {"q", "k", "v", "do"}) call.add(name, random_tensor({s, h, d}, random));
  call.metadata["causal"] = "1";
  call.save(path("call.safetensors"));
  CHECK(run("attention " + quoted(path("call.safetensors")) + " --schedule fa3 --backward --tensors s,p,dp,ds,delta -o " + quoted(path("out.safetensors"))).status == 0);
  const tensor_file out = tensor_file::load(path("out.safetensors"));
  const auto matrix = [&](const char* name) { return out.require(name, dtype::f32, {h, s, s}).elements<f32_code>(); };
  const auto scores = matrix("s"), p = matrix("p"), dp = matrix("dp"), delta = out.require("delta", dtype::f32, {h, s}).elements<f32_code>();
  const auto ds = out.require("ds", dtype::bf16, {h, s, s}).elements<bf16_code>();
  std::int64_t wrong_masked = 0, wrong_gradient = 0, wrong_dp = 0, infinite = 0;
  for (std::size_t row = 0; row < std::size_t(h * s); ++row)
    for (std::size_t j = 0; j < std::size_t(s); ++j) {
      const std::size_t at = row * s + j, i = row % s;
      const bool visited = j < 128 || i >= 128;
      wrong_dp += (dp[at] == f32_code::zero()) == visited;
      if (j > i) {
        wrong_masked += scores[at] != f32_code::infinity(true) || p[at] != f32_code::zero() || ds[at] != bf16_code::zero();
        continue;
      }
      infinite += !scores[at].is_finite();
      // fa3: dS = BF16(P·(dP − delta)), subnormals flushed.
      const f32_code difference = sub(dp[at], delta[row], subnormals::flushed);
      wrong_gradient += ds[at] != convert<format::bf16>(mul(p[at], difference, subnormals::flushed));
    }
  CHECK(wrong_masked == 0);
  CHECK(wrong_dp == 0);
  CHECK(infinite == 0);
  CHECK(wrong_gradient == 0);
}
