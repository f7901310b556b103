// Backward passes of the references: the exact gradients rounded once, PyTorch's autograd in BF16, and the paper's algorithm.
#include <array>

#include "stickybit/gemm/gemm.hpp"
#include "stickybit/machine/machine.hpp"
#include "support/backward_calls.hpp"
#include "support/catch.hpp"

using namespace stickybit;

namespace {

attention_schedule const& named(const char* name) { return attention_schedule_named(name); }

/// The gradients of one head in long double, layout b,h,s,d with one batch element.
struct wide_gradients {
  using matrix = std::vector<long double>;
  matrix dq, dk, dv, delta, lse_log2;

  wide_gradients(attention_problem const& p, std::int64_t head) {
    const std::int64_t s = p.queries, n = p.keys, d = p.head_dim, kv = p.key_head_of(head);
    const auto at = [d](std::vector<bf16_code> const& m, std::int64_t rows, std::int64_t h, std::int64_t i, std::int64_t c) {
      return static_cast<long double>(to_double(m[std::size_t((h * rows + i) * d + c)]));
    };
    dq.resize(std::size_t(s * d)), dk.resize(std::size_t(n * d)), dv.resize(std::size_t(n * d)), delta.resize(std::size_t(s)), lse_log2.resize(std::size_t(s));
    for (std::int64_t i = 0; i < s; ++i) {
      const auto visible = std::int64_t(visible_keys(p.causal ? mask_alignment::bottom_right : mask_alignment::none, std::size_t(i), std::size_t(s), std::size_t(n)));
      matrix weights(std::size_t(n), 0), dp(std::size_t(n), 0);
      long double sum = 0;
      for (std::int64_t j = 0; j < visible; ++j) {
        long double score = 0;
        for (std::int64_t c = 0; c < d; ++c) {
          score += at(p.q, s, head, i, c) * at(p.k, n, kv, j, c);
          dp[std::size_t(j)] += at(p.d_o, s, head, i, c) * at(p.v, n, kv, j, c);
        }
        sum += weights[std::size_t(j)] = std::exp(score * static_cast<long double>(p.softmax_scale));
      }
      for (std::int64_t j = 0; j < visible; ++j) delta[std::size_t(i)] += weights[std::size_t(j)] / sum * dp[std::size_t(j)];
      if (visible > 0) lse_log2[std::size_t(i)] = std::log2(sum);
      for (std::int64_t j = 0; j < visible; ++j) {
        const long double w = weights[std::size_t(j)] / sum, ds = w * (dp[std::size_t(j)] - delta[std::size_t(i)]) * static_cast<long double>(p.softmax_scale);
        for (std::int64_t c = 0; c < d; ++c) {
          dq[std::size_t(i * d + c)] += ds * at(p.k, n, kv, j, c);
          dk[std::size_t(j * d + c)] += ds * at(p.q, s, head, i, c);
          dv[std::size_t(j * d + c)] += w * at(p.d_o, s, head, i, c);
        }
      }
    }
  }
};

/// Rounded once to BF16: by way of FP32 rounded to odd, which loses nothing that BF16 asks for.
bf16_code once_to_bf16(long double x) {
  float cut = static_cast<float>(x);
  if (std::fabs(static_cast<long double>(cut)) > std::fabs(x)) cut = std::nextafter(cut, 0.0f);
  const f32_code c = code_of(cut);
  return convert<format::bf16>(static_cast<long double>(cut) == x ? c : f32_code::from_bits(c.to_bits() | 1));
}

attention_problem grouped_call(std::int64_t queries, std::int64_t keys, bool causal, std::uint64_t seed) {
  attention_problem p = call_of(queries, keys, 64, causal);
  p.heads = 6;
  p.key_heads = 2;
  p.layout = tensor_layout::b_h_s_d;
  std::mt19937_64 random(seed);
  fill_all(p, regime::gauss, random);
  return p;
}

std::vector<bf16_code> transposed(std::vector<bf16_code> const& m, std::size_t rows, std::size_t columns) {
  std::vector<bf16_code> t(m.size());
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t c = 0; c < columns; ++c) t[c * rows + i] = m[i * columns + c];
  return t;
}

}  // namespace

TEST_CASE("attention backward exact: equals long double, rounded once; a group's heads are added before", "[attention]") {
  for (bool causal : {false, true}) {
    const attention_problem p = grouped_call(17, 13, causal, 21);
    backward_options options;
    options.keep_f32 = true;
    const backward_result r = gradients(named("exact"), p, options);
    std::int64_t rounded_by_head = 0;
    for (std::int64_t key_head = 0; key_head < 2; ++key_head) {
      std::vector<long double> dk(13 * 64), dv(13 * 64);
      std::vector<float> of_heads(13 * 64);
      for (std::int64_t head = 3 * key_head; head < 3 * key_head + 3; ++head) {
        const wide_gradients w(p, head);
        for (std::size_t i = 0; i < w.dq.size(); ++i) {
          CHECK(r.dq[std::size_t(head) * w.dq.size() + i] == once_to_bf16(w.dq[i]));
          CHECK(r.dq_f32[std::size_t(head) * w.dq.size() + i] == code_of(static_cast<float>(w.dq[i])));
        }
        for (std::size_t i = 0; i < 17; ++i) {
          CHECK(r.delta[std::size_t(head) * 17 + i] == code_of(static_cast<float>(w.delta[i])));
          CHECK(r.lse_log2[std::size_t(head) * 17 + i] == code_of(static_cast<float>(w.lse_log2[i])));
        }
        for (std::size_t i = 0; i < dk.size(); ++i) {
          dk[i] += w.dk[i];
          dv[i] += w.dv[i];
          of_heads[i] += to_float(widen(once_to_bf16(w.dk[i])));
        }
      }
      for (std::size_t i = 0; i < dk.size(); ++i) {
        const std::size_t at = std::size_t(key_head) * dk.size() + i;
        CHECK(r.dk[at] == once_to_bf16(dk[i]));
        CHECK(r.dv[at] == once_to_bf16(dv[i]));
        CHECK(r.dk_f32[at] == code_of(static_cast<float>(dk[i])));
        rounded_by_head += r.dk[at] != convert<format::bf16>(code_of(of_heads[i]));
      }
    }
    CHECK(rounded_by_head > 100);  // rounding each head first would show
  }
}

TEST_CASE("attention backward exact: P, dP and dS are told for every row, and dS of a row sums to nothing", "[attention]") {
  const attention_problem p = grouped_call(17, 13, true, 22);
  std::array<std::int64_t, 102> told{};
  std::array<double, 102> mass{}, size{}, weight{};
  backward_options options;
  options.scores = [&](score_block_row const& r) {
    const auto at = std::size_t(r.head * 17 + r.row);
    ++told[at];
    for (std::size_t j = 0; j < r.ds.size(); ++j) {
      mass[at] += to_double(r.ds[j]);
      size[at] += std::fabs(to_double(r.ds[j]));
      weight[at] += to_double(r.p[j]);
      if (std::int64_t(j) >= r.visible && (r.s[j] != f32_code::infinity(true) || !r.p[j].is_zero() || !r.ds[j].is_zero())) ++told[at];
    }
  };
  static_cast<void>(gradients(named("exact"), p, options));
  for (std::size_t i = 0; i < told.size(); ++i) {
    CHECK(told[i] == 1);
    CHECK(std::fabs(mass[i]) <= size[i] * 0x1p-8);  // the casts alone
    CHECK(std::fabs(weight[i] - (i % 17 < 4 ? 0 : 1)) < 1e-6);  // rows 0 to 3 see no key
  }
}

TEST_CASE("attention backward: references have one block and no padding", "[attention]") {
  for (const char* name : {"exact", "eager-bf16", "paper-v2"})
    for (std::int64_t keys : {1, 13, 300}) {
      INFO(name << ", " << keys << " keys");
      const attention_problem p = grouped_call(17, keys, true, 23);
      CHECK(dq_blocks(named(name), p) == 1);
      CHECK(padded_rows(named(name), p) == 17);
      backward_options options;
      options.dq_order = {0, 1};
      attention_problem single = call_of(17, keys, 64, true);
      std::mt19937_64 random(1);
      fill_all(single, regime::gauss, random);
      CHECK_THROWS_AS(gradients(named(name), single, options), std::invalid_argument);
    }
}

TEST_CASE("attention backward eager: every matrix is BF16, products are gemm's, the softmax is PyTorch's", "[attention]") {
  // @source PyTorch aten/src/ATen/native/cuda/SoftMax.cu, PersistentSoftmax.cuh: dt = (grad·output) − output·Σ(grad·output)
  for (bool causal : {false, true}) {
    attention_problem p = call_of(40, 70, 64, causal);
    std::mt19937_64 random(24);
    fill_all(p, regime::gauss, random);
    p.softmax_scale = 0.3;
    std::vector<bf16_code> weights(40 * 70), dp(40 * 70), ds(40 * 70);
    backward_options options;
    options.scores = [&](score_block_row const& r) {
      for (std::size_t j = 0; j < 70; ++j) {
        const std::size_t at = std::size_t(r.row) * 70 + j;
        weights[at] = convert<format::bf16>(r.p[j]);
        dp[at] = convert<format::bf16>(r.dp[j]);
        ds[at] = convert<format::bf16>(r.ds[j]);
      }
    };
    const forward_result forward = attention_forward(named("eager-bf16"), p);
    const backward_result r = attention_backward(named("eager-bf16"), p, forward, options);
    machine_unit const& unit = unit_named(named("eager-bf16").unit);
    const auto product = [&](std::vector<bf16_code> const& a, std::vector<bf16_code> const& b, std::int64_t m, std::int64_t n, std::int64_t k) {
      return to_bf16(gemm(unit, {.m = m, .n = n, .k = k, .a = a, .b = b, .c = {}}));
    };
    CHECK(differing(product(weights, transposed(p.v, 70, 64), 40, 64, 70), forward.o) == 0);
    CHECK(differing(product(p.d_o, p.v, 40, 70, 64), dp) == 0);
    CHECK(differing(product(transposed(weights, 40, 70), transposed(p.d_o, 40, 64), 70, 64, 40), r.dv) == 0);
    CHECK(differing(product(ds, transposed(p.k, 70, 64), 40, 64, 70), r.dq) == 0);
    CHECK(differing(product(transposed(ds, 40, 70), transposed(p.q, 40, 64), 70, 64, 40), r.dk) == 0);
    std::int64_t wrong = 0, wrong_apart = 0, wrong_serial = 0;
    for (std::size_t i = 0; i < 40; ++i) {
      std::array<float, 32> lanes{};
      float serial = 0;
      std::array<float, 70> product_row{};
      const auto value = [&](std::vector<bf16_code> const& m, std::size_t j) { return to_float(widen(m[i * 70 + j])); };
      const auto narrow = [](float x) { return to_float(widen(convert<format::bf16>(code_of(x)))); };
      for (std::size_t j = 0; j < 70; ++j) {
        product_row[j] = narrow(value(dp, j) * value(weights, j));
        lanes[j % 32] += product_row[j];
        serial += product_row[j];
      }
      for (std::size_t half = 16; half != 0; half /= 2)
        for (std::size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
      CHECK(r.delta[i] == code_of(lanes[0]));
      wrong_serial += r.delta[i] != code_of(serial);
      for (std::size_t j = 0; j < (causal ? i + 1 : 70); ++j) {
        const float w = value(weights, j);
        wrong += value(ds, j) != narrow(narrow(std::fma(-w, lanes[0], product_row[j])) * 0.3f);
        wrong_apart += value(ds, j) != narrow(narrow(product_row[j] - w * lanes[0]) * 0.3f);
      }
      for (std::size_t j = causal ? i + 1 : 70; j < 70; ++j) wrong += !ds[i * 70 + j].is_zero();
    }
    CHECK(wrong == 0);
    CHECK(wrong_apart + wrong_serial > 0);  // the check can fail
  }
}

TEST_CASE("attention backward eager: NaN of a masked key reaches the row, since masked weights are multiplied too", "[attention]") {
  attention_problem p = call_of(4, 4, 64, true);
  std::mt19937_64 random(25);
  fill_all(p, regime::gauss, random);
  p.v[3 * 64] = bf16_code::nan();  // key 3, which rows 0 to 2 do not see
  const backward_result r = gradients(named("eager-bf16"), p);
  CHECK(std::ranges::all_of(r.dq, [](bf16_code c) { return c == bf16_code::nan(); }));
  CHECK(std::ranges::all_of(r.dv, [](bf16_code c) { return c.is_finite(); }));
}

TEST_CASE("attention backward eager: NaN in dO stops at the mask on its way to dK, not on its way to dV", "[attention]") {
  attention_problem p = call_of(4, 4, 64, true);
  std::mt19937_64 random(29);
  fill_all(p, regime::gauss, random);
  p.d_o[5] = bf16_code::nan();  // row 0, which sees key 0 alone
  const backward_result r = gradients(named("eager-bf16"), p);
  CHECK(std::all_of(r.dq.begin(), r.dq.begin() + 64, [](bf16_code c) { return c == bf16_code::nan(); }));
  CHECK(std::all_of(r.dk.begin(), r.dk.begin() + 64, [](bf16_code c) { return c == bf16_code::nan(); }));
  CHECK(std::all_of(r.dk.begin() + 64, r.dk.end(), [](bf16_code c) { return c.is_finite(); }));
  for (std::size_t key = 0; key < 4; ++key) CHECK(r.dv[key * 64 + 5] == bf16_code::nan());
}

TEST_CASE("attention backward eager: grouped heads and more than 1024 keys are refused, by name", "[attention]") {
  CHECK_THROWS_WITH(gradients(named("eager-bf16"), grouped_call(3, 4, false, 26)), Catch::Matchers::Contains("eager-bf16") && Catch::Matchers::Contains("6 on 2"));
  attention_problem p = call_of(1, 1025, 64, false);
  std::mt19937_64 random(27);
  fill_all(p, regime::gauss, random);
  CHECK_THROWS_WITH(gradients(named("eager-bf16"), p), Catch::Matchers::Contains("1025 keys"));
}

TEST_CASE("attention backward paper-v2: delta is summed serially from the BF16 O, and the facts say that the backward pass is assumed", "[attention]") {
  attention_problem p = call_of(20, 30, 64, false);
  std::mt19937_64 random(28);
  fill_all(p, regime::gauss, random);
  const forward_result forward = attention_forward(named("paper-v2"), p);
  const backward_result r = attention_backward(named("paper-v2"), p, forward);
  for (std::size_t i = 0; i < 20; ++i) {
    const auto at = [&](std::vector<bf16_code> const& m, std::size_t c) { return to_float(widen(m[i * 64 + c])); };
    float sum = std::fma(at(p.d_o, 0), at(forward.o, 0), at(p.d_o, 1) * at(forward.o, 1));
    for (std::size_t c = 2; c < 64; ++c) sum = std::fma(at(p.d_o, c), at(forward.o, c), sum);
    CHECK(r.delta[i] == code_of(sum));
  }
  CHECK(std::ranges::any_of(named("paper-v2").facts, [](fact const& f) { return f.mark == evidence::assumed && f.rule.starts_with("backward"); }));
  CHECK(std::ranges::any_of(named("eager-bf16").facts, [](fact const& f) { return f.mark != evidence::assumed && f.rule.starts_with("backward"); }));
}
