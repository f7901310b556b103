// What a file must hold to be an attention call, and the one line that says what is wrong.
#include <functional>

#include "stickybit/attention/problem.hpp"
#include "support/catch.hpp"

using namespace stickybit;
using Catch::Matchers::Contains;

namespace {

tensor zeros(dtype type, std::vector<std::int64_t> shape) {
  tensor t{type, std::move(shape), {}};
  t.bytes.resize(std::size_t(t.element_count()) * size_bytes(type));
  return t;
}

tensor_file call(std::vector<std::int64_t> q, std::vector<std::int64_t> k, std::vector<std::int64_t> v) {
  tensor_file file("call.safetensors");
  file.add("q", zeros(dtype::bf16, q));
  file.add("k", zeros(dtype::bf16, k));
  file.add("v", zeros(dtype::bf16, v));
  return file;
}

}  // namespace

TEST_CASE("attention problem: sizes, layout and defaults", "[attention][problem]") {
  const attention_problem p = read_problem(call({5, 4, 64}, {7, 2, 64}, {7, 2, 64}));
  CHECK(p.queries == 5);
  CHECK(p.heads == 4);
  CHECK(p.keys == 7);
  CHECK(p.key_heads == 2);
  CHECK(p.head_dim == 64);
  CHECK(!p.causal);
  CHECK(p.softmax_scale == 0.125);
  CHECK(p.key_head_of(3) == 1);
  CHECK(p.row_shape() == std::vector<std::int64_t>{4, 5});

  tensor_file four = call({2, 4, 5, 128}, {2, 4, 7, 128}, {2, 4, 7, 128});
  CHECK_THROWS_WITH(read_problem(four), Contains("divides q's 5"));  // rank 4 is b,s,h,d unless it says otherwise
  four.metadata = {{"layout", "b,h,s,d"}, {"causal", "1"}, {"softmax_scale", "0.37"}};
  const attention_problem q = read_problem(four);
  CHECK(q.batch == 2);
  CHECK(q.heads == 4);
  CHECK(q.queries == 5);
  CHECK(q.causal);
  CHECK(q.softmax_scale == 0.37);
  CHECK(q.query_strides().offset(1, 2, 3) == ((1 * 4 + 2) * 5 + 3) * 128);
  const attention_problem overridden = read_problem(four, {tensor_layout::b_h_s_d, false, 2.0, {}, {}});
  CHECK(!overridden.causal);
  CHECK(overridden.softmax_scale == 2.0);
}

TEST_CASE("attention problem: one clear line for each fault", "[attention][problem]") {
  const auto good = [] { return call({5, 4, 64}, {7, 2, 64}, {7, 2, 64}); };
  const auto with = [&](const char* key, const char* value) {
    tensor_file file = good();
    file.metadata[key] = value;
    return file;
  };
  struct fault {
    tensor_file file;
    std::vector<std::string> words;
  };
  tensor_file missing("call.safetensors"), narrow("call.safetensors");
  missing.add("q", zeros(dtype::bf16, {5, 4, 64}));
  narrow.add("q", zeros(dtype::f32, {5, 4, 64}));
  const std::vector<fault> faults{
      {missing, {"'k'"}},
      {narrow, {"'q'", "BF16", "F32"}},
      {call({5, 64}, {7, 64}, {7, 64}), {"'q'", "rank 3 or 4", "[5, 64]"}},
      {call({5, 4, 64}, {1, 7, 2, 64}, {1, 7, 2, 64}), {"'k'", "rank 3", "[1, 7, 2, 64]"}},
      {call({5, 4, 64}, {7, 3, 64}, {7, 3, 64}), {"'k'", "divides q's 4", "3"}},
      {call({5, 4, 64}, {7, 2, 128}, {7, 2, 128}), {"'k'", "head dimension of 64", "128"}},
      {call({5, 4, 64}, {7, 2, 64}, {8, 2, 64}), {"'v'", "[7, 2, 64]", "[8, 2, 64]"}},
      {call({5, 4, 64}, {7, 0, 64}, {7, 0, 64}), {"'k'", "divides"}},
      {call({2, 5, 4, 64}, {3, 7, 2, 64}, {3, 7, 2, 64}), {"'k'", "batch of 2", "3"}},
      {call({5, 4, 0}, {7, 2, 0}, {7, 2, 0}), {"'q'", "head dimension above 0"}},
      {with("causal", "2"), {"'causal'", "0 or 1", "2"}},
      {with("causal", ""), {"'causal'", "0 or 1"}},
      {with("softmax_scale", "nan"), {"'softmax_scale'", "finite number", "nan"}},
      {with("softmax_scale", "inf"), {"'softmax_scale'", "finite number"}},
      {with("softmax_scale", "1e99"), {"'softmax_scale'", "finite number"}},
      {with("softmax_scale", "0.1x"), {"'softmax_scale'", "0.1x"}},
      {with("layout", "h,s,d"), {"'layout'", "s,h,d", "h,s,d"}},
      {with("layout", "b,s,h,d"), {"rank 4", "[5, 4, 64]"}},
  };
  for (fault const& f : faults) {
    std::string message = "no error";
    try {
      (void)read_problem(f.file);
    } catch (file_error const& error) {
      message = error.what();
    }
    for (std::string const& word : f.words) CHECK_THAT(message, Contains(word));
    CHECK_THAT(message, Contains("call.safetensors"));
    CHECK(message.find('\n') == message.npos);
  }
}
