// dQ in every order of its parts: the decision by subsets against brute force, and what is drawn, explained and refused.
#include <omp.h>

#include <iostream>
#include <numeric>
#include <set>

#include "stickybit/attention/dq_orders.hpp"
#include "support/catch.hpp"
#include "support/cancelling_call.hpp"

using namespace stickybit;

namespace {

attention_schedule const& named(const char* name) { return attention_schedule_named(name); }

/// Parts of one kind; each kind is hard for a different reason.
std::vector<f32_code> random_parts(std::size_t count, int kind, std::mt19937_64& random) {
  std::vector<f32_code> parts(count);
  std::normal_distribution<float> normal;
  for (std::size_t i = 0; i < count; ++i) {
    const auto word = std::uint32_t(random());
    if (kind == 0) parts[i] = code_of(std::ldexp(normal(random), int(word % 30)));
    if (kind == 1) parts[i] = f32_code::from_bits((word & 0x80000000) | (word % 0x01800000));  // subnormals and their neighbours
    if (kind == 2) parts[i] = i % 2 == 1 ? code_of(-to_float(parts[i - 1]) * (1 + 0x1p-20f * normal(random))) : code_of(normal(random) * (i == 2 ? 0x1p-20f : 1));
    if (kind == 3) parts[i] = word % 4 == 0 ? f32_code::zero(word % 8 == 0) : f32_code::from_bits(std::uint32_t(random()));  // any code at all
  }
  return parts;
}

std::vector<f32_code> by_brute_force(std::vector<f32_code> const& parts, subnormals s) {
  std::vector<std::size_t> order(parts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::set<std::uint32_t> sums;
  do {
    f32_code sum = f32_code::zero();
    for (std::size_t i : order) sum = add(sum, parts[i], s);
    sums.insert(sum.to_bits());
  } while (std::next_permutation(order.begin(), order.end()));
  std::vector<f32_code> codes;
  for (std::uint32_t bits : sums) codes.push_back(f32_code::from_bits(bits));
  return codes;
}

backward_result backward_in(attention_schedule const& schedule, attention_problem const& p, forward_result const& forward, std::vector<std::int64_t> const& order) {
  backward_options options;
  options.dq_order = order;
  return attention_backward(schedule, p, forward, options);
}

std::vector<std::int64_t> ascending(std::int64_t blocks) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(blocks));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

void check_all_explained(dq_explanation const& x) {
  CHECK(x.explained == std::int64_t(x.verdicts.size()));
  CHECK(x.impossible == 0);
  CHECK(x.not_found == 0);
  CHECK(!x.first_impossible);
  CHECK(!x.first_not_found);
}

}  // namespace

TEST_CASE("dq orders: the sums of subsets equal adding in each of the n! orders, 2 to 7 parts, subnormals flushed and kept", "[attention][sampled]") {
  constexpr std::uint64_t seed = 20260301;
  std::mt19937_64 random(seed);
  std::int64_t cases = 0, several = 0;
  for (std::size_t count = 2; count <= 7; ++count)
    for (int kind = 0; kind < 4; ++kind)
      for (int repeat = 0; repeat < (count == 7 ? 2 : 12); ++repeat) {
        const std::vector<f32_code> parts = random_parts(count, kind, random);
        for (subnormals s : {subnormals::flushed, subnormals::kept}) {
          INFO(count << " parts of kind " << kind << ", repeat " << repeat << " of seed " << seed);
          const std::vector<f32_code> expected = by_brute_force(parts, s);
          CHECK(reachable_sums(parts, s) == expected);
          CHECK(reachable_sums(parts, s, engine::definition) == expected);
          ++cases;
          several += expected.size() > 1;
        }
      }
  std::cout << "dq orders: " << cases << " sets of parts, " << several << " with several sums, seed " << seed << "\n";
  CHECK(several > cases / 3);
  CHECK(reachable_sums({}, subnormals::kept) == std::vector{f32_code::zero()});
  CHECK_THROWS_AS(reachable_sums(std::vector<f32_code>(9), subnormals::kept), std::invalid_argument);
}

TEST_CASE("dq orders: dQ of each explicit order of the blocks is explained, element by element and by one order", "[attention]") {
  for (const char* name : {"fa3", "fa2-torch"}) {
    const attention_problem p = cancelling_call(8, 500, 1);
    const forward_result forward = attention_forward(named(name), p);
    REQUIRE(dq_blocks(named(name), p) == 4);
    std::set<std::vector<std::uint16_t>> outputs;
    std::vector<std::int64_t> order = ascending(4);
    do {
      const backward_result g = backward_in(named(name), p, forward, order);
      const dq_explanation x = explain_dq(named(name), p, forward, g.dq, {.tries = 1});
      check_all_explained(x);
      REQUIRE(x.common);
      CHECK(x.common->rows_explained == 8);
      CHECK(x.common->tiles_explained == x.common->tiles);
      CHECK(x.common->heads_explained == 1);
      std::vector<std::uint16_t> bits;
      for (bf16_code c : g.dq) bits.push_back(c.to_bits());
      outputs.insert(bits);
    } while (std::next_permutation(order.begin(), order.end()));
    CHECK(outputs.size() >= 4);  // else the orders would not have shown
  }
}

TEST_CASE("dq orders: rows of different orders are explained, but by no common order", "[attention]") {
  const attention_problem p = cancelling_call(200, 500, 2);
  const forward_result forward = attention_forward(named("fa3"), p);
  std::vector<bf16_code> mixed = backward_in(named("fa3"), p, forward, {0, 1, 2, 3}).dq;
  const std::vector<bf16_code> other = backward_in(named("fa3"), p, forward, {2, 0, 3, 1}).dq;
  std::copy_n(other.begin() + 128 * 64, 72 * 64, mixed.begin() + 128 * 64);  // the second tile of 128 rows
  const dq_explanation x = explain_dq(named("fa3"), p, forward, mixed);
  check_all_explained(x);
  CHECK(x.common->tiles == 2);
  CHECK(x.common->tiles_explained == 2);
  CHECK(x.common->heads_explained == 0);
}

TEST_CASE("dq orders: a changed code is impossible, and is named with all that was possible", "[attention]") {
  const attention_problem p = cancelling_call(20, 500, 3);
  const forward_result forward = attention_forward(named("fa3"), p);
  std::vector<bf16_code> dq = backward_in(named("fa3"), p, forward, {2, 1, 0, 3}).dq;
  for (std::size_t i : {std::size_t{700}, std::size_t{65}}) {
    const bf16_code was = dq[i];
    dq[i] = bf16_code::from_bits(was.to_bits() ^ 0x0400);
    const dq_explanation x = explain_dq(named("fa3"), p, forward, dq);
    CHECK(x.verdicts[i] == order_verdict::impossible);
    REQUIRE(x.first_impossible);
    CHECK(x.first_impossible->index == std::int64_t(i));
    CHECK(x.first_impossible->captured == dq[i]);
    CHECK(std::ranges::count(x.first_impossible->reachable, was) == 1);
    CHECK(x.impossible == (i == 700 ? 1 : 2));
    CHECK(x.not_found == 0);
    CHECK(x.common->rows_explained == (i == 700 ? 19 : 18));
    CHECK(x.common->tiles_explained == 0);
  }
}

TEST_CASE("dq orders: beyond 8 parts a code is found or not found, never impossible", "[attention]") {
  const attention_problem p = cancelling_call(3, 1200, 4);
  REQUIRE(dq_blocks(named("fa3"), p) == 10);
  const forward_result forward = attention_forward(named("fa3"), p);
  const dq_order_options few{.tries = 1};
  std::vector<bf16_code> dq = backward_in(named("fa3"), p, forward, {6, 5, 4, 3, 2, 1, 0, 9, 8, 7}).dq;  // a rotation of descending
  check_all_explained(explain_dq(named("fa3"), p, forward, dq, few));
  CHECK(!explain_dq(named("fa3"), p, forward, dq, few).common);
  const dq_spread s = sample_dq_orders(named("fa3"), p, forward);
  REQUIRE(s.largest_at);
  bf16_code& changed = dq[std::size_t(*s.largest_at)];
  changed = bf16_code::from_bits(changed.to_bits() ^ 0x0400);
  const dq_explanation x = explain_dq(named("fa3"), p, forward, dq, few);
  CHECK(x.not_found == 1);
  CHECK(x.impossible == 0);
  REQUIRE(x.first_not_found);
  CHECK(x.first_not_found->index == *s.largest_at);
  CHECK(x.first_not_found->reachable.size() > 1);
}

TEST_CASE("dq orders: a causal row has the parts of the blocks that its tile visits: up to 8 are decided", "[attention]") {
  const attention_problem p = cancelling_call(1200, 1200, 5, true);
  const forward_result forward = attention_forward(named("fa3"), p);
  std::vector<bf16_code> dq = backward_in(named("fa3"), p, forward, {9, 7, 8, 6, 5, 4, 3, 2, 1, 0}).dq;
  for (std::size_t row : {std::size_t{5}, std::size_t{1000}, std::size_t{1190}}) dq[row * 64] = bf16_code::nan();
  const dq_explanation x = explain_dq(named("fa3"), p, forward, dq, {.tries = 1});
  CHECK(x.verdicts[5 * 64] == order_verdict::impossible);     // 1 part
  CHECK(x.verdicts[1000 * 64] == order_verdict::impossible);  // 8
  CHECK(x.verdicts[1190 * 64] == order_verdict::not_found);   // 10
}

TEST_CASE("dq orders: draws repeat with their seed, whatever the number of threads, and every drawn code is explained", "[attention]") {
  const attention_problem p = cancelling_call(40, 500, 6);
  const forward_result forward = attention_forward(named("fa3"), p);
  for (order_draw draw : {order_draw::whole_call, order_draw::each_element}) {
    dq_order_options options{.tries = 3, .seed = 11, .draw = draw};
    const dq_spread s = sample_dq_orders(named("fa3"), p, forward, options);
    CHECK(s.varying > 100);
    REQUIRE(s.largest_at);
    CHECK(ulps_between(s.lowest[std::size_t(*s.largest_at)], s.highest[std::size_t(*s.largest_at)]) == s.largest_ulps);
    check_all_explained(explain_dq(named("fa3"), p, forward, s.lowest));
    check_all_explained(explain_dq(named("fa3"), p, forward, s.highest));
    const int threads = omp_get_max_threads();
    omp_set_num_threads(1);
    const dq_spread again = sample_dq_orders(named("fa3"), p, forward, options);
    omp_set_num_threads(threads);
    CHECK(again.distinct == s.distinct);
    CHECK(again.lowest == s.lowest);
    CHECK(again.highest == s.highest);
    options.seed = 12;
    const dq_spread other = sample_dq_orders(named("fa3"), p, forward, options);
    CHECK(other.distinct != s.distinct);
  }
}

TEST_CASE("dq orders: one draw for the whole call is dQ in one order of the blocks; draws for each element are not", "[attention]") {
  const attention_problem p = cancelling_call(10, 500, 7);
  const forward_result forward = attention_forward(named("fa3"), p);
  for (order_draw draw : {order_draw::whole_call, order_draw::each_element}) {
    const dq_spread s = sample_dq_orders(named("fa3"), p, forward, {.tries = 1, .seed = 3, .draw = draw});
    CHECK(s.varying == 0);
    bool found = false;
    std::vector<std::int64_t> order = ascending(4);
    do found |= backward_in(named("fa3"), p, forward, order).dq == s.lowest;
    while (std::next_permutation(order.begin(), order.end()));
    CHECK(found == (draw == order_draw::whole_call));
  }
}

TEST_CASE("dq orders: with one block, or two, which commute, there is no spread; heads, batch and layout keep their places", "[attention]") {
  for (const char* name : {"fa3", "fa2-torch"})
    for (std::int64_t keys : {0, 100, 256}) {
      attention_problem p;
      p.batch = 2;
      p.heads = 4;
      p.key_heads = 2;
      p.queries = 30;
      p.keys = keys;
      p.head_dim = 64;
      p.softmax_scale = 0.125;
      p.layout = keys == 100 ? tensor_layout::b_s_h_d : tensor_layout::b_h_s_d;
      std::mt19937_64 random(8);
      fill(p, regime::gauss, random);
      p.d_o = random_codes(p.q.size(), 1, random);
      const forward_result forward = attention_forward(named(name), p);
      const dq_spread s = sample_dq_orders(named(name), p, forward);
      CHECK(s.varying == 0);
      CHECK(!s.largest_at);
      CHECK(s.lowest == attention_backward(named(name), p, forward).dq);
      CHECK(s.highest == s.lowest);
      CHECK(s.distinct == std::vector<std::int32_t>(p.q.size(), 1));
    }
}

TEST_CASE("dq orders: what has no parts in some order, and bad arguments, are refused", "[attention]") {
  attention_problem p = cancelling_call(4, 300, 9);
  const forward_result forward = attention_forward(named("fa3"), p);
  CHECK_THROWS_AS(sample_dq_orders(named("exact"), p, forward), unsupported_call);
  CHECK_THROWS_AS(sample_dq_orders(named("eager-bf16"), p, forward), unsupported_call);
  attention_schedule other = named("fa3");
  other.backward.dq = dq_sum::one_chain;
  CHECK_THROWS_AS(sample_dq_orders(other, p, forward), unsupported_call);
  other.backward.dq = dq_sum::ascending;
  other.backward.mass = row_mass::uniform;
  CHECK_THROWS_AS(sample_dq_orders(other, p, forward), unsupported_call);
  CHECK_THROWS_AS(sample_dq_orders(named("fa3"), p, forward, {.tries = 0}), std::invalid_argument);
  CHECK_THROWS_AS(explain_dq(named("fa3"), p, forward, std::vector<bf16_code>(3)), std::invalid_argument);
  p.d_o.clear();
  CHECK_THROWS_AS(sample_dq_orders(named("fa3"), p, forward), std::invalid_argument);
}

TEST_CASE("dq orders: ulps between codes count the zeros once", "[attention]") {
  const auto bits = [](std::uint16_t b) { return bf16_code::from_bits(b); };
  CHECK(ulps_between(bits(0x3f80), bits(0x3f83)) == 3);
  CHECK(ulps_between(bits(0x8001), bits(0x0002)) == 3);
  CHECK(ulps_between(bits(0x8000), bits(0x0000)) == 0);
  CHECK(ulps_between(bits(0x7f7f), bits(0x7f80)) == 1);
  CHECK(ulps_between(bf16_code::nan(), bits(0x3f80)) == 0);
}
