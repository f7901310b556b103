// Edge conventions of FlashAttention-3's forward pass, as an H200 has them: rows without keys, NaN and infinities.
// @source the rules were read off captured calls with such inputs; each case here is the smallest that shows its rule
#include <random>

#include "stickybit/attention/forward.hpp"
#include "support/catch.hpp"
#include "support/random_calls.hpp"

using namespace stickybit;

namespace {

attention_problem call(std::int64_t queries, std::int64_t keys, bool causal, regime r = regime::gauss) {
  attention_problem p = call_of(queries, keys, 64, causal);
  std::mt19937_64 random(42);
  fill(p, r, random);
  return p;
}

forward_result run(attention_problem const& p) {
  const forward_result fast = attention_forward(attention_schedule_named("fa3"), p);
  const forward_result defined = attention_forward(attention_schedule_named("fa3"), p, engine::definition);
  CHECK(fast.o == defined.o);
  CHECK(fast.lse == defined.lse);
  return fast;
}

bf16_code& element(std::vector<bf16_code>& m, std::int64_t row, std::int64_t column) { return m[std::size_t(row * 64 + column)]; }
bf16_code element(std::vector<bf16_code> const& m, std::int64_t row, std::int64_t column) { return m[std::size_t(row * 64 + column)]; }

}  // namespace

TEST_CASE("attention edge: a row without a visible key has O = +0 and lse = -inf", "[attention][edge]") {
  // Causal, 5 queries, 3 keys, aligned to the last: rows 0 and 1 see nothing.
  const forward_result r = run(call(5, 3, true));
  for (std::int64_t row : {0, 1}) {
    CHECK(r.lse[std::size_t(row)] == f32_code::infinity(true));
    for (std::int64_t j = 0; j < 64; ++j) CHECK(element(r.o, row, j) == bf16_code::zero());
  }
  CHECK(r.lse[2].is_finite());
}

TEST_CASE("attention edge: no keys at all", "[attention][edge]") {
  const forward_result r = run(call(3, 0, false));
  CHECK(r.o == std::vector(std::size_t(3 * 64), bf16_code::zero()));
  CHECK(r.lse == std::vector(3, f32_code::infinity(true)));
}

TEST_CASE("attention edge: no queries", "[attention][edge]") {
  const forward_result r = run(call(0, 5, true));
  CHECK(r.o.empty());
  CHECK(r.lse.empty());
}

TEST_CASE("attention edge: NaN in V at a masked key spoils every row of the tile of 192 that visits its block", "[attention][edge]") {
  attention_problem p = call(256, 256, true);
  element(p.v, 200, 7) = bf16_code::nan();  // the second block of 128 keys; tile 0 (rows 0..191) visits it
  const forward_result r = run(p);
  for (std::int64_t row = 0; row < 256; ++row) {
    CHECK(element(r.o, row, 7) == bf16_code::nan());
    CHECK(element(r.o, row, 8).is_finite());
  }
  attention_problem shorter = call(128, 128, true);
  element(shorter.v, 100, 7) = bf16_code::nan();
  CHECK(element(run(shorter).o, 0, 7) == bf16_code::nan());
}

TEST_CASE("attention edge: infinity in V meets a weight of 0 as NaN, a visible weight as infinity", "[attention][edge]") {
  attention_problem p = call(256, 256, true);
  element(p.v, 255, 1) = bf16_code::infinity();
  const forward_result r = run(p);
  CHECK(element(r.o, 254, 1) == bf16_code::nan());
  CHECK(element(r.o, 255, 1) == bf16_code::infinity());
}

TEST_CASE("attention edge: a score of +inf makes its row NaN with lse = -inf, one of -inf weighs nothing", "[attention][edge]") {
  attention_problem p = call(8, 200, false);
  element(p.k, 17, 3) = bf16_code::infinity();
  for (std::int64_t row = 0; row < 8; ++row) element(p.q, row, 3) = convert<format::bf16>(code_of(row % 2 == 0 ? 1.0f : -1.0f));
  const forward_result r = run(p);
  attention_problem without = p;
  element(without.k, 17, 3) = bf16_code::zero();
  for (std::int64_t row = 0; row < 8; ++row) {
    const bool infinite = row % 2 == 0;
    CHECK((r.lse[std::size_t(row)] == f32_code::infinity(true)) == infinite);
    CHECK((element(r.o, row, 0) == bf16_code::nan()) == infinite);
  }
}

TEST_CASE("attention edge: one causal query uses the key blocks of a call that is not causal", "[attention][edge]") {
  attention_problem causal = call(1, 300, true, regime::large_scores), full = causal;
  full.causal = false;
  CHECK(run(causal).o == run(full).o);
}

TEST_CASE("attention edge: one key gives O = V where the score is small", "[attention][edge]") {
  attention_problem p = call(16, 1, false);
  const forward_result r = run(p);
  for (std::int64_t row = 0; row < 16; ++row)
    for (std::int64_t j = 0; j < 64; ++j) CHECK(element(r.o, row, j) == element(p.v, 0, j));
}

TEST_CASE("attention edge: q = k = 133120 gives NaN: the fused exponent is 7916, not 0", "[attention][edge]") {
  // @source github.com/pytorch/pytorch/issues/121558. One key, so the right answer is O = V.
  attention_problem p = call(1, 1, false);
  for (std::vector<bf16_code>* m : {&p.q, &p.k, &p.v})
    for (bf16_code& c : *m) c = bf16_code::from_bits(0x4802);
  REQUIRE(to_double(p.q[0]) == 133120);
  const forward_row_trace trace = trace_forward_row(attention_schedule_named("fa3"), p, 0, 0, 0);
  CHECK(to_double(trace.weights.at(0).argument) == 7916);
  CHECK(trace.weights.at(0).weight == f32_code::infinity());
  CHECK(run(p).o[0] == bf16_code::nan());
}
