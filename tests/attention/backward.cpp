// The backward passes: every recorded gradient, code for code; the fast engine against the integer definitions; laws that hold for any call.
#include "stickybit/attention/backward.hpp"

#include <fmt/format.h>
#include <omp.h>

#include <iostream>
#include <map>
#include <mutex>
#include <set>

#include "stickybit/gemm/gemm.hpp"
#include "stickybit/machine/machine.hpp"
#include "support/backward_calls.hpp"
#include "support/catch.hpp"
#include "support/recorded_gradients.hpp"

using namespace stickybit;

namespace {

constexpr std::array kernels{"fa3", "fa2", "fa2-torch", "fa2-torch-splitkv"};
constexpr std::array all_with_backward{"fa3", "fa2", "fa2-torch", "fa2-torch-splitkv", "paper-v2", "eager-bf16", "exact"};

attention_schedule const& named(const char* name) { return attention_schedule_named(name); }

attention_problem random_call(const char* schedule, regime r, std::mt19937_64& random) {
  const bool wide = random() % 3 == 0;
  attention_problem p = call_of(1 + std::int64_t(random() % 30), 1 + std::int64_t(random() % 160), wide ? 128 : 64, random() % 2 == 0);
  p.batch = 1 + std::int64_t(random() % 2);
  p.key_heads = 1 + std::int64_t(random() % 2);
  p.heads = p.key_heads * (std::string(schedule) == "eager-bf16" ? 1 : 1 + std::int64_t(random() % 3));
  p.layout = random() % 2 == 0 ? tensor_layout::b_s_h_d : tensor_layout::b_h_s_d;
  p.sm_count = 1 + std::int64_t(random() % 8);
  if (random() % 2 == 0) p.softmax_scale = std::ldexp(double(1 + random() % 1000), int(random() % 12) - 12);
  fill_all(p, r, random);
  return p;
}

/// Batch element and head of a tensor in layout b,h,s,d.
template <class Code>
std::vector<Code> part(std::vector<Code> const& all, std::int64_t index, std::int64_t size) {
  return {all.begin() + index * size, all.begin() + (index + 1) * size};
}

}  // namespace

TEST_CASE("attention backward: equals the recorded gradients, both engines", "[attention][golden]") {
  for (auto const& [schedule, least] : {std::pair{"fa3", 3}, {"fa2-torch", 7}}) {
    const auto files = recorded_gradients::golden_files(named(schedule));
    CHECK(std::ssize(files) >= least);
    for (auto const& path : files) {
      const recorded_gradients recorded(tensor_file::load(path), named(schedule));
      for (engine how : {engine::fast, engine::definition}) {
        const comparison c = recorded.compare(named(schedule), how);
        INFO(path.filename().string() << ", " << schedule << (how == engine::fast ? ", fast: " : ", definition: ") << c.words);
        CHECK(c.mismatches == 0);
        CHECK(c.total > 25000);
      }
    }
  }
}

TEST_CASE("attention backward: equals every captured gradient", "[attention][captures]") {
  std::map<std::string, std::pair<int, std::int64_t>> count;
  for (const char* folder : {"h200", "h200/general"})
    for (auto const& path : captures(folder)) {
      const tensor_file file = tensor_file::load(path);
      for (const char* schedule : {"fa3", "fa2-torch"}) {
        if (!recorded_gradients::has(file, named(schedule))) continue;
        const comparison c = recorded_gradients(file, named(schedule)).compare(named(schedule));
        INFO(path.filename().string() << ", " << schedule << ": " << c.words);
        CHECK(c.mismatches == 0);
        ++count[schedule].first;
        count[schedule].second += c.total;
      }
    }
  for (auto const& [schedule, n] : count) {
    std::cout << fmt::format("{}: gradients of {} calls, {} codes compared\n", schedule, n.first, n.second);
    CHECK(n.first >= 40);
  }
}

TEST_CASE("attention backward: fast equals definition, random calls of every regime", "[attention][sampled]") {
  constexpr std::uint64_t seed = 20260102;
  std::mt19937_64 random(seed);
  for (const char* schedule : all_with_backward) {
    if (std::string(schedule) == "exact") continue;  // it has no engines
    std::int64_t codes = 0, not_finite = 0;
    for (regime r : all_regimes)
      for (int repeat = 0; repeat < 2; ++repeat) {
        const attention_problem p = random_call(schedule, r, random);
        const backward_result fast = gradients(named(schedule), p, engine::fast), defined = gradients(named(schedule), p, engine::definition);
        INFO(schedule << ", regime " << int(r) << " repeat " << repeat << " of seed " << seed << ": " << p.queries << " queries, " << p.keys << " keys, d " << p.head_dim);
        CHECK(differing(fast, defined) == 0);
        codes += codes_of(fast);
        not_finite += std::ranges::count_if(fast.dk, [](bf16_code c) { return !c.is_finite(); });
      }
    std::cout << fmt::format("{}: {} codes by both engines, {} of dk not finite\n", schedule, codes, not_finite);
    CHECK(codes > 50000);
    CHECK(not_finite > 100);
  }
}

TEST_CASE("attention backward: near the exact gradients where nothing cancels", "[attention]") {
  std::mt19937_64 random(5);
  for (const char* schedule : all_with_backward)
    for (bool causal : {false, true}) {
      attention_problem p = call_of(50, 50, 64, causal);
      p.heads = 2;
      p.key_heads = std::string(schedule) == "eager-bf16" ? 2 : 1;
      fill_all(p, regime::gauss, random);
      const backward_result r = gradients(named(schedule), p), exact = gradients(named("exact"), p);
      const auto error = [](std::vector<bf16_code> const& x, std::vector<bf16_code> const& y) {
        double difference = 0, norm = 0;
        for (std::size_t i = 0; i < x.size(); ++i) {
          difference += std::pow(to_double(x[i]) - to_double(y[i]), 2);
          norm += std::pow(to_double(y[i]), 2);
        }
        return std::sqrt(difference / norm);
      };
      INFO(schedule << (causal ? ", causal" : ""));
      const double floor = std::string(schedule) == "eager-bf16" ? 0.02 : 0.005;
      CHECK(error(r.dq, exact.dq) < floor);
      CHECK(error(r.dk, exact.dk) < floor);
      CHECK(error(r.dv, exact.dv) < floor);
    }
}

TEST_CASE("attention backward: the number of threads changes no bit", "[attention]") {
  std::mt19937_64 random(7);
  const int threads = omp_get_max_threads();
  for (const char* schedule : all_with_backward) {
    attention_problem p = call_of(70, 300, 64, true);
    fill_all(p, regime::gauss, random);
    omp_set_num_threads(3);
    const backward_result many = gradients(named(schedule), p);
    omp_set_num_threads(1);
    const backward_result one = gradients(named(schedule), p);
    omp_set_num_threads(threads);
    INFO(schedule);
    CHECK(differing(many, one) == 0);
  }
}

TEST_CASE("attention backward: batch elements do not meet, and a layout is only another order", "[attention]") {
  std::mt19937_64 random(8);
  for (const char* schedule : all_with_backward) {
    attention_problem both = call_of(33, 150, 64, true);
    both.batch = 2;
    both.heads = both.key_heads = 2;
    both.layout = tensor_layout::b_h_s_d;
    fill_all(both, regime::large_scores, random);
    const backward_result r = gradients(named(schedule), both);
    INFO(schedule);
    for (std::int64_t b : {0, 1}) {
      attention_problem one = both;
      one.batch = 1;
      one.sm_count = both.sm_count / 2;  // as many buffers of dQ
      for (auto m : {&attention_problem::q, &attention_problem::d_o}) one.*m = part(both.*m, b, 2 * 33 * 64);
      for (auto m : {&attention_problem::k, &attention_problem::v}) one.*m = part(both.*m, b, 2 * 150 * 64);
      const backward_result alone = gradients(named(schedule), one);
      CHECK(differing(alone.dq, part(r.dq, b, 2 * 33 * 64)) == 0);
      CHECK(differing(alone.dk, part(r.dk, b, 2 * 150 * 64)) == 0);
      CHECK(differing(alone.dv, part(r.dv, b, 2 * 150 * 64)) == 0);
      CHECK(differing(alone.delta, part(r.delta, b, 2 * 33)) == 0);
      CHECK(differing(alone.lse_log2, part(r.lse_log2, b, 2 * 33)) == 0);
    }
    attention_problem by_row = both;
    by_row.layout = tensor_layout::b_s_h_d;
    const auto move = [](std::vector<bf16_code> const& from, row_strides x, row_strides y, std::int64_t rows) { return in_order(from, x, y, 2, 2, rows, 64); };
    for (auto m : {&attention_problem::q, &attention_problem::d_o}) by_row.*m = move(both.*m, both.query_strides(), by_row.query_strides(), 33);
    for (auto m : {&attention_problem::k, &attention_problem::v}) by_row.*m = move(both.*m, both.key_strides(), by_row.key_strides(), 150);
    const backward_result moved = gradients(named(schedule), by_row);
    CHECK(differing(move(r.dq, both.query_strides(), by_row.query_strides(), 33), moved.dq) == 0);
    CHECK(differing(move(r.dk, both.key_strides(), by_row.key_strides(), 150), moved.dk) == 0);
    CHECK(differing(move(r.dv, both.key_strides(), by_row.key_strides(), 150), moved.dv) == 0);
    CHECK(differing(r.delta, moved.delta) == 0);
  }
}

TEST_CASE("attention backward: twice dO gives twice every gradient, code for code", "[attention]") {
  std::mt19937_64 random(9);
  for (const char* schedule : all_with_backward) {
    attention_problem p = call_of(40, 160, 64, false), twice;
    fill_all(p, regime::gauss, random);
    twice = p;
    for (bf16_code& c : twice.d_o) c = bf16_of(2 * to_double(c));
    backward_result r = gradients(named(schedule), p);
    const backward_result doubled = gradients(named(schedule), twice);
    INFO(schedule);
    CHECK(differing(r.dq, doubled.dq) > 0);
    for (auto m : {&backward_result::dq, &backward_result::dk, &backward_result::dv})
      for (bf16_code& c : r.*m) c = bf16_of(2 * to_double(c));
    for (f32_code& c : r.delta) c = code_of(2 * to_float(c));
    CHECK(differing(r, doubled) == 0);
  }
}

TEST_CASE("attention backward: dV and dK are the chains that gemm makes of the observed P and dS; every row and block is told once", "[attention]") {
  std::mt19937_64 random(10);
  for (const char* schedule : {"fa3", "paper-v2", "eager-bf16"}) {
    attention_problem p = call_of(60, 200, 64, false);
    fill_all(p, regime::gauss, random);
    std::vector<bf16_code> weights(200 * 60), ds(200 * 60);
    std::set<std::pair<std::int64_t, std::int64_t>> told;
    std::mutex one_at_a_time;
    bool each_once = true;
    backward_options options;
    options.scores = [&](score_block_row const& r) {
      for (std::size_t j = 0; j < r.p.size(); ++j) {
        const std::size_t at = (std::size_t(r.first_column) + j) * 60 + std::size_t(r.row);
        weights[at] = convert<format::bf16>(r.p_cast[j]);
        ds[at] = convert<format::bf16>(r.ds[j]);
        each_once &= widen(weights[at]) == r.p_cast[j] && convert<format::bf16>(r.p[j]) == weights[at];
      }
      const std::scoped_lock lock(one_at_a_time);
      each_once &= told.emplace(r.row, r.first_column).second;
    };
    const backward_result r = gradients(named(schedule), p, options);
    INFO(schedule);
    CHECK(each_once);
    CHECK(std::int64_t(told.size()) == 60 * dq_blocks(named(schedule), p));
    const auto transposed = [](std::vector<bf16_code> const& m) {
      std::vector<bf16_code> t(m.size());
      for (std::size_t i = 0; i < 60; ++i)
        for (std::size_t c = 0; c < 64; ++c) t[c * 60 + i] = m[i * 64 + c];
      return t;
    };
    const std::vector<bf16_code> d_o = transposed(p.d_o), q = transposed(p.q);
    machine_unit const& unit = unit_named(named(schedule).unit);
    CHECK(differing(to_bf16(gemm(unit, {.m = 200, .n = 64, .k = 60, .a = weights, .b = d_o, .c = {}})), r.dv) == 0);
    std::vector<f32_code> dk = gemm(unit, {.m = 200, .n = 64, .k = 60, .a = ds, .b = q, .c = {}});
    if (named(schedule).backward.scaled == scale_place::outputs)
      for (f32_code& c : dk) c = code_of(to_float(c) * 0.125f);
    CHECK(differing(to_bf16(dk), r.dk) == 0);
  }
}

TEST_CASE("attention backward: grouped heads share dK and dV as each kernel adds them", "[attention]") {
  std::mt19937_64 random(11);
  for (const char* schedule : kernels) {
    constexpr std::int64_t heads = 6, keys = 140, size = keys * 64;
    attention_problem grouped = call_of(50, keys, 64, false);
    grouped.heads = heads;
    grouped.layout = tensor_layout::b_h_s_d;
    grouped.sm_count = heads;
    fill_all(grouped, regime::gauss, random);
    const backward_result whole = gradients(named(schedule), grouped);
    const bool in_fp32 = named(schedule).backward.group == group_sum::fp32_outputs;
    std::array<std::vector<float>, 4> lanes;
    for (std::vector<float>& lane : lanes) lane.assign(std::size_t(size), 0);
    for (std::int64_t head = 0; head < heads; ++head) {
      attention_problem single = call_of(50, keys, 64, false);
      single.sm_count = 1;
      single.q = part(grouped.q, head, 50 * 64);
      single.d_o = part(grouped.d_o, head, 50 * 64);
      single.k = grouped.k;
      single.v = grouped.v;
      backward_options options;
      options.keep_f32 = true;
      const backward_result alone = gradients(named(schedule), single, options);
      CHECK(differing(alone.dq, part(whole.dq, head, 50 * 64)) == 0);
      for (std::size_t i = 0; i < std::size_t(size); ++i)
        lanes[in_fp32 ? 0 : std::size_t(head % 4)][i] += in_fp32 ? to_float(alone.dk_f32[i]) : to_float(widen(alone.dk[i]));
    }
    std::vector<bf16_code> dk(lanes[0].size());
    for (std::size_t i = 0; i < dk.size(); ++i) dk[i] = convert<format::bf16>(code_of(((lanes[0][i] + lanes[1][i]) + lanes[2][i]) + lanes[3][i]));
    INFO(schedule);
    CHECK(differing(dk, whole.dk) == 0);
  }
}

TEST_CASE("attention backward: the deterministic order said aloud gives the same bits, another order others", "[attention]") {
  std::mt19937_64 random(12);
  for (const char* schedule : {"fa3", "fa2", "fa2-torch"})
    for (bool causal : {false, true}) {
      attention_problem p = call_of(300, 500, 64, causal);
      p.sm_count = 1;  // one buffer of dQ
      fill_all(p, regime::gauss, random);
      // The parts of blocks 0 and 1 nearly cancel, those of the others are as small as what is left.
      constexpr std::size_t block = 128 * 64;
      for (bf16_code& c : p.q) c = bf16_of(to_double(c) * 0x1p-17);
      for (std::size_t i = block; i < p.k.size(); ++i) {
        p.k[i] = i < 2 * block ? p.k[i - block].negated() : bf16_of(to_double(p.k[i]) * 0x1p-17);
        if (i < 2 * block) p.v[i] = p.v[i - block];
      }
      const forward_result forward = attention_forward(named(schedule), p);
      const auto in_order = [&](std::vector<std::int64_t> const& order) {
        backward_options options;
        options.dq_order = order;
        return attention_backward(named(schedule), p, forward, options);
      };
      const bool descending = causal && named(schedule).backward.dq == dq_sum::causal_descending;
      const std::vector<std::int64_t> up{0, 1, 2, 3}, down{3, 2, 1, 0};
      INFO(schedule << (causal ? ", causal" : ""));
      REQUIRE(dq_blocks(named(schedule), p) == 4);
      CHECK(differing(in_order({}), in_order(descending ? down : up)) == 0);
      const backward_result other = in_order(descending ? up : down);
      CHECK(differing(in_order({}).dq, other.dq) > 0);
      CHECK(differing(in_order({}).dk, other.dk) == 0);
      CHECK_THROWS_AS(in_order({0, 1, 2}), std::invalid_argument);
      CHECK_THROWS_AS(in_order({0, 1, 2, 2}), std::invalid_argument);
    }
}

TEST_CASE("attention backward: what is missing or not emulated is refused, by name", "[attention]") {
  std::mt19937_64 random(13);
  attention_problem p = call_of(3, 4, 64, false);
  fill_all(p, regime::gauss, random);
  const forward_result forward = attention_forward(named("fa3"), p);
  CHECK_THROWS_WITH(attention_backward(named("triton-m64-n64"), p, forward), Catch::Matchers::Contains("triton-m64-n64") && Catch::Matchers::Contains("not emulated"));
  attention_problem without = p;
  without.d_o.clear();
  CHECK_THROWS_WITH(attention_backward(named("fa3"), without, forward), Catch::Matchers::Contains("no dO"));
  forward_result shorter = forward;
  shorter.lse.pop_back();
  CHECK_THROWS_WITH(attention_backward(named("fa3"), p, shorter), Catch::Matchers::Contains("lse 2"));
  attention_schedule reads_fp32 = named("fa3");
  reads_fp32.backward.delta_from = delta_source::fp32_output;
  CHECK_THROWS_WITH(attention_backward(reads_fp32, p, forward), Catch::Matchers::Contains("FP32 O"));
}
