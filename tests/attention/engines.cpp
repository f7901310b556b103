// The fast engine against the integer definitions, and laws that hold for any call.
#include <fmt/format.h>
#include <omp.h>

#include <cfenv>
#include <functional>
#include <numeric>
#include <random>

#ifdef __SSE2__
#include <xmmintrin.h>
#endif

#include "stickybit/attention/backward.hpp"
#include "stickybit/machine/machine.hpp"
#include "support/catch.hpp"
#include "support/random_calls.hpp"

using namespace stickybit;

namespace {

attention_schedule const& fa3() { return attention_schedule_named("fa3"); }

std::int64_t differing(forward_result const& x, forward_result const& y) {
  std::int64_t n = x.o.size() != y.o.size() || x.lse.size() != y.lse.size();
  for (std::size_t i = 0; i < std::min(x.o.size(), y.o.size()); ++i) n += x.o[i] != y.o[i];
  for (std::size_t i = 0; i < std::min(x.lse.size(), y.lse.size()); ++i) n += x.lse[i] != y.lse[i];
  return n;
}

template <class Call>
auto with_threads(int count, Call call) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(count);
  auto result = call();
  omp_set_num_threads(before);
  return result;
}

}  // namespace

TEST_CASE("attention: fast equals definition, random calls of every regime", "[attention][sampled]") {
  constexpr std::uint64_t seed = 20260101;
  std::mt19937_64 random(seed);
  std::int64_t codes = 0;
  for (regime r : all_regimes)
    for (int repeat = 0; repeat < 6; ++repeat) {
      const bool wide = random() % 2 == 0, causal = random() % 2 == 0;
      attention_problem p = call_of(1 + std::int64_t(random() % 40), 1 + std::int64_t(random() % 400), wide ? 128 : 64, causal);
      p.batch = 1 + std::int64_t(random() % 2);
      p.key_heads = 1 + std::int64_t(random() % 2);
      p.heads = p.key_heads * (1 + std::int64_t(random() % 2));
      p.layout = random() % 2 == 0 ? tensor_layout::b_s_h_d : tensor_layout::b_h_s_d;
      if (random() % 2 == 0) p.softmax_scale = std::ldexp(double(1 + random() % 1000), int(random() % 12) - 12);
      fill(p, r, random);
      const forward_result fast = attention_forward(fa3(), p, engine::fast), defined = attention_forward(fa3(), p, engine::definition);
      INFO("regime " << int(r) << " repeat " << repeat << " of seed " << seed << ": " << p.queries << " queries, " << p.keys << " keys, d " << p.head_dim);
      CHECK(differing(fast, defined) == 0);
      codes += std::int64_t(fast.o.size() + fast.lse.size());
    }
  CHECK(codes > 100000);
}

TEST_CASE("attention: the number of threads changes no bit", "[attention]") {
  std::mt19937_64 random(7);
  attention_problem p = call_of(300, 300, 64, true);
  fill(p, regime::gauss, random);
  const forward_result one = with_threads(1, [&] { return attention_forward(fa3(), p); });
  for (int threads : {2, 3, 7, 40}) CHECK(differing(with_threads(threads, [&] { return attention_forward(fa3(), p); }), one) == 0);
}

TEST_CASE("attention: the floating-point modes of caller and threads change no bit, and stay", "[attention]") {
  std::mt19937_64 random(13);
  attention_problem p = call_of(96, 150, 64, true);
  fill(p, regime::gauss, random);
  std::fill(p.v.begin(), p.v.begin() + 64 * 40, bf16_code::from_bits(1));  // the smallest subnormal
  const auto both = [&](engine how) {
    forward_result f = attention_forward(attention_schedule_named("fa2-torch"), p, how);
    backward_options options;
    options.how = how;
    backward_result b = attention_backward(attention_schedule_named("fa2-torch"), p, f, options);
    return std::pair(std::move(f), std::move(b));
  };
  p.d_o = p.q;
  const auto in_each_thread = [](auto change) {
#pragma omp parallel num_threads(3)
    change();
  };
  const auto [forward, backward] = both(engine::fast);
  const auto expect_same = [&] {
    for (engine how : {engine::fast, engine::definition}) {
      const auto [f, b] = with_threads(3, [&] { return both(how); });
      CHECK(differing(f, forward) == 0);
      CHECK(b.dq == backward.dq);
      CHECK(b.dk == backward.dk);
      CHECK(b.dv == backward.dv);
      CHECK(b.delta == backward.delta);
    }
  };
  for (int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    in_each_thread([mode] { std::fesetround(mode); });
    expect_same();
    CHECK(std::fegetround() == mode);
    in_each_thread([] { std::fesetround(FE_TONEAREST); });
  }
#ifdef __SSE2__
  in_each_thread([] { _mm_setcsr(0x9fc0); });  // subnormals are zeros
  expect_same();
  CHECK((_mm_getcsr() & 0xffc0) == 0x9fc0);
  in_each_thread([] { _mm_setcsr(0x1f80); });
#endif
}

TEST_CASE("attention: rows that run together come out as each alone, every schedule that goes by blocks", "[attention]") {
  std::mt19937_64 random(11);
  std::int64_t codes = 0, schedules = 0;
  for (attention_schedule const& schedule : all_attention_schedules()) {
    if (schedule.kind != schedule_kind::online) continue;
    ++schedules;
    for (regime r : {regime::gauss, all_regimes.back()})
      for (bool causal : {false, true}) {
        const std::int64_t queries = causal && schedule.packs_grouped_heads ? 70 : 150;
        attention_problem p = call_of(queries, causal ? queries + 80 : 256, 64, causal);
        p.key_heads = 1;
        p.heads = causal ? 5 : 1;  // fa3 packs five heads into a tile of queries, which ends with row 38: in the midst of a group
        fill(p, r, random);
        const forward_result together = with_threads(1, [&] { return attention_forward(schedule, p, engine::fast); });
        std::int64_t different = 0;
        for (std::int64_t head = 0; head < p.heads; ++head)
          for (std::int64_t row = head; row < p.queries; row += 4) {
            const forward_row_trace alone = trace_forward_row(schedule, p, 0, head, row);
            bf16_code const* o = together.o.data() + p.query_strides().offset(0, head, row);
            different += std::inner_product(alone.o.begin(), alone.o.end(), o, std::int64_t{0}, std::plus<>{}, [](bf16_code x, bf16_code y) { return std::int64_t(x != y); });
            codes += p.head_dim;
          }
        INFO(schedule.name << (causal ? ", causal" : "") << ", regime " << int(r));
        CHECK(different == 0);
      }
  }
  fmt::print("rows together against each row alone by the definitions, {} schedules, seed 11: {} codes of O\n", schedules, codes);
  CHECK(schedules >= 8);
}

TEST_CASE("attention: a grouped head equals the head that has the keys to itself", "[attention]") {
  std::mt19937_64 random(8);
  attention_problem grouped = call_of(50, 200, 128, false);
  grouped.heads = 4;
  grouped.key_heads = 2;
  grouped.layout = tensor_layout::b_h_s_d;
  fill(grouped, regime::large_scores, random);
  const forward_result whole = attention_forward(fa3(), grouped);
  for (std::int64_t head = 0; head < 4; ++head) {
    attention_problem single = call_of(50, 200, 128, false);
    const auto part = [](auto const& codes, std::int64_t index, std::int64_t size) {
      return std::vector(codes.begin() + index * size, codes.begin() + (index + 1) * size);
    };
    single.q = part(grouped.q, head, 50 * 128);
    single.k = part(grouped.k, head / 2, 200 * 128);
    single.v = part(grouped.v, head / 2, 200 * 128);
    const forward_result alone = attention_forward(fa3(), single);
    CHECK(alone.o == part(whole.o, head, 50 * 128));
    CHECK(alone.lse == part(whole.lse, head, 50));
  }
}

TEST_CASE("attention: layouts hold the same numbers in another order", "[attention]") {
  std::mt19937_64 random(9);
  attention_problem by_head = call_of(20, 30, 64, true);
  by_head.batch = 2;
  by_head.heads = by_head.key_heads = 3;
  by_head.layout = tensor_layout::b_h_s_d;
  fill(by_head, regime::gauss, random);
  attention_problem by_row = by_head;
  by_row.layout = tensor_layout::b_s_h_d;
  const auto move = [](std::vector<bf16_code> const& from, row_strides a, row_strides b, std::int64_t rows) { return in_order(from, a, b, 2, 3, rows, 64); };
  by_row.q = move(by_head.q, by_head.query_strides(), by_row.query_strides(), 20);
  by_row.k = move(by_head.k, by_head.key_strides(), by_row.key_strides(), 30);
  by_row.v = move(by_head.v, by_head.key_strides(), by_row.key_strides(), 30);
  const forward_result x = attention_forward(fa3(), by_head), y = attention_forward(fa3(), by_row);
  CHECK(move(x.o, by_head.query_strides(), by_row.query_strides(), 20) == y.o);
  CHECK(x.lse == y.lse);
}

TEST_CASE("attention: a head dimension without a tile is refused, by name", "[attention]") {
  attention_problem p = call_of(1, 1, 80, false);
  p.q.resize(80);
  p.k.resize(80);
  p.v.resize(80);
  CHECK_THROWS_WITH(attention_forward(fa3(), p), Catch::Matchers::Contains("head dimension 80"));
  CHECK_THROWS_AS(attention_schedule_named("fa9"), unknown_name);
}
