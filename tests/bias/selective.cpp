// A forward pass with chosen rounding points: with all of them the kernel, with none the mathematical value, and each does something.
#include <cmath>
#include <numbers>
#include <random>

#include "stickybit/attention/exact_head.hpp"
#include "stickybit/attention/forward_probe.hpp"
#include "stickybit/bias/attribution.hpp"
#include "stickybit/exact/round_to.hpp"
#include "stickybit/format/value.hpp"
#include "support/catch.hpp"
#include "support/random_calls.hpp"
#include "support/recorded.hpp"
#include "support/tally.hpp"

using namespace stickybit;

namespace {

/// Schedules that go block by block and take this call.
std::vector<attention_schedule const*> schedules_for(attention_problem const& p) {
  std::vector<attention_schedule const*> found;
  for (attention_schedule const& schedule : all_attention_schedules()) try {
      selective_output takes_it(schedule, p);
      found.push_back(&schedule);
    } catch (unsupported_call const&) {
    }
  return found;
}

attention_problem random_call(std::int64_t queries, std::int64_t keys, std::int64_t d, bool causal, regime r, std::uint64_t seed) {
  attention_problem p;
  p.batch = 1;
  p.heads = 2;
  p.key_heads = 1;
  p.queries = queries;
  p.keys = keys;
  p.head_dim = d;
  p.causal = causal;
  p.call_heads = 400;  // enough blocks of queries that fa2 and fa2-torch do not split the keys; fa2-torch-splitkv does
  p.softmax_scale = 1 / std::sqrt(double(d));
  std::mt19937_64 random(seed);
  fill(p, r, random);
  return p;
}

std::vector<probed_row> every(std::int64_t step, attention_problem const& p) {
  std::vector<probed_row> rows;
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t head = 0; head < p.heads; ++head)
      for (std::int64_t row = 0; row < p.queries; row += step) rows.push_back({b, head, row});
  return rows;
}

/// With every point against the kernel's codes; a NaN equals a NaN.
void expect_kernel(testing::tally& codes, attention_schedule const& schedule, attention_problem const& p, forward_probe& probe) {
  const forward_result kernel = probe.run(schedule);
  selective_output o(schedule, p);
  std::size_t at = 0;
  for (probed_row r : probe.rows())
    for (double_double all : o.row(r.batch, r.head, r.row, rounding_points::all())) {
      const auto mine = round_to<format::bf16>(all), theirs = kernel.o[at++];
      const bool both_nan = mine.is_nan() && theirs.is_nan();
      codes.expect(both_nan || (mine == theirs && to_double(mine) == all.hi && all.lo == 0),
                   [&, at] { return fmt::format("{} head {} row {} element {}: {} for {}", schedule.name, r.head, r.row, at - 1, all.hi, to_double(theirs)); });
    }
}

/// With every point but the last cast against the kernel's O in FP32: BF16 hides most of what the row sum does.
void expect_kernel_in_f32(testing::tally& codes, attention_schedule const& schedule, attention_problem const& p, std::int64_t step) {
  selective_output o(schedule, p);
  for (probed_row r : every(step, p)) {
    const forward_row_trace kernel = trace_forward_row(schedule, p, r.batch, r.head, r.row);
    const auto mine = o.row(r.batch, r.head, r.row, rounding_points::all().without(rounding_point::o_cast));
    for (std::size_t j = 0; j < kernel.ready.o.size(); ++j) {
      const double theirs = to_double(kernel.ready.o[j]);
      codes.expect((std::isnan(theirs) && std::isnan(mine[j].hi)) || mine[j] == double_double{theirs, 0},
                   [&] { return fmt::format("{} head {} row {} column {}: {:a} for {:a}", schedule.name, r.head, r.row, j, mine[j].hi, theirs); });
    }
  }
}

}  // namespace

TEST_CASE("selective output: with every point the kernel's O, recorded calls, every schedule that goes block by block", "[bias][golden]") {
  for (const char* name : {"ties_s384_d64_c0.safetensors", "gauss_s64_d128_c1.safetensors", "one_b1_q1_k200_h2x2_d64_c0.safetensors"}) {
    testing::tally codes(name);
    const attention_problem p = read_problem(golden(name));
    forward_probe probe(p, every(7, p));
    for (attention_schedule const* schedule : schedules_for(p)) expect_kernel(codes, *schedule, p, probe);
    codes.check();
  }
}

TEST_CASE("selective output: with every point the kernel's O, random calls", "[bias]") {
  for (regime r : {regime::gauss, regime::large_scores, regime::ties, regime::subnormal, regime::huge, regime::specials}) {
    testing::tally codes("regime " + std::to_string(int(r)), 11);
    std::size_t most = 0;
    for (bool causal : {false, true})
      for (const auto& [queries, keys, d] : {std::tuple{150, 401, 64}, {128, 384, 128}, {33, 7, 64}}) {
        const attention_problem p = random_call(queries, keys, d, causal, r, 11);
        const auto schedules = schedules_for(p);
        most = std::max(most, schedules.size());
        forward_probe probe(p, every(47, p));
        for (attention_schedule const* schedule : schedules) expect_kernel(codes, *schedule, p, probe);
      }
    CHECK(most >= 5);
    codes.check();
  }
}

TEST_CASE("selective output: with every point but the last cast the kernel's O in FP32", "[bias]") {
  for (regime numbers : {regime::gauss, regime::large_scores, regime::subnormal}) {
    testing::tally codes("FP32 O, regime " + std::to_string(int(numbers)), 13);
    for (bool causal : {false, true}) {
      const attention_problem p = random_call(128, 640, 64, causal, numbers, 13);
      for (attention_schedule const* schedule : schedules_for(p)) expect_kernel_in_f32(codes, *schedule, p, 60);
    }
    codes.check();
  }
}

TEST_CASE("selective output: with no point the mathematical value", "[bias]") {
  for (regime numbers : {regime::gauss, regime::large_scores, regime::ties}) {
    testing::tally elements("within 2^-80 of the largest |V|, regime " + std::to_string(int(numbers)), 5);
    const attention_problem p = random_call(150, 401, 64, true, numbers, 5);
    double largest = 0;
    for (bf16_code v : p.v) largest = std::max(largest, std::fabs(to_double(v)));
    for (attention_schedule const* schedule : schedules_for(p)) {
      selective_output o(*schedule, p);
      for (probed_row r : every(37, p)) {
        const exact_rows exact = exact_head(p, mask_of(*schedule, p), r.batch, r.head).evaluate(std::size_t(r.row), 1);
        if (exact.without_keys[0] != 0) continue;
        const auto none = o.row(r.batch, r.head, r.row, rounding_points::none());
        for (std::size_t j = 0; j < none.size(); ++j)
          elements.expect(std::fabs(to_double(none[j] - exact.o[j])) <= 0x1p-80 * largest,
                          [&] { return fmt::format("{} head {} row {} column {}: {:g} off", schedule->name, r.head, r.row, j, to_double(none[j] - exact.o[j])); });
      }
    }
    elements.check();
  }
}

TEST_CASE("selective output: the chain on wider operands is the unit's where they happen to fit", "[bias]") {
  using enum rounding_point;
  // Scores are whole numbers and the scale is ln 2, which makes L = 1: weights and rescale factors are powers of two. P fits
  // BF16 without a cast, and O times the factor FP32 where it is not subnormal.
  std::mt19937_64 random(17);
  for (const char* name : {"fa3", "fa2"})
    for (double spread : {1.0, 0x1p-120, 0x1p-126, 0x1p-131, 0x1p60}) {
      attention_problem p = random_call(4, 450, 64, false, regime::gauss, 17);
      p.softmax_scale = std::numbers::ln2;
      p.v = random_codes(p.v.size(), spread, random);
      std::ranges::fill(p.q, bf16_code::zero());
      std::ranges::fill(p.k, bf16_code::zero());
      for (std::size_t i = 0; i < p.q.size(); i += 64) p.q[i] = bf16_code::from_bits(0x3f80);
      for (std::size_t i = 0; i < p.k.size(); i += 64) p.k[i] = convert<format::bf16>(code_of(float(std::int64_t(random() % 24) - std::int64_t(i / 64 / 16))));
      attention_schedule const& schedule = attention_schedule_named(name);
      selective_output o(schedule, p);
      testing::tally elements(fmt::format("{}, V around {:g}", name, spread), 17);
      const rounding_points chain = rounding_points::all().without(o_cast).without(inverse);  // whose `.ftz` would hide subnormal sums
      for (probed_row r : every(1, p)) {
        const auto unit = o.row(r.batch, r.head, r.row, chain);
        for (rounding_point wide : {p_cast, rescale}) {
          if (wide == rescale && spread < 1) continue;
          const auto other = o.row(r.batch, r.head, r.row, chain.without(wide));
          for (std::size_t j = 0; j < unit.size(); ++j)
            elements.expect(unit[j] == other[j], [&] { return fmt::format("row {} column {}: {:a} for {:a}", r.row, j, other[j].hi, unit[j].hi); });
        }
      }
      elements.check();
    }
}

TEST_CASE("selective output: MUFU alone errs by MUFU's own error, whatever the argument", "[bias]") {
  using enum rounding_point;
  // V is 0 at the largest score and 1 at the other key, so O is that key's weight over the sum. An argument of -60 loses 2^-19 of
  // its weight when it becomes FP32: that is not the exponential's.
  testing::tally rows("weights within 2^-22.7, inverses within 2^-23.2, 2^-60 < weight < 1; 400 queries, seed 0x17");
  attention_problem p = random_call(400, 2, 64, false, regime::gauss, 0x17);
  p.heads = 1;
  p.q.resize(400 * 64);
  std::ranges::fill(p.k, bf16_code::zero());
  p.k[64] = bf16_code::from_bits(0xbf80);  // scores 0 and -q[0]
  std::mt19937_64 random(0x17);
  for (std::size_t i = 0; i < p.q.size(); i += 64) p.q[i] = convert<format::bf16>(code_of(float(random() % 4000) / 12 + 0.1f));
  std::fill_n(p.v.begin(), 64, bf16_code::zero());
  std::fill_n(p.v.begin() + 64, 64, bf16_code::from_bits(0x3f80));
  for (const char* name : {"fa3", "cudnn", "fa2-torch"}) {
    selective_output o(attention_schedule_named(name), p);
    for (std::int64_t row = 0; row < p.queries; ++row)
      for (const auto& [point, bound] : {std::pair{exp2, std::exp2(-22.7)}, {inverse, std::exp2(-23.2) + 0x1p-24}}) {
        const double_double none = o.row(0, 0, row, rounding_points::none())[0], one = o.row(0, 0, row, rounding_points::none().with(point))[0];
        const double relative = to_double((one - none) / none);
        rows.expect(std::fabs(relative) <= bound, [&, n = name, at = point] { return fmt::format("{} row {}, {} alone: {:g}", n, row, name_of(at), relative); });
      }
  }
  rows.check();
}

TEST_CASE("selective output: every point of a schedule does something, alone and as the last one left out", "[bias]") {
  using enum rounding_point;
  const attention_problem p = random_call(256, 512, 64, false, regime::gauss, 29);
  for (attention_schedule const* schedule : schedules_for(p)) {
    selective_output o(*schedule, p);
    for (rounding_point point : rounding_points_of(*schedule, p)) {
      INFO(schedule->name << ", " << name_of(point));
      int alone = 0, without = 0;
      // Without the casts of O the other points can be seen.
      const rounding_points before_cast = rounding_points::all().without(o_cast).without(o_bar_cast);
      for (probed_row r : every(32, p)) {
        alone += o.row(r.batch, r.head, r.row, rounding_points::none()) != o.row(r.batch, r.head, r.row, rounding_points::none().with(point));
        const rounding_points with = before_cast.with(point);
        without += o.row(r.batch, r.head, r.row, with) != o.row(r.batch, r.head, r.row, with.without(point));
      }
      // One block of keys, of the call or of each part, leaves nothing to rescale.
      const bool one_block = schedule->name == "fa2-torch-splitkv" || schedule->forward_tiles[0].key_columns == 0, idle = point == rescale && one_block;
      CHECK((alone > 0) == !idle);
      CHECK((without > 0) == !idle);
    }
  }
}
