// The bias of the gradients by rounding point: with every point the kernel, and the parts make the whole, in mean and along the direction.
#include "stickybit/bias/gradient_attribution.hpp"

#include <omp.h>

#include <cmath>
#include <random>

#include "stickybit/attention/exact_head.hpp"
#include "stickybit/bias/attribution.hpp"
#include "stickybit/bias/output_bias.hpp"
#include "stickybit/fix/fix.hpp"
#include "stickybit/format/value.hpp"
#include "support/backward_calls.hpp"
#include "support/catch.hpp"
#include "support/recorded_gradients.hpp"
#include "support/tally.hpp"

using namespace stickybit;

namespace {

constexpr std::uint64_t seed = 0xa77b;

attention_schedule schedule_of(std::string_view name) {
  const std::size_t plus = name.find('+');
  attention_schedule s = attention_schedule_named(name.substr(0, plus));
  return plus == name.npos ? s : with_fixes(s, name.substr(plus + 1));
}

constexpr std::array names{"fa3",           "fa2-torch",       "fa2",           "cudnn",          "paper-v2",
                           "efficient",     "fa3+delta-fp32",  "fa3+delta-mma", "fa3+delta-hilo", "fa2-torch+delta-hilo",
                           "fa3+subtract-first", "fa3+two-row-sums+beta"};

attention_problem random_call(std::int64_t batch, std::int64_t heads, std::int64_t key_heads, std::int64_t queries, std::int64_t keys, std::int64_t d, bool causal, regime r,
                              std::mt19937_64& random) {
  attention_problem p = call_of(queries, keys, d, causal);
  p.batch = batch, p.heads = heads, p.key_heads = key_heads;
  p.layout = random() % 2 == 0 ? tensor_layout::b_h_s_d : tensor_layout::b_s_h_d;
  fill_all(p, r, random);
  return p;
}

/// The first so many of five: grouped heads, batch, unequal lengths, rows without keys, d of both sizes, several tiles.
std::vector<attention_problem> random_calls(regime r, std::uint64_t of, std::size_t count) {
  std::mt19937_64 random(of);
  std::vector<attention_problem> calls{random_call(2, 4, 2, 21, 150, 64, true, r, random), random_call(1, 2, 1, 150, 130, 64, true, r, random),
                                       random_call(1, 1, 1, 33, 140, 128, false, r, random), random_call(1, 6, 1, 17, 33, 64, false, r, random),
                                       random_call(1, 1, 1, 200, 260, 128, true, r, random)};
  calls.resize(count);
  return calls;
}

/// What the kernel has: dP and dS as the backward pass goes by.
struct kernel_gradients {
  backward_result of;
  std::vector<f32_code> dp, ds;  // [b, h, s, s_k]

  kernel_gradients(attention_schedule const& schedule, attention_problem const& p) : dp(std::size_t(p.batch * p.heads * p.queries * p.keys)), ds(dp.size()) {
    backward_options options;
    options.scores = [&](score_block_row const& r) {
      const auto to = std::ptrdiff_t(((r.batch * p.heads + r.head) * p.queries + r.row) * p.keys + r.first_column);
      std::copy_n(r.dp.begin(), r.visible, dp.begin() + to);
      std::copy_n(r.ds.begin(), r.visible, ds.begin() + to);
    };
    of = attention_backward(schedule, p, attention_forward(schedule, p), options);
  }
};

/// The error of each element is the kernel's code less the exact value, to the precision of a double of that value.
struct code_check {
  testing::tally codes;
  explicit code_check(std::string const& domain) : codes(domain) {}

  template <format F>
  void see(double_double exact, double error, code<F> kernel, const char* tensor) {
    if (std::isnan(error)) return;  // left out
    const double expected = to_double(double_double{to_double(kernel), 0} - exact);
    codes.expect(std::fabs(error - expected) <= 0x1p-52 * (std::fabs(expected) + std::fabs(exact.hi)), [&] { return fmt::format("{}: error {} of {}", tensor, error, expected); });
  }

  void see(attention_schedule const& schedule, attention_problem const& p, backward_result const& kernel, selective_errors const& e) {
    const call_reference reference(p, mask_of(schedule, p));
    const std::int64_t d = p.head_dim, group = p.heads / p.key_heads;
    for (std::int64_t b = 0; b < p.batch; ++b)
      for (std::int64_t head = 0; head < p.heads; ++head) {
        head_gradients const& exact = reference.values(b, head);
        for (std::int64_t i = 0; i < p.queries; ++i) {
          const auto row = std::size_t((b * p.heads + head) * p.queries + i), from = std::size_t(p.query_strides().offset(b, head, i));
          if (!kernel.delta.empty()) see(exact.delta[std::size_t(i)], e.delta[row], kernel.delta[row], "delta");
          for (std::size_t c = 0; c < std::size_t(d); ++c) see(exact.dq[std::size_t(i * d) + c], e.dq[from + c], kernel.dq[from + c], "dq");
        }
        if (head % group != 0) continue;
        const std::int64_t key_head = head / group;
        std::vector<double_double> dk(std::size_t(p.keys * d)), dv = dk;
        for (std::int64_t of = head; of < head + group; ++of)
          for (std::size_t x = 0; x < dk.size(); ++x) dk[x] = dk[x] + reference.values(b, of).dk[x], dv[x] = dv[x] + reference.values(b, of).dv[x];
        for (std::size_t x = 0; x < dk.size(); ++x) {
          const std::size_t at = std::size_t(p.key_strides().offset(b, key_head, std::int64_t(x) / d)) + x % std::size_t(d);
          see(dk[x], e.dk[at], kernel.dk[at], "dk");
          see(dv[x], e.dv[at], kernel.dv[at], "dv");
        }
      }
  }

  void see_scores(attention_schedule const& schedule, attention_problem const& p, kernel_gradients const& kernel, selective_errors const& e) {
    std::vector<double_double> w(std::size_t(p.keys)), dp = w, ds = w, dq(std::size_t(p.head_dim));
    const double factor = schedule.backward.scaled == scale_place::score_gradients ? p.softmax_scale : 1;
    const call_reference reference(p, mask_of(schedule, p));
    for (std::int64_t row = 0; row < p.batch * p.heads * p.queries; ++row) {
      const std::int64_t head = row / p.queries;
      const std::size_t visible = reference.gradients(head / p.heads, head % p.heads).evaluate_row(std::size_t(row % p.queries), w, dp, ds, dq).visible;
      for (std::size_t j = 0; j < visible; ++j) {
        const std::size_t at = std::size_t(row * p.keys) + j;
        see(dp[j], e.dp[at], kernel.dp[at], "dp");
        see(ds[j] * factor, e.ds[at], convert<format::bf16>(kernel.ds[at]), "ds");
      }
    }
  }
};

using member = tensor_attribution gradient_attribution::*;
struct tensor_pair {
  const char* name;
  tensor_attribution const& by_point;
  tensor_error const& whole;
};
std::vector<tensor_pair> tensors_of(gradient_attribution const& a, gradient_bias const& b) {
  return {{"delta", a.delta, b.delta}, {"dp", a.dp, b.dp}, {"ds", a.ds, b.ds}, {"dq", a.dq, b.dq}, {"dk", a.dk, b.dk}, {"dv", a.dv, b.dv}};
}

void check_sums(tensor_pair const& t, bool same_elements) {
  INFO(t.name);
  double sum = 0, along = 0;
  for (attributed_point const& p : t.by_point.points) {
    sum += p.mean_signed_error_ulp;
    along += p.along_direction;
    CHECK(std::fabs(p.along_direction) <= p.rms_error_ulp * (1 + 1e-12));
  }
  const double size = t.by_point.rms_error_ulp;
  for (attributed_point const& p : t.by_point.points) CHECK(std::isfinite(p.without_mean_signed_error_ulp + p.alone_along_direction + p.without_along_direction));
  CHECK(std::fabs(sum - t.by_point.mean_signed_error_ulp) <= 1e-12 * size);
  CHECK(std::fabs(along - t.by_point.along_direction) <= 1e-12 * size);
  CHECK(std::fabs(t.by_point.along_direction) <= size * (1 + 1e-12));
  if (!same_elements) return;
  CHECK(t.by_point.counted == t.whole.counted);
  CHECK(std::fabs(t.by_point.mean_signed_error_ulp - t.whole.mean_signed_error_ulp) <= 1e-9 * t.whole.rms_error_ulp);
  CHECK(t.by_point.rms_error_ulp == Approx(t.whole.rms_error_ulp).epsilon(1e-9));
}

attributed_point const& part(tensor_attribution const& a, backward_point point) {
  const auto found = std::ranges::find(a.points, name_of(point), &attributed_point::name);
  REQUIRE(found != a.points.end());
  return *found;
}

}  // namespace

TEST_CASE("gradient attribution: every point gives the recorded codes of dq, dk, dv and delta", "[bias][golden]") {
  for (const char* name : {"fa3", "fa2-torch", "cudnn", "efficient"}) {
    attention_schedule const& schedule = attention_schedule_named(name);
    code_check check(std::string("recorded calls of ") + name);
    for (auto const& path : recorded_gradients::golden_files(schedule)) {
      const tensor_file file = tensor_file::load(path);
      attention_problem p = read_problem(file);
      const std::string producer = recorded_gradients::producer_of(schedule);
      p.call_heads = whole_number(file, producer + ".heads", p.heads);
      backward_result recorded;
      recorded.dq = file.require(producer + ".dq", dtype::bf16).elements<bf16_code>();
      recorded.dk = file.require(producer + ".dk", dtype::bf16).elements<bf16_code>();
      recorded.dv = file.require(producer + ".dv", dtype::bf16).elements<bf16_code>();
      check.see(schedule, p, recorded, gradient_errors_with(schedule, p, backward_points::all()));
    }
    check.codes.check();
  }
}

TEST_CASE("gradient attribution: every point gives the kernel's codes of all six tensors, no point the exact gradients, random calls", "[bias]") {
  for (const char* name : names) {
    const attention_schedule schedule = schedule_of(name);
    code_check check(fmt::format("{}, random calls, seed {:#x}", name, seed));
    testing::tally none(std::string("no point, no error: ") + name, seed);
    for (attention_problem const& p : random_calls(regime::gauss, seed, name == std::string("fa3") || name == std::string("fa2-torch") ? 5 : 2)) {
      const kernel_gradients kernel(schedule, p);
      const selective_errors all = gradient_errors_with(schedule, p, backward_points::all()), exact = gradient_errors_with(schedule, p, backward_points::none());
      check.see(schedule, p, kernel.of, all);
      if (p.queries * p.keys * p.heads < 10000) check.see_scores(schedule, p, kernel, all);
      for (std::vector<double> const* m : {&exact.delta, &exact.dp, &exact.ds, &exact.dq, &exact.dk, &exact.dv})
        for (double x : *m) none.expect(std::isnan(x) || x == 0, [&] { return fmt::format("{}", x); });
    }
    check.codes.check();
    none.check();
  }
}

TEST_CASE("gradient attribution: parts add up to the bias in mean and direction, recorded calls", "[bias][golden]") {
  for (const char* file : {"gauss_s64_d128_c1", "ties_s384_d64_c0", "gauss_b1_q257_k129_h4x2_d64_c0"})
    for (const char* name : {"fa3", "fa2-torch", "cudnn", "paper-v2"}) {
      if (file != std::string("gauss_s64_d128_c1") && name != std::string("fa3") && name != std::string("fa2-torch")) continue;
      INFO(file << " " << name);
      attention_schedule const& schedule = attention_schedule_named(name);
      const attention_problem p = read_problem(golden(std::string(file) + ".safetensors"));
      const gradient_bias bias = bias_of_gradients(schedule, p);
      const gradient_attribution a = attribute_gradients(schedule, p, bias);
      for (tensor_pair const& t : tensors_of(a, bias)) check_sums(t, true);
    }
}

TEST_CASE("gradient attribution: the mean, alone and without are those of the elements, and so are the directions", "[bias]") {
  using enum backward_point;
  std::mt19937_64 random(seed);
  const attention_problem p = random_call(1, 2, 1, 24, 150, 64, true, regime::gauss, random);
  const attention_schedule& fa3 = attention_schedule_named("fa3");
  const gradient_bias bias = bias_of_gradients(fa3, p);
  const gradient_attribution a = attribute_gradients(fa3, p, bias);
  const call_reference reference(p, mask_of(fa3, p));
  // PK and PᵀQ in double.
  std::vector<double> pk(p.q.size()), ptq(p.k.size());
  for (std::int64_t h = 0; h < 2; ++h)
    for (std::int64_t i = 0; i < p.queries; ++i) {
      std::vector<double_double> w(std::size_t(p.keys)), dp = w, ds = w, dq(64);
      const std::size_t n = reference.gradients(0, h).evaluate_row(std::size_t(i), w, dp, ds, dq).visible;
      for (std::size_t j = 0; j < n; ++j)
        for (std::size_t c = 0; c < 64; ++c) {
          const auto q_at = std::size_t(p.query_strides().offset(0, h, i)) + c, k_at = std::size_t(p.key_strides().offset(0, 0, std::int64_t(j))) + c;
          pk[q_at] += w[j].hi * to_double(p.k[k_at]);
          ptq[k_at] += w[j].hi * to_double(p.q[q_at]);
        }
    }
  const auto check = [&](tensor_attribution const& t, std::vector<double> selective_errors::*tensor, std::vector<double> const& direction, std::vector<column_error> const& columns, bool of_keys) {
    const row_strides strides = of_keys ? p.key_strides() : p.query_strides();
    const std::int64_t heads = of_keys ? 1 : 2, rows = of_keys ? p.keys : p.queries;
    const auto measure = [&](backward_points set) {
      const selective_errors e = gradient_errors_with(fa3, p, set);
      double sum = 0, along = 0, n = double(heads * rows * 64);
      for (std::int64_t h = 0; h < heads; ++h) {
        double of_head = 0, length = 0;
        for (std::int64_t i = 0; i < rows; ++i)
          for (std::int64_t c = 0; c < 64; ++c) {
            const auto at = std::size_t(strides.offset(0, h, i) + c);
            const double ulp = columns[std::size_t(h * 64 + c)].ulp;
            sum += (e.*tensor)[at] / ulp, of_head += (e.*tensor)[at] / ulp * (direction[at] / ulp), length += direction[at] / ulp * (direction[at] / ulp);
          }
        along += of_head / std::sqrt(length * double(heads) * n);
      }
      return std::pair{sum / n, along};
    };
    const auto same = [&](double x, double y) { CHECK(std::fabs(x - y) <= 1e-11 * t.rms_error_ulp); };
    backward_points all = backward_points::none();
    for (backward_point point : all_backward_points) all = all.with(point);
    same(measure(all).first, t.mean_signed_error_ulp);
    same(measure(all).second, t.along_direction);
    for (backward_point point : {stored_o, ds_cast, p_cast, output_cast}) {
      if (std::ranges::find(t.points, name_of(point), &attributed_point::name) == t.points.end()) continue;
      INFO(name_of(point));
      const auto alone = measure(backward_points::none().with(point)), without = measure(all.without(point));
      same(alone.first, part(t, point).alone_mean_signed_error_ulp);
      same(alone.second, part(t, point).alone_along_direction);
      same(without.first, part(t, point).without_mean_signed_error_ulp);
      same(without.second, part(t, point).without_along_direction);
    }
  };
  std::vector<double> dv(p.v.size());
  for (std::size_t i = 0; i < dv.size(); ++i) {
    const std::size_t at = std::size_t(p.key_strides().offset(0, 0, std::int64_t(i / 64))) + i % 64;
    dv[at] = reference.values(0, 0).dv[i].hi + reference.values(0, 1).dv[i].hi;
  }
  check(a.dq, &selective_errors::dq, pk, bias.dq.columns, false);
  check(a.dk, &selective_errors::dk, ptq, bias.dk.columns, true);
  check(a.dv, &selective_errors::dv, dv, bias.dv.columns, true);
  CHECK(a.delta.along_direction == Approx(a.delta.mean_signed_error_ulp).epsilon(1e-12));
}

TEST_CASE("gradient attribution: an error of delta alone lies along P in dS, whatever its size", "[bias]") {
  // Identical rows: delta errs by the same in all, so dS, dQ and dK err along their directions and nowhere else.
  std::mt19937_64 random(seed + 1);
  attention_problem p = random_call(1, 1, 1, 32, 100, 64, false, regime::gauss, random);
  p.layout = tensor_layout::b_h_s_d;
  for (std::size_t i = 64; i < p.q.size(); ++i) p.q[i] = p.q[i % 64], p.d_o[i] = p.d_o[i % 64];
  const attention_schedule& fa3 = attention_schedule_named("fa3");
  const gradient_bias bias = bias_of_gradients(fa3, p);
  const gradient_attribution a = attribute_gradients(fa3, p, bias);
  const double sign = part(a.delta, backward_point::stored_o).mean_signed_error_ulp > 0 ? -1 : 1;
  for (tensor_attribution const* t : {&a.ds, &a.dq, &a.dk}) {
    attributed_point const& o = part(*t, backward_point::stored_o);
    CHECK(o.along_direction == Approx(sign * o.rms_error_ulp).epsilon(1e-9));
    CHECK(o.alone_along_direction == Approx(o.along_direction).epsilon(1e-12));
  }
}

TEST_CASE("gradient attribution: O has its part along dO", "[bias][golden]") {
  const attention_problem p = read_problem(golden("gauss_s64_d128_c1.safetensors"));
  const attention_schedule& fa3 = attention_schedule_named("fa3");
  const output_bias bias = bias_of_output(fa3, p);
  const output_attribution a = attribute_output(fa3, p, bias.o);
  const tensor_attribution named = by_name(a);
  double sum = 0;
  for (attributed_point const& point : named.points) sum += point.along_direction;
  CHECK(sum == Approx(a.along_direction).epsilon(1e-9));
  const call_reference reference(p, mask_of(fa3, p));
  const forward_result forward = attention_forward(fa3, p);
  double along = 0;
  for (std::int64_t h = 0; h < p.heads; ++h) {
    double of_head = 0, length = 0;
    for (std::int64_t i = 0; i < p.queries; ++i)
      for (std::int64_t c = 0; c < p.head_dim; ++c) {
        const auto at = std::size_t(p.query_strides().offset(0, h, i) + c);
        const double ulp = bias.o.columns[std::size_t(h * p.head_dim + c)].ulp, direction = to_double(p.d_o[at]) / ulp;
        of_head += to_double(double_double{to_double(forward.o[at]), 0} - reference.output(0, h)[std::size_t(i * p.head_dim + c)]) / ulp * direction;
        length += direction * direction;
      }
    along += of_head / std::sqrt(length * double(p.heads) * double(p.q.size()));
  }
  CHECK(named.along_direction == Approx(along).epsilon(1e-9));
  attention_problem without_d_o = p;
  without_d_o.d_o.clear();
  CHECK(attribute_output(fa3, without_d_o, bias.o).along_direction == 0);
}

TEST_CASE("gradient attribution: subnormals, large scores, ties, infinities and NaN, random calls", "[bias]") {
  for (const regime r : {regime::large_scores, regime::ties, regime::subnormal, regime::huge, regime::specials}) {
    std::int64_t counted = 0, left_out = 0;
    for (const char* name : {"fa3", "fa2-torch"})
      for (attention_problem const& p : random_calls(r, seed + 2, 3)) {
        INFO(name << " regime " << int(r) << " queries " << p.queries);
        const attention_schedule& schedule = attention_schedule_named(name);
        const gradient_bias bias = bias_of_gradients(schedule, p);
        const gradient_attribution a = attribute_gradients(schedule, p, bias);
        for (tensor_pair const& t : tensors_of(a, bias)) {
          check_sums(t, t.by_point.counted == t.whole.counted);
          CHECK(t.by_point.counted <= t.whole.counted);
          counted += t.by_point.counted, left_out += t.whole.counted - t.by_point.counted;
        }
      }
    fmt::print("regime {}: {} elements counted, {} of bias_of_gradients' left out, seed {:#x}\n", int(r), counted, left_out, seed + 2);
    CHECK(counted > 0);
  }
}

TEST_CASE("gradient attribution: both engines agree, whatever the number of threads", "[bias]") {
  std::mt19937_64 random(seed + 3);
  const attention_problem p = random_call(1, 2, 1, 20, 40, 64, true, regime::gauss, random);
  const attention_schedule& fa3 = attention_schedule_named("fa3");
  const gradient_bias bias = bias_of_gradients(fa3, p);
  const gradient_attribution fast = attribute_gradients(fa3, p, bias);
  const int threads = omp_get_max_threads();
  omp_set_num_threads(threads == 3 ? 2 : 3);
  const gradient_attribution slow = attribute_gradients(fa3, p, bias, engine::definition);
  omp_set_num_threads(threads);
  for (const member m : {&gradient_attribution::delta, &gradient_attribution::dp, &gradient_attribution::ds, &gradient_attribution::dq, &gradient_attribution::dk, &gradient_attribution::dv})
    for (std::size_t i = 0; i < (fast.*m).points.size(); ++i) {
      CHECK((fast.*m).points[i].mean_signed_error_ulp == (slow.*m).points[i].mean_signed_error_ulp);
      CHECK((fast.*m).points[i].without_along_direction == (slow.*m).points[i].without_along_direction);
    }
}

TEST_CASE("gradient attribution: points of each tensor, and where there is none", "[bias]") {
  std::mt19937_64 random(seed + 4);
  attention_problem p = random_call(1, 2, 2, 20, 20, 64, true, regime::gauss, random);
  const auto count = [&](const char* schedule, const char* tensor) { return backward_points_of(attention_schedule_named(schedule), p, tensor).size(); };
  CHECK(count("fa3", "delta") == 2);
  CHECK(count("fa3", "ds") == 9);
  CHECK(count("fa3", "dq") == 13);
  CHECK(count("cudnn", "dq") == 12);       // the scale is in dS
  CHECK(count("paper-v2", "dq") == 12);    // one chain
  CHECK(count("efficient", "ds") == 10);   // from the BF16 P
  CHECK(count("fa3", "dv") == 7);
  p.key_heads = 1;
  p.k.resize(p.k.size() / 2), p.v.resize(p.k.size());
  CHECK(count("fa3", "dv") == 8);
  CHECK_THROWS_AS(count("fa3", "o"), std::invalid_argument);
  const gradient_bias bias = bias_of_gradients(attention_schedule_named("fa3"), p);
  for (const char* name : {"fa3+fp32", "fa3+fp32-backward", "fa3+gproj", "fa3+k-smooth", "fa3+delta-pdp", "eager-bf16", "exact", "triton-m64-n64"})
    CHECK_THROWS_AS(attribute_gradients(schedule_of(name), p, bias), unsupported_call);
  CHECK_THROWS_AS(attribute_gradients(attention_schedule_named("fa3"), p, gradient_bias{}), std::invalid_argument);
  p.d_o.clear();
  CHECK_THROWS_AS(attribute_gradients(attention_schedule_named("fa3"), p, bias), std::invalid_argument);
}
