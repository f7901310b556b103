// gemm_bits(): matrix products of every unit against evaluate(), element by element, and what it refuses.
#include <bit>
#include <cmath>
#include <vector>

#include "stickybit/block_fma/block_fma.hpp"
#include "stickybit/block_fma/evaluate.hpp"
#include "stickybit/gemm/operands.hpp"
#include "stickybit/machine/machine.hpp"
#include "stickybit/rounding/arithmetic.hpp"
#include "support/catch.hpp"
#include "support/generators.hpp"
#include "support/tally.hpp"

using namespace stickybit;

namespace {

/// Random codes of every operand; of FP64 numbers about 1.
struct problem_codes {
  std::int64_t m, n, k;
  std::vector<std::uint64_t> a, b, c, scale_a, scale_b;

  [[nodiscard]] gemm_bits_problem view() const { return {m, n, k, a, b, c, scale_a, scale_b}; }
};

std::uint64_t operand(testing::random_bits& next, format f) {
  if (f == format::f64) return std::bit_cast<std::uint64_t>(std::ldexp(double(next.between(-1000, 1000)), next.between(-40, 40)));
  const format_traits t = traits_of(f);
  return next.one_in(200) ? next() : std::uint64_t{next.below(t.largest_magnitude() / 2) + t.largest_magnitude() / 4} << t.padding_bits | (next() & 1) << (t.width_bits - 1);
}

problem_codes drawn(testing::random_bits& next, machine_unit const& u) {
  problem_codes p{next.between(1, 9), next.between(1, 20), next.between(1, 200), {}, {}, {}, {}, {}};
  const std::int64_t scales = u.scale_block == 0 ? 0 : (p.k + u.scale_block - 1) / u.scale_block;
  for (std::int64_t i = 0; i < p.m * p.k; ++i) p.a.push_back(operand(next, u.input));
  for (std::int64_t i = 0; i < p.n * p.k; ++i) p.b.push_back(operand(next, u.input_b));
  if (next.one_in(2))
    for (std::int64_t i = 0; i < p.m * p.n; ++i) p.c.push_back(u.output == format::f64 ? operand(next, format::f64) : testing::f32_at(next, next.between(-10, 10)));
  for (std::int64_t i = 0; i < p.m * scales; ++i) p.scale_a.push_back(std::uint64_t(u.scale == format::e8m0 ? next.between(120, 134) : next.between(0x28, 0x48)));
  for (std::int64_t i = 0; i < p.n * scales; ++i) p.scale_b.push_back(std::uint64_t(u.scale == format::e8m0 ? next.between(120, 134) : next.between(0x28, 0x48)));
  return p;
}

std::span<std::uint64_t const> part(std::vector<std::uint64_t> const& all, std::int64_t first, std::int64_t count) { return std::span(all).subspan(std::size_t(first), std::size_t(count)); }

/// Element (i, j): a chain for each slice, the slices added.
std::uint64_t element(machine_unit const& u, problem_codes const& p, int slices, std::int64_t i, std::int64_t j) {
  const std::vector<std::int64_t> at = split_boundaries(p.k, slices);
  const std::int64_t s = std::max(u.scale_block, 1), scales = u.scale_block == 0 ? 0 : (p.k + s - 1) / s;
  std::uint64_t sum = 0;
  for (std::size_t slice = 0; slice + 1 < at.size(); ++slice) {
    const std::int64_t k = at[slice], length = at[slice + 1] - k, count = scales == 0 ? 0 : (length + s - 1) / s;
    const std::uint64_t c = slice == 0 && !p.c.empty() ? p.c[std::size_t(i * p.n + j)] : 0;
    const std::uint64_t d = evaluate(u, {part(p.a, i * p.k + k, length), part(p.b, j * p.k + k, length), part(p.scale_a, i * scales + (count == 0 ? 0 : k / s), count),
                                         part(p.scale_b, j * scales + (count == 0 ? 0 : k / s), count), c});
    if (slice == 0) sum = d;
    else if (u.output == format::f64) sum = std::bit_cast<std::uint64_t>(std::bit_cast<double>(sum) + std::bit_cast<double>(d));
    else sum = add(f32_code::from_bits(std::uint32_t(sum)), f32_code::from_bits(std::uint32_t(d)), subnormals::kept).to_bits();
  }
  return sum;
}

}  // namespace

TEST_CASE("gemm_bits: every unit of every machine equals evaluate(), both engines, whole and in slices, sampled", "[gemm][sampled]") {
  constexpr std::uint64_t seed = 0x9e33;
  testing::random_bits next(seed);
  testing::tally all("gemm_bits, every unit, M 1 ... 9, N 1 ... 20, K 1 ... 200, 1 or 3 slices, against evaluate()", seed);
  for (machine const* m : all_machines())
    for (machine_unit const& u : m->units) {
      const problem_codes p = drawn(next, u);
      const int slices = next.one_in(2) ? 1 : 3;
      for (engine how : {engine::fast, engine::definition}) {
        const std::vector<std::uint64_t> d = gemm_bits(u, p.view(), slices, how);
        for (std::int64_t i = 0; i < p.m; ++i)
          for (std::int64_t j = 0; j < p.n; ++j) {
            const std::uint64_t expected = element(u, p, slices, i, j), got = d[std::size_t(i * p.n + j)];
            all.expect(got == expected, [&] { return fmt::format("{}, K {}, {} slices, ({}, {}): {:x}, not {:x}", u.name, p.k, slices, i, j, got, expected); });
          }
      }
    }
  all.check();
}

TEST_CASE("gemm_bits: codes of 1, 2, 4 and 8 bytes are the same operands", "[gemm]") {
  const std::vector<std::uint8_t> one{0x38, 0x40, 0xb8, 0x30};
  const std::vector<std::uint16_t> two(one.begin(), one.end());
  const std::vector<std::uint32_t> four(one.begin(), one.end());
  const std::vector<std::uint64_t> eight(one.begin(), one.end());
  std::vector<e4m3fn_code> typed;
  for (std::uint8_t x : one) typed.push_back(e4m3fn_code::from_bits(x));
  machine_unit const& u = unit_named("sm90.wgmma.e4m3.f32");
  const std::vector<std::uint64_t> d = gemm_bits(u, {2, 1, 2, one, code_array(one).from(2), {}, {}, {}});
  CHECK(d == std::vector<std::uint64_t>{0, 0x3fa00000});  // 1·(−1) + 2·0.5 and (−1)·(−1) + 0.5·0.5
  for (code_array a : {code_array(two), code_array(four), code_array(eight), code_array(typed)}) CHECK(gemm_bits(u, {2, 1, 2, a, a.from(2), {}, {}, {}}) == d);
}

TEST_CASE("gemm_bits: wrong shapes, missing scales and slices that cut an instruction throw shape_error", "[gemm]") {
  const std::vector<std::uint64_t> codes(256, 0x38), scales(2, 127);
  const machine_unit mx = unit_named("sm120.mma.mxe4m3.f32");
  CHECK(gemm_bits(mx, {1, 1, 64, code_array(codes).from(192), code_array(codes).from(192), {}, scales, scales}).size() == 1);
  CHECK_THROWS_AS(gemm_bits(mx, {1, 1, 64, code_array(codes).from(192), code_array(codes).from(192), {}, {}, scales}), shape_error);
  CHECK_THROWS_AS(gemm_bits(mx, {1, 1, 64, code_array(codes).from(191), code_array(codes).from(192), {}, scales, scales}), shape_error);
  CHECK_THROWS_AS(gemm_bits(unit_named("sm90.wgmma.e4m3.f32"), {1, 1, 64, code_array(codes).from(192), code_array(codes).from(192), {}, scales, scales}), shape_error);
  machine_unit wide = unit_named("sm90.mma.e4m3.f32");
  wide.order = product_order::ascending;
  wide.instruction_k = 128;
  CHECK_THROWS_AS(gemm_bits(wide, {1, 1, 256, codes, codes, {}, {}, {}}, 4), shape_error);
  CHECK_NOTHROW(gemm_bits(wide, {1, 1, 256, codes, codes, {}, {}, {}}, 2));
  CHECK_THROWS_AS(gemm(unit_named("sm90.wgmma.e4m3.f32"), gemm_problem{}), shape_error);
}

TEST_CASE("read_gemm_bits: scales as FP32 that is exact in E8M0, of the shape [lines, K/32]", "[gemm]") {
  machine_unit const& u = unit_named("sm100.tcgen05.mxe4m3.f32");
  const auto f32 = [](std::int64_t m, std::int64_t n, float x) {
    return make_tensor<f32_code>(dtype::f32, {m, n}, std::vector<f32_code>(std::size_t(m * n), f32_code::from_bits(std::bit_cast<std::uint32_t>(x))));
  };
  tensor_file file("mx.safetensors");
  file.add("a", f32(2, 40, 1.5f));
  file.add("b", f32(3, 40, 0.5f));
  file.add("scale_a", f32(2, 2, 4.0f));
  CHECK_THROWS_AS(read_gemm_bits(file, u), file_error);
  file.add("scale_b", f32(3, 2, 0.25f));
  const gemm_bits_operands g = read_gemm_bits(file, u);
  CHECK(g.scale_a == std::vector<std::uint64_t>(4, 129));
  CHECK(gemm_bits(u, g.problem()) == std::vector<std::uint64_t>(6, 0x41f00000));  // 40 · 0.75
  tensor_file wrong("mx.safetensors");
  wrong.add("a", f32(2, 40, 1.5f));
  wrong.add("b", f32(3, 40, 0.5f));
  wrong.add("scale_a", f32(2, 1, 4.0f));
  wrong.add("scale_b", f32(3, 2, 0.25f));
  CHECK_THROWS_AS(read_gemm_bits(wrong, u), file_error);
  CHECK_THROWS_AS(read_gemm_bits(file, unit_named("sm90.mma.f64.f64")), shape_error);
}
