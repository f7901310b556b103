// Inner products whose results are known from an H200, or worked out by hand.
#include "oracle/block.hpp"
#include "probes.hpp"
#include "stickybit/format/text.hpp"
#include "support/catch.hpp"
#include "support/tally.hpp"
#include "units.hpp"

using namespace stickybit;

namespace {

void check_all(char const* domain, std::span<testing::probe const> probes) {
  testing::tally all(domain);
  for (testing::probe const& k : probes) {
    const testing::block_case operands{k.a, k.b, k.c};
    for (char const* unit : {"sm90.mma.bf16.f32", "sm90.wgmma.bf16.f32"}) {
      const std::uint32_t got = testing::block(unit_named(unit), operands);
      all.expect(got == k.result, [&] { return fmt::format("{}: {}", k.what, testing::in_words(operands, got, k.result)); });
    }
    all.expect(oracle::block<oracle::rational>({}, k.a, k.b, k.c) == k.result, [&] { return fmt::format("the oracle on {}", k.what); });
  }
  all.check();
}

}  // namespace

TEST_CASE("block_fma on sm90: every single probe equals the H200, and the oracle agrees", "[block_fma][golden]") {
  check_all("single probes of mma.sync bf16 on an H200", testing::h200_probes());
}
TEST_CASE("block_fma on sm90: examples worked out by hand, and the oracle agrees", "[block_fma][golden]") {
  check_all("worked examples", testing::worked_examples());
}

TEST_CASE("block_fma on sm90: 1 + 4 x 2^-25 is 1 + 2^-23, where 24 fraction bits give 1", "[block_fma][golden]") {
  testing::block_case k{};
  k.c = 0x3f800000;
  for (std::size_t i = 0; i < 4; ++i) {  // 2^-12 x 2^-13
    k.a[i] = 0x3980;
    k.b[i] = 0x3900;
  }
  CHECK(decimal(f32_code::from_bits(testing::block(testing::hopper(), k))) == "1.0000001192092896");
  CHECK(testing::block(testing::hopper(), k) == 0x3f800001);
  CHECK(testing::block(testing::with_fraction_bits(24), k) == 0x3f800000);
  // As 1 x 1 + four products with c = 0: the same.
  k.c = 0;
  k.a[15] = k.b[15] = 0x3f80;
  CHECK(testing::block(testing::hopper(), k) == 0x3f800001);
}

TEST_CASE("inner_product on sm90: 16 blocks that add 1.5 x 2^-24 to 1 leave 1, nearest_even adds 16 ulp", "[block_fma][golden]") {
  std::vector<std::uint16_t> a(256), b(256);
  for (std::size_t k = 0; k < 256; k += 16) {  // 1.5 x 2^-24
    a[k] = 0x3fc0;
    b[k] = 0x3380;
  }
  CHECK(testing::inner_product(testing::hopper(), a, b, 0x3f800000) == 0x3f800000);
  CHECK(testing::inner_product(testing::with_rounding(rounding::nearest_even), a, b, 0x3f800000) == 0x3f800010);
}

TEST_CASE("block_fma on sm90: 2^24 + 1 - 2^24 is 1 in one block and 0 over two", "[block_fma][golden]") {
  std::vector<std::uint16_t> a(32), b(32, 0x3f80);
  a[0] = 0x4b80;
  a[1] = 0x3f80;
  a[2] = 0xcb80;
  CHECK(testing::inner_product(testing::hopper(), a, b, 0) == 0x3f800000);
  a[2] = 0;
  a[16] = 0xcb80;
  CHECK(testing::inner_product(testing::hopper(), a, b, 0) == 0x00000000);
}

TEST_CASE("block_fma on sm90: a product below the quantum is dropped, not rounded", "[block_fma][golden]") {
  testing::block_case k{};
  k.a[0] = k.b[0] = 0x3f80;
  for (std::size_t i = 1; i < 16; ++i) {  // 15 products just below 2^-25, each cut to 0
    k.a[i] = 0x39ff;
    k.b[i] = 0x387f;
  }
  CHECK(testing::block(testing::hopper(), k) == 0x3f800000);
}

TEST_CASE("block_fma: operands that do not fill a block throw shape_error", "[block_fma]") {
  const std::vector<bf16_code> a(16), b(15), c(33);
  const auto call = [](machine_unit const& unit, std::span<bf16_code const> x, std::span<bf16_code const> y) { return block_fma<format::bf16>(unit, x, y, f32_code{}); };
  CHECK_THROWS_AS(call(testing::hopper(), a, b), shape_error);
  CHECK_THROWS_AS(call(testing::hopper(), b, a), shape_error);
  CHECK_THROWS_AS(call(testing::with_block_size(8), a, a), shape_error);
  CHECK_THROWS_AS(call(testing::with_block_size(33), c, c), shape_error);
  CHECK_THROWS_AS((inner_product<format::bf16>(testing::hopper(), std::span<bf16_code const>(a), std::span<bf16_code const>(b), f32_code{})), shape_error);
  CHECK_NOTHROW(call(testing::hopper(), a, a));
}
