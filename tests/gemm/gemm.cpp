// Matrix products as cuBLAS computed them on an H200, and the fast engine against the definitions.
#include "stickybit/gemm/gemm.hpp"

#include <random>

#include "stickybit/block_fma/block_fma.hpp"
#include "stickybit/gemm/operands.hpp"
#include "stickybit/machine/machine.hpp"
#include "support/catch.hpp"
#include "support/random_calls.hpp"
#include "support/recorded.hpp"

using namespace stickybit;

namespace {

machine_unit const& unit() { return unit_named("sm90.wgmma.bf16.f32"); }

template <class Code>
std::int64_t differing(std::vector<Code> const& x, std::vector<Code> const& y) {
  std::int64_t n = x.size() != y.size();
  for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i) n += x[i] != y[i];
  return n;
}

}  // namespace

TEST_CASE("gemm: equals the recorded product, FP32 and BF16 output, both engines", "[gemm][golden]") {
  const tensor_file file = golden("gemm_128_128_64.safetensors");
  const gemm_operands operands = read_gemm_operands(file);
  for (engine how : {engine::fast, engine::definition}) {
    const auto d = gemm(unit(), operands.problem(), 1, how);
    CHECK(differing(d, file.require("torch.d_f32", dtype::f32).elements<f32_code>()) == 0);
    CHECK(differing(to_bf16(d), file.require("torch.d_bf16", dtype::bf16).elements<bf16_code>()) == 0);
  }
}

TEST_CASE("gemm: a changed unit does not equal the recorded product", "[gemm][golden]") {
  const tensor_file file = golden("gemm_128_128_64.safetensors");
  const gemm_operands operands = read_gemm_operands(file);
  const auto recorded = file.require("torch.d_f32", dtype::f32).elements<f32_code>();
  const auto mismatches = [&](auto change) {
    machine_unit changed = unit();
    change(changed);
    return differing(gemm(changed, operands.problem()), recorded);
  };
  CHECK(mismatches([](machine_unit&) {}) == 0);
  CHECK(mismatches([](machine_unit& u) { u.alignment_fraction_bits = 24; }) > 100);
  CHECK(mismatches([](machine_unit& u) { u.alignment_fraction_bits = 26; }) > 100);
  CHECK(mismatches([](machine_unit& u) { u.output_rounding = rounding::nearest_even; }) > 100);
  CHECK(mismatches([](machine_unit& u) { u.accumulator = accumulator_place::added_last; }) > 100);
}

TEST_CASE("gemm: K is cut at multiples of 64, evenly rounded up", "[gemm]") {
  using boundaries = std::vector<std::int64_t>;
  CHECK(split_boundaries(4096, 3) == boundaries{0, 1408, 2816, 4096});
  CHECK(split_boundaries(4096, 1) == boundaries{0, 4096});
  CHECK(split_boundaries(64, 16) == boundaries{0, 64});
  CHECK(split_boundaries(1000, 4) == boundaries{0, 256, 512, 768, 1000});
  CHECK(split_boundaries(640, 7) == boundaries{0, 128, 256, 384, 512, 640});
  CHECK(split_boundaries(0, 3) == boundaries{0, 0});
}

TEST_CASE("gemm: equals a chain of block_fma for every element, slices added in order", "[gemm][sampled]") {
  constexpr std::uint64_t seed = 11;
  std::mt19937_64 random(seed);
  for (int repeat = 0; repeat < 40; ++repeat) {
    gemm_problem p{.m = 1 + std::int64_t(random() % 9), .n = 1 + std::int64_t(random() % 40), .k = 1 + std::int64_t(random() % 300), .a = {}, .b = {}, .c = {}};
    const bool any = repeat % 4 == 3;
    const auto codes = [&](std::int64_t count) {
      auto made = random_codes(std::size_t(count), repeat % 4 == 2 ? 0x1p-60 : 1, random);
      if (any)
        for (bf16_code& c : made) c = bf16_code::from_bits(std::uint16_t(random()));
      return made;
    };
    const auto a = codes(p.m * p.k), b = codes(p.n * p.k);
    std::vector<f32_code> c;
    if (repeat % 2 == 0)
      for (std::int64_t i = 0; i < p.m * p.n; ++i) c.push_back(any ? f32_code::from_bits(std::uint32_t(random())) : code_of(float(random() % 1000) / 7));
    p.a = a;
    p.b = b;
    p.c = c;
    const int slices = 1 + int(random() % 4);
    const auto boundaries = split_boundaries(p.k, slices);
    std::vector<f32_code> expected;
    for (std::int64_t i = 0; i < p.m; ++i)
      for (std::int64_t j = 0; j < p.n; ++j) {
        f32_code sum = c.empty() ? f32_code::zero() : c[std::size_t(i * p.n + j)];
        for (std::size_t s = 0; s + 1 < boundaries.size(); ++s) {
          const auto length = std::size_t(boundaries[s + 1] - boundaries[s]);
          const auto chain = inner_product<format::bf16>(unit(), p.a.subspan(std::size_t(i * p.k + boundaries[s]), length),
                                                         p.b.subspan(std::size_t(j * p.k + boundaries[s]), length), s == 0 ? sum : f32_code::zero());
          sum = s == 0 ? chain : add(sum, chain, subnormals::kept);
        }
        expected.push_back(sum);
      }
    INFO("case " << repeat << " of seed " << seed << ": " << p.m << " x " << p.n << " x " << p.k << ", " << slices << " slices");
    CHECK(differing(gemm(unit(), p, slices, engine::fast), expected) == 0);
    CHECK(differing(gemm(unit(), p, slices, engine::definition), expected) == 0);
  }
}

TEST_CASE("gemm: sizes that do not go together are refused", "[gemm]") {
  const std::vector<bf16_code> a(6), b(6);
  CHECK_THROWS_AS(gemm(unit(), {.m = 2, .n = 2, .k = 4, .a = a, .b = b, .c = {}}), shape_error);
  CHECK_THROWS_AS(gemm(unit(), {.m = 2, .n = 2, .k = 3, .a = a, .b = b, .c = {}}, 0), shape_error);
  CHECK_THROWS_AS(gemm(unit(), {.m = -2, .n = -2, .k = -3, .a = a, .b = b, .c = {}}), shape_error);
  CHECK(gemm(unit(), {.m = 2, .n = 2, .k = 3, .a = a, .b = b, .c = {}}).size() == 4);
  CHECK(gemm(unit(), {.m = 0, .n = 2, .k = 3, .a = {}, .b = b, .c = {}}).empty());
}

TEST_CASE("gemm: what a progress throws ends the computation and comes out of it, both engines", "[gemm]") {
  const tensor_file file = golden("gemm_128_128_64.safetensors");
  const gemm_operands operands = read_gemm_operands(file);
  for (engine how : {engine::fast, engine::definition}) {
    std::int64_t told = 0;
    const progress stops = [&](std::int64_t done, std::int64_t total) {
      told = done;
      if (done < total) throw std::runtime_error("enough");
    };
    CHECK_THROWS_WITH(static_cast<void>(gemm(unit(), operands.problem(), 1, how, stops)), "enough");
    CHECK(told < operands.m);
  }
}
