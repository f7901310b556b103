// Backward passes by hand: calls small enough that the right code can be written down, each the smallest that shows its rule, and what
// NaN, infinities and subnormals do.
// @source the rules of NaN, infinities and subnormals were read off captured calls with such inputs
#include <cmath>
#include <set>

#include "support/backward_calls.hpp"
#include "support/catch.hpp"

using namespace stickybit;

namespace {

constexpr std::array kernels{"fa3", "fa2", "fa2-torch", "fa2-torch-splitkv"};

attention_schedule const& named(const char* name) { return attention_schedule_named(name); }

template <class Change>
attention_schedule changed(const char* name, Change change) {
  attention_schedule s = named(name);
  change(s);
  return s;
}

bool all(std::vector<bf16_code> const& m, std::int64_t row, bool (*law)(bf16_code)) {
  return std::all_of(m.begin() + row * 64, m.begin() + (row + 1) * 64, law);
}
bool is_nan(bf16_code c) { return c == bf16_code::nan(); }
bool is_finite(bf16_code c) { return c.is_finite(); }

/// Two rows, three blocks of 128 keys whose parts of dQ are 1, 1.25·2^-24 and −1: each order of adding them has its own sum.
plain_call three_parts() {
  plain_call c(2, 257);
  for (std::int64_t j : {0, 128, 256}) c.v(j) = bf16_of(1);
  c.k(0) = bf16_of(1);
  c.k(128) = bf16_of(1.25 * 0x1p-24);
  c.k(256) = bf16_of(-1);
  c.d_o(1) = bf16_of(1);
  return c;
}

}  // namespace

TEST_CASE("attention backward by hand: one visible weight of 1 each, products of small integers", "[attention][edge]") {
  plain_call c(2, 3);
  for (std::int64_t j = 0; j < 3; ++j) {
    c.k(j) = bf16_of(double(j) + 1);
    c.v(j) = bf16_of(double(10 * j) + 1);
  }
  c.q(0) = bf16_of(3);
  c.q(1) = bf16_of(-5);
  c.d_o(0) = bf16_of(1);
  c.d_o(1) = bf16_of(2);
  const auto expect = [&](attention_schedule const& schedule, std::array<double, 2> dq, std::array<double, 3> dk, std::array<double, 3> dv) {
    const backward_result r = c.run(schedule);
    INFO(schedule.name);
    for (std::int64_t i = 0; i < 2; ++i) CHECK(dq_of(r, i) == dq[std::size_t(i)]);
    for (std::int64_t j = 0; j < 3; ++j) CHECK(dk_of(r, j) == dk[std::size_t(j)]);
    for (std::int64_t j = 0; j < 3; ++j) CHECK(dv_of(r, j) == dv[std::size_t(j)]);
  };
  for (const char* name : {"fa3", "fa2", "fa2-torch", "paper-v2"}) expect(named(name), {86, 172}, {-7, -77, -147}, {3, 3, 3});
  // Causal: row 0 sees keys 0 and 1 where masks are aligned to the last row and key, and key 0 alone where to the first.
  c.problem.causal = true;
  for (const char* name : {"fa3", "fa2", "fa2-torch", "paper-v2"}) expect(named(name), {23, 172}, {-7, -77, -210}, {3, 3, 2});
  expect(changed("fa3", [](attention_schedule& s) { s.causal_mask = mask_alignment::top_left; }), {1, 46}, {-7, -110, 0}, {3, 2, 0});
}

TEST_CASE("attention backward by hand: the parts of dQ are added in the kernel's order", "[attention][edge]") {
  plain_call c = three_parts();
  const double ascending = 0x1p-23, descending = 0x1p-24, outer_first = 1.25 * 0x1p-24;
  const auto dq = [&](attention_schedule const& s, std::vector<std::int64_t> const& order = {}) { return dq_of(c.run(s, order), 1); };
  const auto with = [](const char* name, dq_sum sum) { return changed(name, [sum](attention_schedule& s) { s.backward.dq = sum; }); };
  CHECK(dq(named("fa3")) == ascending);
  CHECK(dq(with("fa3", dq_sum::descending)) == descending);
  CHECK(dq(with("fa3", dq_sum::one_chain)) == 0);  // the tensor core cuts 1 + 1.25·2^-24 to 1
  CHECK(dq(named("paper-v2")) == 0);
  CHECK(dq(named("fa3"), {0, 2, 1}) == outer_first);
  c.problem.causal = true;
  CHECK(dq(named("fa3")) == descending);
  CHECK(dq(with("fa3", dq_sum::ascending)) == ascending);
  for (const char* name : {"fa2", "fa2-torch", "fa2-torch-splitkv"}) {
    c.problem.sm_count = 2;  // two buffers: (1 − 1) and 1.25·2^-24
    CHECK(dq(named(name)) == outer_first);
    c.problem.sm_count = 1;
    CHECK(dq(named(name)) == ascending);
    c.problem.sm_count = 132;  // as many buffers as blocks
    CHECK(dq(named(name)) == ascending);
  }
  // Other blocks, other parts: with 256 keys a block 1 and 1.25·2^-24 meet in one chain.
  static constexpr std::array wide{attention_tile{.head_dim = 64, .causal = false, .query_rows = 128, .key_columns = 256}};
  c.problem.causal = false;
  CHECK(dq(changed("fa3", [](attention_schedule& s) { s.backward_tiles = wide; })) == 0);
}

TEST_CASE("attention backward by hand: the chain of dK goes over blocks of queries as the kernel visits them", "[attention][edge]") {
  // Rows 0, 128 and 256 give 1, −1 and 1.25·2^-24: cut away beside 1, kept beside 0.
  plain_call c(257, 1);
  c.v(0) = bf16_of(1);
  for (std::int64_t i : {0, 128, 256}) c.d_o(i) = bf16_of(1);
  c.q(0) = bf16_of(1);
  c.q(128) = bf16_of(-1);
  c.q(256) = bf16_of(1.25 * 0x1p-24);
  CHECK(dk_of(c.run(named("fa3")), 0) == 1.25 * 0x1p-24);
  CHECK(dk_of(c.run(named("fa2")), 0) == 0x1p-24);  // 1.25·2^-24 − 1 is cut to −(1 − 2^-24)
  CHECK(dk_of(c.run(named("fa2-torch")), 0) == 0x1p-24);
  CHECK(dk_of(c.run(changed("fa3", [](attention_schedule& s) { s.backward.queries = query_order::descending; })), 0) == 0x1p-24);
  CHECK(dk_of(c.run(changed("fa2", [](attention_schedule& s) { s.backward.queries = query_order::ascending; })), 0) == 1.25 * 0x1p-24);
  static constexpr std::array one_tile{attention_tile{.head_dim = 64, .causal = false, .query_rows = 512, .key_columns = 128}};
  CHECK(dk_of(c.run(changed("fa2", [](attention_schedule& s) { s.backward_tiles = one_tile; })), 0) == 1.25 * 0x1p-24);
}

TEST_CASE("attention backward by hand: heads of a group are rounded before they are added, or after", "[attention][edge]") {
  // 1 + 2^-8 and 2^-8: together 1 + 2^-7, a number of BF16; 1 + 2^-8 alone is a tie that goes to 1, and so does the sum.
  plain_call c(2, 1, 2, 1);
  c.v(0) = bf16_of(1);
  for (std::int64_t i = 0; i < 3; ++i) c.d_o(i) = bf16_of(1);
  c.q(0) = bf16_of(1);  // head 0: rows 0 and 1; head 1: row 2
  c.q(1) = c.q(2) = bf16_of(0x1p-8);
  CHECK(dk_of(c.run(named("fa3")), 0) == 1 + 0x1p-7);
  for (const char* name : {"fa2", "fa2-torch", "fa2-torch-splitkv"}) CHECK(dk_of(c.run(named(name)), 0) == 1);
}

TEST_CASE("attention backward by hand: the BF16 results of a group's heads are added by four accumulators, the FP32 ones by one", "[attention][edge]") {
  plain_call c(1, 1, 5, 1);
  c.v(0) = bf16_of(1);
  for (std::int64_t i = 0; i < 5; ++i) c.d_o(i) = bf16_of(1);
  c.q(0) = bf16_of(1);
  c.q(1) = bf16_of(0x1p-24);
  c.q(4) = bf16_of(-1);  // meets head 0 first, where there are four
  CHECK(dk_of(c.run(named("fa3")), 0) == 0);
  for (const char* name : {"fa2", "fa2-torch", "fa2-torch-splitkv"}) CHECK(dk_of(c.run(named(name)), 0) == 0x1p-24);
}

TEST_CASE("attention backward by hand: a group's FP32 sum keeps subnormals, the multiplication after it flushes them", "[attention][edge]") {
  // @source flash-attention 0251105a hopper/flash_bwd_postprocess_kernel.h: the sum times a scale of 1
  plain_call c(1, 1, 2, 1);
  c.v(0) = c.d_o(0) = c.d_o(1) = bf16_of(1);
  c.q(0) = bf16_of(0x1p-126);
  c.q(1) = bf16_of(-1.5 * 0x1p-126);
  CHECK(dk_of(c.run(named("fa3")), 0) == 0);
  CHECK(dk_of(c.run(changed("fa3", [](attention_schedule& s) { s.backward.scalars = subnormals::kept; })), 0) == -0x1p-127);
  c.q(1) = bf16_of(0x1p-126);
  CHECK(dk_of(c.run(named("fa3")), 0) == 0x1p-125);
}

TEST_CASE("attention backward by hand: each form of dS and each place of the scale", "[attention][edge]") {
  // One key; P is what the made-up lse gives. dP = delta + 3·2^-20, so P·dP and P·delta lose what their difference needs.
  plain_call c(1, 1);
  c.problem.v[0] = c.forward.o[0] = bf16_of(1.0703125);
  c.problem.v[1] = bf16_of(3 * 0x1p-20);
  c.problem.d_o[0] = c.problem.d_o[1] = bf16_of(1);
  c.k(0) = bf16_of(1);
  const auto bf16 = [](float x) { return to_float(widen(convert<format::bf16>(code_of(x)))); };
  const auto dq = [&](score_gradient form, scale_place place) {
    return to_float(c.run(changed("fa3", [=](attention_schedule& s) { s.backward.gradient = form, s.backward.scaled = place; })).dq_f32[0]);
  };
  const float delta = 1.0703125f, dp = delta + 3 * 0x1p-20f;
  int all_differ = 0, scales_differ = 0;
  for (int i = 0; i < 64; ++i) {
    c.forward.lse[0] = code_of(1 + float(i) / 64);
    c.problem.softmax_scale = 1;
    float p = 0;
    backward_options options;
    options.scores = [&](score_block_row const& r) { p = to_float(r.p[0]); };
    static_cast<void>(attention_backward(named("fa3"), c.problem, c.forward, options));
    const float own = bf16(p * (dp - delta)), products = bf16(p * dp - p * delta), fused = bf16(std::fma(p, dp, -(p * delta))), narrow = bf16(bf16(p) * (dp - delta));
    all_differ += std::set{own, products, fused, narrow}.size() == 4;
    CHECK(dq(score_gradient::product_of_difference, scale_place::outputs) == own);
    CHECK(dq(score_gradient::difference_of_products, scale_place::outputs) == products);
    CHECK(dq(score_gradient::fused_products, scale_place::outputs) == fused);
    CHECK(dq(score_gradient::from_bf16_weights, scale_place::outputs) == narrow);
    c.problem.softmax_scale = 0.3;
    scales_differ += own * 0.3f != bf16(p * (dp - delta) * 0.3f);
    CHECK(dq(score_gradient::product_of_difference, scale_place::outputs) == own * 0.3f);
    CHECK(dq(score_gradient::product_of_difference, scale_place::score_gradients) == bf16(p * (dp - delta) * 0.3f));
  }
  CHECK(all_differ > 0);
  CHECK(scales_differ > 0);
}

TEST_CASE("attention backward by hand: each order of delta's sum", "[attention][edge]") {
  // dO∘O is 1 in column 0, −1 in column 8 and 1.5·2^-24 in columns 1, 2 and 9: who meets whom decides.
  const auto delta = [](delta_sum order) {
    plain_call c(1, 1);
    for (auto const& [column, value] : {std::pair{0, 1.0}, {8, -1.0}, {1, 1.5 * 0x1p-24}, {2, 1.5 * 0x1p-24}, {9, 1.5 * 0x1p-24}}) {
      c.problem.d_o[std::size_t(column)] = bf16_of(value);
      c.forward.o[std::size_t(column)] = bf16_of(1);
    }
    return double(to_float(c.run(changed("fa3", [order](attention_schedule& s) { s.backward.delta = order; })).delta[0]));
  };
  const float small = 1.5f * 0x1p-24f, first = std::fma(1.0f, 1.0f, small) + small, second = -1.0f + small;  // lanes of columns 0 to 7, 8 to 15
  CHECK(delta(delta_sum::lanes_of_eight) == double(first + second));
  CHECK(delta(delta_sum::serial) == double((first - 1.0f) + small));
  CHECK(delta(delta_sum::tensor_core) == 4.5 * 0x1p-24);  // one block: aligned to 2^-25, nothing lost
  CHECK(delta(delta_sum::lanes_of_eight) != delta(delta_sum::serial));
}

TEST_CASE("attention backward edge: scalar operations flush subnormals or keep them", "[attention][edge]") {
  plain_call c(1, 1);
  c.d_o(0) = bf16_of(0x1p-64);
  c.v(0) = bf16_of(0x1p-63);  // dP = 2^-127
  c.k(0) = bf16_of(0x1p20);
  CHECK(dq_of(c.run(named("fa3")), 0) == 0);
  CHECK(dq_of(c.run(named("fa2")), 0) == 0);
  CHECK(dq_of(c.run(named("fa2-torch")), 0) == 0x1p-107);
  CHECK(dq_of(c.run(changed("fa3", [](attention_schedule& s) { s.backward.scalars = subnormals::kept; })), 0) == 0x1p-107);
  CHECK(dq_of(c.run(changed("fa2-torch", [](attention_schedule& s) { s.backward.scalars = subnormals::flushed; })), 0) == 0);
}

TEST_CASE("attention backward edge: the additions into dQ keep subnormals (FlashAttention-3) or flush them (FlashAttention-2)", "[attention][edge]") {
  plain_call c(1, 129);  // two parts of 2^-127
  c.d_o(0) = bf16_of(1);
  for (std::int64_t j : {0, 128}) {
    c.v(j) = bf16_of(0x1p-64);
    c.k(j) = bf16_of(0x1p-63);
  }
  CHECK(dq_of(c.run(named("fa3")), 0) == 0x1p-126);
  for (const char* name : {"fa2", "fa2-torch", "fa2-torch-splitkv"}) {
    c.problem.sm_count = 1;
    CHECK(dq_of(c.run(named(name)), 0) == 0);
    CHECK(dq_of(c.run(changed(name, [](attention_schedule& s) { s.backward.dq_additions = subnormals::kept; })), 0) == 0x1p-126);
  }
  CHECK(dq_of(c.run(changed("fa3", [](attention_schedule& s) { s.backward.dq_additions = subnormals::flushed; })), 0) == 0);
}

TEST_CASE("attention backward edge: one key has dS = 0, so dQ = dK = 0, and dV is the sum of dO", "[attention][edge]") {
  for (const char* name : {"fa3", "fa2", "fa2-torch", "paper-v2", "eager-bf16", "exact"}) {
    attention_problem p = call_of(5, 1, 64, false);
    std::mt19937_64 random(3);
    fill_all(p, regime::gauss, random);
    for (std::vector<bf16_code>* m : {&p.v, &p.d_o})  // small integers: every order of every sum is exact
      for (std::size_t i = 0; i < m->size(); ++i) (*m)[i] = bf16_of(double((i * 7) % 5) - 2);
    const backward_result r = gradients(named(name), p);
    INFO(name);
    const auto zero = [](bf16_code c) { return c.is_zero(); };
    CHECK(std::ranges::all_of(r.dq, zero));
    CHECK(std::ranges::all_of(r.dk, zero));
    for (std::size_t c = 0; c < 64; ++c) {
      double sum = 0;
      for (std::size_t i = 0; i < 5; ++i) sum += to_double(p.d_o[i * 64 + c]);
      CHECK(to_double(r.dv[c]) == sum);
    }
  }
}

TEST_CASE("attention backward edge: a row without a visible key has dQ = 0 and gives nothing to dK and dV", "[attention][edge]") {
  for (const char* name : {"fa3", "fa2", "fa2-torch", "paper-v2", "exact"}) {
    attention_problem p = call_of(9, 4, 64, true);  // rows 0 to 4 see nothing
    std::mt19937_64 random(4);
    fill_all(p, regime::gauss, random);
    attention_problem others = p;
    for (auto m : {&attention_problem::q, &attention_problem::d_o})
      for (std::size_t i = 0; i < 5 * 64; ++i) (others.*m)[i] = bf16_of(double(i % 3));
    const backward_result r = gradients(named(name), p), s = gradients(named(name), others);
    INFO(name);
    CHECK(std::all_of(r.dq.begin(), r.dq.begin() + 5 * 64, [](bf16_code c) { return c.is_zero(); }));
    CHECK(std::all_of(r.delta.begin(), r.delta.begin() + 5, [](f32_code c) { return c.is_zero(); }));
    CHECK(differing(r.dk, s.dk) == 0);
    CHECK(differing(r.dv, s.dv) == 0);
    CHECK(std::ranges::any_of(r.dk, [](bf16_code c) { return !c.is_zero(); }));
  }
}

TEST_CASE("attention backward edge: an infinity in K meets the padding rows of the last tile as NaN", "[attention][edge]") {
  for (std::int64_t queries : {100, 128}) {
    attention_problem p = call_of(queries, 40, 64, false);
    std::mt19937_64 random(6);
    fill_all(p, regime::gauss, random);
    p.k[17 * 64 + 3] = bf16_code::infinity();
    for (std::int64_t i = 0; i < queries; ++i) p.q[std::size_t(i * 64 + 3)] = bf16_of(-1);  // its score is −inf in every row: no weight
    const bool padded = queries == 100;
    for (const char* name : kernels) {
      const backward_result r = gradients(named(name), p);
      INFO(name << ", " << queries << " rows");
      CHECK(all(r.dv, 17, padded ? is_nan : is_finite));
      CHECK(all(r.dk, 17, padded ? is_nan : is_finite));
      CHECK(all(r.dv, 16, is_finite));
      CHECK(all(r.dk, 16, is_finite));
      CHECK(is_nan(r.dq[3]));  // dS = 0 times infinity
      CHECK(is_finite(r.dq[4]));
    }
  }
}

TEST_CASE("attention backward edge: NaN in dO reaches the masked keys of every block that the row's tile visits", "[attention][edge]") {
  attention_problem p = call_of(256, 256, 64, true);
  std::mt19937_64 random(7);
  fill_all(p, regime::gauss, random);
  p.d_o[10 * 64 + 5] = bf16_code::nan();
  for (const char* name : kernels) {
    const backward_result r = gradients(named(name), p);
    INFO(name);
    CHECK(all(r.dq, 10, is_nan));
    CHECK(all(r.dq, 9, is_finite));
    for (std::int64_t key : {0, 10, 11, 127}) {  // rows from 0 on visit block 0; row 10 sees keys 0 to 10
      CHECK(all(r.dk, key, is_nan));
      CHECK(is_nan(r.dv[std::size_t(key * 64 + 5)]));
      CHECK(is_finite(r.dv[std::size_t(key * 64 + 6)]));
    }
    for (std::int64_t key : {128, 255}) {
      CHECK(all(r.dk, key, is_finite));
      CHECK(all(r.dv, key, is_finite));
    }
  }
}

TEST_CASE("attention backward edge: which rows visit a block of masked keys is decided by the tile of queries", "[attention][edge]") {
  // 200 rows, 256 keys, aligned to the last: key 128 is first seen by row 72, which lies in the tile of rows 0 to 127.
  attention_problem p = call_of(200, 256, 64, true);
  std::mt19937_64 random(8);
  fill_all(p, regime::gauss, random);
  const forward_result forward = attention_forward(named("fa3"), p);
  p.k[250 * 64 + 3] = bf16_code::nan();  // after the forward pass: only dQ's product shows it in rows that do not see it
  const auto nan_rows = [&](attention_schedule const& s) {
    const backward_result r = attention_backward(s, p, forward);
    std::int64_t n = 0;
    for (std::int64_t i = 0; i < 72; ++i) n += is_nan(r.dq[std::size_t(i * 64 + 3)]);
    return n;
  };
  static constexpr std::array half{attention_tile{.head_dim = 64, .causal = true, .query_rows = 64, .key_columns = 128}};
  CHECK(nan_rows(named("fa3")) == 72);
  CHECK(nan_rows(named("fa2-torch")) == 72);
  CHECK(nan_rows(changed("fa3", [](attention_schedule& s) { s.backward_tiles = half; })) == 8);
}

TEST_CASE("attention backward edge: an infinite delta meets the padding keys of the last block as NaN", "[attention][edge]") {
  for (std::int64_t keys : {100, 128}) {
    plain_call c(1, keys);
    c.forward.o[0] = bf16_code::infinity();
    c.d_o(0) = bf16_of(1);
    for (std::int64_t j = 0; j < keys; ++j) c.k(j) = bf16_of(1);
    for (const char* name : kernels) {
      const backward_result r = c.run(named(name));
      INFO(name << ", " << keys << " keys");
      CHECK(r.delta[0] == f32_code::infinity());
      CHECK(r.dq[0] == (keys == 128 ? bf16_code::infinity(true) : bf16_code::nan()));
    }
  }
}

TEST_CASE("attention backward edge: no rows, no keys", "[attention][edge]") {
  for (const char* name : {"fa3", "fa2-torch", "paper-v2"}) {
    INFO(name);
    const attention_problem none = call_of(0, 5, 64, true);
    attention_problem no_rows = none;
    no_rows.k.resize(5 * 64);
    no_rows.v.resize(5 * 64);
    const backward_result r = gradients(named(name), no_rows);
    CHECK(r.dq.empty());
    CHECK(std::ranges::all_of(r.dk, [](bf16_code c) { return c.is_zero(); }));
    attention_problem no_keys = call_of(3, 0, 64, false);
    no_keys.q.resize(3 * 64);
    no_keys.d_o.resize(3 * 64);
    const backward_result s = gradients(named(name), no_keys);
    CHECK(s.dk.empty());
    CHECK(s.dq == std::vector(3 * 64, bf16_code::zero()));
  }
}

TEST_CASE("attention: what a progress throws ends the pass and comes out of it", "[attention]") {
  attention_problem p = call_of(512, 512, 64, false);
  std::mt19937_64 random(7);
  fill(p, regime::gauss, random);
  p.d_o = p.q;
  for (const char* name : {"fa3", "eager-bf16", "exact"}) {
    INFO(name);
    std::int64_t told = 0;
    const auto stops = [&](std::int64_t done, std::int64_t total) {
      told = done;
      if (done < total) throw std::runtime_error("enough");
    };
    CHECK_THROWS_WITH(static_cast<void>(attention_forward(named(name), p, engine::fast, stops)), "enough");
    CHECK(told < p.queries);
  }
  const forward_result forward = attention_forward(named("fa3"), p);
  std::int64_t blocks = 0;
  const backward_options options{.report = [&](std::int64_t, std::int64_t) {
                                   ++blocks;
                                   throw std::runtime_error("enough");
                                 },
                                 .scores = {}, .dq_parts = {}, .dq_order = {}};
  CHECK_THROWS_WITH(static_cast<void>(attention_backward(named("fa3"), p, forward, options)), "enough");
  CHECK(blocks == 1);
}
