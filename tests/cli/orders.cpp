// `stickybit orders`: dQ in every order of its parts.
#include "cli/command.hpp"
#include "stickybit/tensor_file/tensor_file.hpp"
#include "support/cancelling_call.hpp"
#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

using namespace stickybit;
using Catch::Matchers::Contains;

namespace {

const std::string goldens = std::string(STICKYBIT_GOLDEN_DIR) + "/h200/";

std::string quoted(std::string const& path) { return "'" + path + "'"; }

tensor_file file_of(attention_problem const& p) {
  tensor_file file("call");
  file.add("q", make_tensor<bf16_code>(dtype::bf16, {p.queries, 1, p.head_dim}, p.q));
  file.add("do", make_tensor<bf16_code>(dtype::bf16, {p.queries, 1, p.head_dim}, p.d_o));
  file.add("k", make_tensor<bf16_code>(dtype::bf16, {p.keys, 1, p.head_dim}, p.k));
  file.add("v", make_tensor<bf16_code>(dtype::bf16, {p.keys, 1, p.head_dim}, p.v));
  return file;
}

struct command_fixture {
  temporary_folder folder;
  outcome run(std::string const& words) { return run_command(words, (folder / "stderr").string()); }
  std::string path(std::string const& name) { return (folder / name).string(); }
};

}  // namespace

TEST_CASE_METHOD(command_fixture, "command: orders explains a captured dQ, whose heads the file names, and a changed code is impossible", "[cli][golden]") {
  for (auto const& [file, elements, blocks] :
       {std::tuple{"gauss_s64_d128_c1.safetensors", "16384", "1 block of"}, std::tuple{"one_b1_q1_k200_h2x2_d64_c0.safetensors", "128", "2 blocks of"}})
    for (auto const& [schedule, tensor_name] : {std::pair{"fa3", "fa3.dq"}, std::pair{"fa2-torch", "fa2_torch.dq"}}) {
      const outcome r = run("orders " + quoted(goldens + file) + " --schedule " + schedule + " --against " + tensor_name);
      INFO(r.output);
      CHECK(r.status == 0);
      CHECK(r.error.empty());
      CHECK_THAT(r.output, Contains(blocks) && Contains(std::string("dq: 0 of ") + elements + " elements vary") &&
                               Contains(std::string(tensor_name) + ": " + elements + " explained, 0 impossible, 0 not found"));
    }
  // The same from another file, by FILE:tensor, with one bit changed.
  const tensor_file file = tensor_file::load(goldens + "gauss_s64_d128_c1.safetensors");
  auto codes = file.require("fa3.dq", dtype::bf16).elements<bf16_code>();
  codes[259] = bf16_code::from_bits(std::uint16_t(codes[259].to_bits() ^ 1));
  tensor_file changed("changed");
  changed.add("dq", make_tensor<bf16_code>(dtype::bf16, {64, 2, 128}, codes));
  changed.save(path("changed.safetensors"));
  const outcome r = run("orders " + quoted(goldens + "gauss_s64_d128_c1.safetensors") + " --schedule fa3 --against " + quoted(path("changed.safetensors") + ":dq"));
  CHECK(r.status == 1);
  CHECK_THAT(r.output, Contains("16383 explained, 1 impossible, 0 not found of 16384") && Contains("first impossible at [1, 0, 3]: captured 0x") &&
                           Contains("127 of 128 rows, 1 of 2 tiles of rows, 1 of 2 heads"));
}

TEST_CASE_METHOD(command_fixture, "command: orders draws with a seed, for the call or for each element", "[cli]") {
  file_of(cancelling_call(30, 500, 1)).save(path("call.safetensors"));
  // The lines after the first, which repeats what was asked.
  const auto found = [&](std::string const& words) {
    const outcome r = run("orders " + quoted(path("call.safetensors")) + " --schedule fa3 --tries 3 " + words);
    CHECK(r.status == 0);
    CHECK_THAT(r.output, Contains("4 blocks of keys") && Contains("3 orders of their additions") && Contains("largest spread "));
    return r.output.substr(r.output.find('\n'));
  };
  CHECK(found("--seed 9") == found("--seed 9"));
  CHECK(found("--seed 9") != found("--seed 10"));
  CHECK(found("--seed 9") != found("--seed 9 --per-element"));
}

TEST_CASE_METHOD(command_fixture, "command: orders takes the captured call's heads from its file, unless --heads says them", "[cli]") {
  // 48 heads leave the keys of fa2-torch whole; the one head that the file has would split them, and O and lse would differ.
  std::mt19937_64 random(2);
  attention_problem p = cancelling_call(128, 1024, 2);
  fill(p, regime::gauss, random);
  tensor_file file = file_of(p);
  file.save(path("call.safetensors"));
  CHECK(run("attention " + quoted(path("call.safetensors")) + " --schedule fa2-torch --heads 48 --backward --tensors dq -o " + quoted(path("dq.safetensors"))).status == 0);
  file.add("fa2_torch.dq", tensor_file::load(path("dq.safetensors")).require("dq", dtype::bf16));
  file.save(path("call.safetensors"));
  const std::string words = "orders " + quoted(path("call.safetensors")) + " --schedule fa2-torch --tries 1 --against fa2_torch.dq";
  CHECK(run(words).status == 1);
  CHECK(run(words + " --heads 48").status == 0);
  file.metadata["fa2_torch.heads"] = "48";
  file.save(path("call.safetensors"));
  CHECK(run(words).status == 0);
  CHECK(run(words + " --heads 1").status == 1);
}
