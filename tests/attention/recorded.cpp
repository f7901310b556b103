// FlashAttention-3 as an H200 computed it: every element of O and LSE, code for code. NaN must have the same bits too.
#include "support/recorded.hpp"

#include "stickybit/attention/forward.hpp"
#include "support/catch.hpp"

using namespace stickybit;

namespace {

struct count {
  std::int64_t mismatches = 0, total = 0;
};

count mismatches(tensor_file const& file, forward_result const& r) {
  count n;
  const auto o = file.require("fa3.o", dtype::bf16).elements<bf16_code>();
  const auto lse = file.require("fa3.lse", dtype::f32).elements<f32_code>();
  REQUIRE(o.size() == r.o.size());
  REQUIRE(lse.size() == r.lse.size());
  for (std::size_t i = 0; i < o.size(); ++i) n.mismatches += o[i] != r.o[i];
  for (std::size_t i = 0; i < lse.size(); ++i) n.mismatches += lse[i] != r.lse[i];
  n.total = std::int64_t(o.size() + lse.size());
  return n;
}

attention_schedule const& fa3() { return attention_schedule_named("fa3"); }

}  // namespace

TEST_CASE("attention: fa3 forward equals the recorded O and LSE, both engines", "[attention][golden]") {
  for (const char* name : {"gauss_s64_d128_c1.safetensors", "one_b1_q1_k200_h2x2_d64_c0.safetensors", "ties_s384_d64_c0.safetensors"}) {
    const tensor_file file = golden(name);
    const attention_problem problem = read_problem(file);
    for (engine how : {engine::fast, engine::definition}) {
      const count n = mismatches(file, attention_forward(fa3(), problem, how));
      INFO(name << (how == engine::fast ? ", fast" : ", definition"));
      CHECK(n.mismatches == 0);
      CHECK(n.total > 100);
    }
  }
}

TEST_CASE("attention: fa3 with other key blocks than the kernel's does not equal the recorded O", "[attention][golden]") {
  const tensor_file file = golden("ties_s384_d64_c0.safetensors");
  const attention_problem problem = read_problem(file);
  for (int key_columns : {64, 128, 176, 384}) {
    const std::array tiles{attention_tile{.head_dim = 64, .causal = false, .query_rows = 192, .key_columns = key_columns}};
    attention_schedule other = fa3();
    other.forward_tiles = tiles;
    INFO("blocks of " << key_columns);
    CHECK(mismatches(file, attention_forward(other, problem)).mismatches > 100);
  }
}

TEST_CASE("attention: fa3 forward equals every captured O and LSE", "[attention][captures]") {
  std::int64_t files = 0, total = 0;
  for (const char* folder : {"h200", "h200/general"})
    for (auto const& path : captures(folder)) {
      const tensor_file file = tensor_file::load(path);
      if (file.find("fa3.o") == nullptr) continue;
      const count n = mismatches(file, attention_forward(fa3(), read_problem(file)));
      INFO(path.filename().string());
      CHECK(n.mismatches == 0);
      total += n.total;
      ++files;
    }
  std::cout << "fa3: " << files << " calls, " << total << " codes compared\n";
}

TEST_CASE("attention: a traced row equals the forward pass and the recorded O", "[attention][golden]") {
  const tensor_file file = golden("ties_s384_d64_c0.safetensors");
  const attention_problem problem = read_problem(file);
  const auto o = file.require("fa3.o", dtype::bf16).elements<bf16_code>();
  const auto lse = file.require("fa3.lse", dtype::f32).elements<f32_code>();
  for (std::int64_t head : {0, 1})
    for (std::int64_t row : {0, 191, 192, 383}) {
      const forward_row_trace trace = trace_forward_row(fa3(), problem, 0, head, row);
      CHECK(trace.blocks.size() == 2);
      CHECK(trace.weights.size() == 384);
      CHECK(trace.ready.lse == lse[std::size_t(head * 384 + row)]);
      CHECK(std::equal(trace.o.begin(), trace.o.end(), o.begin() + problem.query_strides().offset(0, head, row)));
      CHECK(trace.finished.at(0).max == trace.blocks.back().max_after);
    }
  CHECK_THROWS_AS(trace_forward_row(fa3(), problem, 0, 2, 0), std::out_of_range);
  CHECK_THROWS_AS(trace_forward_row(fa3(), problem, 0, 0, 384), std::out_of_range);
}
