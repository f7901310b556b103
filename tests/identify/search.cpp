// The schedule search, blind: recorded kernels, and random points of the space from emulated outputs alone.
#include <fmt/format.h>

#include <random>

#include "stickybit/attention/forward.hpp"
#include "stickybit/identify/attention_search.hpp"
#include "support/catch.hpp"
#include "support/random_calls.hpp"
#include "support/recorded.hpp"

using namespace stickybit;

namespace {

captured_forward captured_by(tensor_file const& file, std::string const& producer) {
  return {file.require(producer + ".o", dtype::bf16).elements<bf16_code>(), file.require(producer + ".lse", dtype::f32).elements<f32_code>()};
}

void rediscover(std::string const& producer, std::string const& expected_block) {
  const tensor_file file = golden("ties_s384_d64_c0.safetensors");
  const attention_problem problem = read_problem(file);
  const schedule_space space(problem);
  const search_result r = search_attention(space, problem, captured_by(file, producer));
  INFO(producer << "\n" << space.describe(r.point));
  CHECK(r.mismatches == 0);
  CHECK(r.total == 384 * 2 * 64 + 384 * 2);
  CHECK(space.axes()[space.axis("key block")].values[r.point[space.axis("key block")]] == expected_block);
}

}  // namespace

TEST_CASE("identify: a blind search finds FlashAttention-3 from its recorded O and LSE", "[identify][golden]") { rediscover("fa3", "192"); }
TEST_CASE("identify: a blind search finds PyTorch's FlashAttention-2", "[identify][golden]") { rediscover("fa2_torch", "128"); }
TEST_CASE("identify: a blind search finds PyTorch's split keys", "[identify][golden]") { rediscover("fa2_torch_splitkv", "256"); }
TEST_CASE("identify: a blind search finds cuDNN's attention", "[identify][golden]") { rediscover("cudnn", "128"); }

TEST_CASE("identify: named schedules are told apart", "[identify][golden]") {
  const tensor_file file = golden("ties_s384_d64_c0.safetensors");
  const attention_problem problem = read_problem(file);
  for (auto const& [producer, schedule] : {std::pair{"fa3", "fa3"}, std::pair{"cudnn", "cudnn"}}) {
    for (named_fit const& fit : fit_named_schedules(problem, captured_by(file, producer))) {
      INFO(producer << " by " << fit.schedule);
      CHECK(fit.total > 0);
      CHECK((fit.mismatches == 0) == (fit.schedule == schedule));
      CHECK(fit.first.empty() == (fit.mismatches == 0));
    }
  }
}

namespace {

/// How many of so many random points are recovered from their outputs alone (or an equivalent is named).
int recovered_points(std::uint64_t seed, int points) {
  std::mt19937_64 random(seed);
  attention_problem problem;
  problem.queries = 40;
  problem.keys = 136;
  problem.head_dim = 64;
  problem.causal = true;
  problem.softmax_scale = 0.37;  // here the forms of L and of LSE give different bits
  fill(problem, regime::gauss, random);
  for (bf16_code& c : problem.q) c = convert<format::bf16>(code_of(to_float(widen(c)) * 3));
  const schedule_space space(problem);
  int recovered = 0;
  for (int i = 0; i < points; ++i) {
    schedule_point point(space.axes().size());
    for (std::size_t axis = 0; axis < point.size(); ++axis) point[axis] = random() % space.axes()[axis].values.size();
    const forward_result outputs = attention_forward(space.make(point), problem);
    const search_result r = search_attention(space, problem, {outputs.o, outputs.lse}, {}, random());
    recovered += r.mismatches == 0;
    std::cout << fmt::format("point {}: {} mismatches of {}, {} tried\n", i, r.mismatches, r.total, r.schedules_tried);
    if (r.mismatches != 0) std::cout << "  sought\n" << space.describe(point) << "  found\n" << space.describe(r.point);
  }
  std::cout << recovered << " of " << points << ", seed " << seed << "\n";
  return recovered;
}

}  // namespace

TEST_CASE("identify: random points of the space are recovered from their outputs, 3 of 4 at least", "[identify][sampled]") { CHECK(recovered_points(7, 4) >= 3); }
TEST_CASE("identify: random points of the space are recovered from their outputs, 18 of 20 at least", "[.long][identify]") { CHECK(recovered_points(2026, 20) >= 18); }
