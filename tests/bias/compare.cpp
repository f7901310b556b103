#include "stickybit/bias/compare.hpp"

#include "support/catch.hpp"

using namespace stickybit;

namespace {

tensor bf16(std::vector<std::uint16_t> const& bits) { return make_tensor<std::uint16_t>(dtype::bf16, {std::int64_t(bits.size())}, bits); }

}  // namespace

TEST_CASE("compare: equal codes, distances in codes, signs, the first difference", "[bias][compare]") {
  const comparison same = compare(bf16({0x3f80, 0xbf80, 0x0000}), bf16({0x3f80, 0xbf80, 0x0000}));
  CHECK(same.mismatches == 0);
  CHECK(same.total == 3);
  CHECK(!same.first);

  const comparison c = compare(bf16({0x3f80, 0x3f81, 0xbf81, 0x0000, 0x3f80, 0x0001}), bf16({0x3f80, 0x3f80, 0xbf80, 0x8000, 0x4000, 0x8001}));
  CHECK(c.mismatches == 5);
  REQUIRE(c.first);
  CHECK(c.first->index == 1);
  CHECK(c.first->left == 0x3f81);
  CHECK(c.first->right == 0x3f80);
  CHECK(c.left_larger == 2);   // 1.0078125 > 1, and the smallest subnormal above minus itself
  CHECK(c.right_larger == 2);  // −1.0078125 < −1, and 1 < 2
  CHECK(c.ulp_histogram.at(1) == 1);
  CHECK(c.ulp_histogram.at(-1) == 1);
  CHECK(c.ulp_histogram.at(0) == 1);     // +0 and −0
  CHECK(c.ulp_histogram.at(2) == 1);     // across zero
  CHECK(c.ulp_histogram.at(-128) == 1);  // one binade
}

TEST_CASE("compare: a NaN equals any NaN, unless bits are asked for", "[bias][compare]") {
  const tensor l = bf16({0x7fff, 0xffc1, 0x7fff}), r = bf16({0x7fc0, 0x7fff, 0x3f80});
  CHECK(compare(l, r).mismatches == 1);
  CHECK(compare(l, r).nan_against_number == 1);
  CHECK(compare(l, r).ulp_histogram.empty());
  CHECK(compare(l, r, true).mismatches == 3);
  CHECK(compare(l, l, true).mismatches == 0);
  // Infinity is a number here: one code above the largest finite number.
  CHECK(compare(bf16({0x7f80}), bf16({0x7f7f})).ulp_histogram.at(1) == 1);
  const tensor e4m3 = make_tensor<std::uint8_t>(dtype::f8_e4m3, {1}, std::vector<std::uint8_t>{0x7f});
  const tensor e4m3_negative = make_tensor<std::uint8_t>(dtype::f8_e4m3, {1}, std::vector<std::uint8_t>{0xff});
  CHECK(compare(e4m3, e4m3_negative).mismatches == 0);
}

TEST_CASE("compare: other types or shapes are refused", "[bias][compare]") {
  const tensor f32 = make_tensor<std::uint32_t>(dtype::f32, {1}, std::vector<std::uint32_t>{0});
  CHECK_THROWS_AS(compare(f32, bf16({0})), std::invalid_argument);
  CHECK_THROWS_AS(compare(bf16({0, 0}), bf16({0})), std::invalid_argument);
}

TEST_CASE("compare: positions and codes in words", "[bias][compare]") {
  CHECK(position_text({4, 2, 64}, 0) == "[0, 0, 0]");
  CHECK(position_text({4, 2, 64}, 128 + 64 + 17) == "[1, 1, 17]");
  CHECK(code_text(dtype::bf16, 0x3f80) == "0x3F80 (1)");
  CHECK(code_text(dtype::f32, 0xbf000000) == "0xBF000000 (-0.5)");
  CHECK(code_text(dtype::f16, 0x3c00) == "0x3C00");
}
