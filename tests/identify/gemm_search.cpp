// Orders of additions of matrix products: named from outputs alone. Synthetic ones of the whole space, others outside of it, and what libraries gave on an H200.
#include <fmt/format.h>

#include <numeric>
#include <iostream>

#include "stickybit/block_fma/block_fma.hpp"
#include "stickybit/identify/gemm_search.hpp"
#include "stickybit/rounding/convert.hpp"
#include "support/catch.hpp"
#include "support/generators.hpp"
#include "support/synthetic_products.hpp"

using namespace stickybit;
using testing::random_bits;

namespace {

bool fits_hold(gemm_search_result const& r, gemm_order const& truth, format output) {
  return std::any_of(r.fits.begin(), r.fits.end(), [&](gemm_search_result::fit const& f) { return text_of(f.order, output) == text_of(truth, output); });
}

struct synthetic_counts {
  int named = 0, undecided = 0, wrong = 0;
};

void search_one(captured_product const& p, gemm_order const& truth, synthetic_counts& counts) {
  const gemm_search_result r = search_gemm(p);
  const bool held = fits_hold(r, truth, p.output);
  if (!held && !r.fits.empty())
    std::cout << fmt::format("  {} called {} ({} groups)\n", text_of(truth, p.output), text_of(r.fits.front().order, p.output), r.groups());
  if (r.fits.empty()) std::cout << fmt::format("  not found: {} K={}\n", text_of(truth, p.output), p.k);
  if (r.named() && held) ++counts.named;
  else if (r.named()) ++counts.wrong;
  else ++counts.undecided;
}

}  // namespace

TEST_CASE("gemm search: random orders of the space are named from FP32 outputs alone", "[identify]") {
  random_bits next(11);
  synthetic_counts counts;
  const int cases = 45;
  for (int i = 0; i < cases; ++i) {
    const std::int64_t k = std::array<std::int64_t, 5>{96, 256, 520, 768, 1000}[next.below(5)];
    captured_product p = random_product(next, std::array{format::bf16, format::bf16, format::f16, format::tf32}[next.below(4)], format::f32, 9, 9, k);
    const gemm_order truth = random_order(next, p);
    compute(p, truth);
    search_one(p, truth, counts);
  }
  std::cout << fmt::format("{} cases, seed 11: {} named, {} not, {} wrong\n", cases, counts.named, counts.undecided, counts.wrong);
  CHECK(counts.wrong == 0);
  CHECK(counts.named >= cases * 95 / 100);
}

TEST_CASE("gemm search: random orders of the space are named from BF16 and FP16 outputs alone", "[identify]") {
  random_bits next(12);
  synthetic_counts counts;
  const int cases = 40;
  for (int i = 0; i < cases; ++i) {
    const std::int64_t k = std::array<std::int64_t, 3>{256, 512, 1000}[next.below(3)];
    const format input = next.one_in(2) ? format::bf16 : format::f16;
    captured_product p = random_product(next, input, input, 10, 10, k);
    const gemm_order truth = random_order(next, p);
    compute(p, truth);
    search_one(p, truth, counts);
  }
  std::cout << fmt::format("{} cases, seed 12: {} named, {} not, {} wrong\n", cases, counts.named, counts.undecided, counts.wrong);
  CHECK(counts.wrong == 0);
  CHECK(counts.named >= cases * 80 / 100);  // partial sums in BF16 leave many orders equal
}

TEST_CASE("gemm search: orders outside the space are unknown, never another's name", "[identify]") {
  random_bits next(13);
  int unknown = 0;
  const int cases = 24;
  for (int i = 0; i < cases; ++i) {
    captured_product p = random_product(next, format::bf16, next.one_in(2) ? format::f32 : format::bf16, 10, 10, 384);
    const int kind = i % 4;
    gemm_order order{.unit = "sm90.wgmma.bf16.f32", .operands = {}, .cuts = {0, p.k}, .stream = {}};
    if (kind == 0) order.unit = "sm80.mma.bf16.f32";  // a machine that the file does not name
    if (kind == 1) order.cuts = {0, 48, 64, 160, 208, 352, p.k};
    compute(p, order, kind == 2 ? shuffled_blocks(next, p.k, 16) : kind == 3 ? shuffled_blocks(next, p.k, 2) : std::vector<std::size_t>{});
    const gemm_search_result r = search_gemm(p);
    if (r.fits.empty()) ++unknown;
    else std::cout << fmt::format("  kind {} called {}\n", kind, text_of(r.fits.front().order, p.output));
    CHECK(r.closest.has_value());
    CHECK(r.closest_mismatches > 0);
  }
  std::cout << fmt::format("{} of {} cases unknown, seed 13\n", unknown, cases);
  CHECK(unknown == cases);
}

TEST_CASE("gemm search: C first in the chain, or added last", "[identify]") {
  random_bits next(14);
  for (bool first : {false, true}) {
    captured_product p = random_product(next, format::bf16, format::f32, 8, 8, 256);
    p.c.resize(64);
    for (f32_code& c : p.c) c = f32_code::from_bits(0x3f800000u + std::uint32_t(next() & 0x807fffffu));
    gemm_order truth{.unit = "sm90.wgmma.bf16.f32", .operands = {}, .cuts = {0, 128, 256}, .stream = {}};
    truth.c_first = first;
    compute(p, truth);
    const gemm_search_result r = search_gemm(p);
    CHECK(r.named());
    CHECK(fits_hold(r, truth, p.output));
    for (gemm_search_result::fit const& f : r.fits) CHECK(f.order.c_first == first);
  }
}

TEST_CASE("gemm search: hard operands, which the fast chains leave to the definition, are searched too", "[identify]") {
  random_bits next(15);
  for (int kind = 0; kind < 4; ++kind) {
    captured_product p = random_product(next, format::bf16, format::f32, 8, 8, 128);
    for (int i = 0; i < 6; ++i) p.a[next.below(8 * 128)] = std::array<std::uint32_t, 4>{0x7f80, 0xffc0, 0x0001, 0x7f7f}[std::size_t(kind)];
    const gemm_order truth{.unit = "sm90.wgmma.bf16.f32", .operands = {}, .cuts = {0, 64, 128}, .stream = {}};
    compute(p, truth);
    const gemm_search_result r = search_gemm(p);
    CHECK(r.named());
    CHECK(fits_hold(r, truth, p.output));
  }
}

TEST_CASE("gemm order: words hold or contradict", "[identify]") {
  gemm_order o{.unit = "sm90.wgmma.bf16.f32", .operands = {}, .cuts = {0, 128, 256, 300}, .stream = {}};
  CHECK(text_of(o, format::bf16) == "unit=sm90.wgmma.bf16.f32 slices=3 cuts=0,128,256,300 partial=f32 combine=ascending output=bf16");
  CHECK_FALSE(contradiction(o, format::bf16, text_of(o, format::bf16)));
  CHECK_FALSE(contradiction(o, format::bf16, "unit=sm90.mma.bf16.f32 split_k=4"));
  CHECK(contradiction(o, format::bf16, "slices=3 partial=bf16") == "partial=bf16");
  CHECK(contradiction(o, format::bf16, "split_k=2") == "split_k=2");
  CHECK(contradiction(o, format::bf16, "unit=sm90.mma.bf16k8.f32") == "unit=sm90.mma.bf16k8.f32");
  CHECK_THROWS_AS(contradiction(o, format::bf16, "colour=red"), std::invalid_argument);
}

TEST_CASE("gemm order: stream-K cuts tiles where shares end", "[identify]") {
  const gemm_order o{.unit = "sm90.wgmma.bf16.f32", .operands = {}, .cuts = {}, .stream = stream_cuts{3, 64, 64, 64, false}};
  CHECK(cuts_at(o, 256, {0, 0, 128, 128}) == std::vector<std::int64_t>{0, 192, 256});
  CHECK(cuts_at(o, 256, {0, 64, 128, 128}) == std::vector<std::int64_t>{0, 128, 256});
  CHECK(cuts_at(o, 256, {64, 0, 128, 128}) == std::vector<std::int64_t>{0, 64, 256});
  CHECK(cuts_at(o, 256, {64, 64, 128, 128}) == std::vector<std::int64_t>{0, 192, 256});
}
