// Golden accounts: what explain says of an operation, and that it says it of the bits the operation gives.
#include <fmt/format.h>

#include "stickybit/block_fma/block_fma.hpp"
#include "stickybit/explain/add.hpp"
#include "stickybit/explain/dot.hpp"
#include "stickybit/format/text.hpp"
#include "stickybit/machine/machine.hpp"
#include "support/catch.hpp"
#include "support/recorded.hpp"

using namespace stickybit;
using Catch::Matchers::Contains;

namespace {

std::string add_text(std::vector<const char*> const& operands, format f = format::bf16) {
  std::vector<f32_code> codes;
  for (const char* text : operands) codes.push_back(parse_f32(text));
  return explain_add(codes, f);
}

std::vector<bf16_code> codes(std::vector<const char*> const& numbers) {
  std::vector<bf16_code> c;
  for (const char* text : numbers) c.push_back(parse_bf16(text));
  return c;
}

}  // namespace

TEST_CASE("explain add: the paper's sticky bit flips the error's sign", "[explain][golden]") {
  // @source arXiv 2510.04212, the bit-level example
  const std::string text = add_text({"-2.40625", "-0.0008654594421386719", "-2.296875"});
  for (const char* words : {"-4.703990459442139", "kept -1.0010110  cut 1000011100010111", "round bit 1, sticky bit 1", "away from zero", "-0.014759540557861328",
                            "result -4.71875 (0xC097)"})
    CHECK_THAT(text, Contains(words));
  const std::string tie = add_text({"-2.40625", "-2.296875"});
  for (const char* words : {"round bit 1, sticky bit 0", "tie, to the even neighbour", "toward zero", "result -4.6875 (0xC096)", "error 0.015625"})
    CHECK_THAT(tie, Contains(words));
}

TEST_CASE("explain add: exact sums, specials, FP32 results", "[explain]") {
  CHECK_THAT(add_text({"1", "2"}), Contains("result 3 (0x4040); exact sum 3; error 0"));
  CHECK_THAT(add_text({"0x7f800000", "0xff800000"}), Contains("result nan (0x7FFF)"));
  CHECK_THAT(add_text({"3e38", "3e38"}), Contains("result inf (0x7F80)"));
  const std::string f32 = add_text({"16777216", "1"}, format::f32);
  CHECK_THAT(f32, Contains("result 16777216 (0x4B800000)"));
  CHECK_THAT(f32, Contains("error -1 (-0.5 ulp)"));
  CHECK_THROWS_AS(explain_add(std::vector{parse_f32("1")}, format::bf16), std::invalid_argument);
}

TEST_CASE("explain dot: Hopper keeps two bits below FP32's last, and says what it drops", "[explain][golden]") {
  // 1 + 4·2^-25: each is below half an ulp of 1, together they are an ulp.  @source tests/block_fma has the bits
  const auto& unit = unit_named("sm90.wgmma.bf16.f32");
  const std::string text = explain_dot<format::bf16>(unit, codes({"1", "0x1p-25", "0x1p-25", "0x1p-25", "0x1p-25"}), codes({"1", "1", "1", "1", "1"}), f32_code::zero());
  CHECK_THAT(text, Contains("E = 0, quantum 2^-25; integer sum 33554436"));
  CHECK_THAT(text, Contains("result 1.0000001192092896 (0x3F800001)"));
  const std::string lost = explain_dot<format::bf16>(unit, codes({"1", "0x1p-26"}), codes({"1", "1"}), f32_code::zero());
  CHECK_THAT(lost, Contains("all of it cut (1.4901161193847656e-08)"));
  CHECK_THAT(lost, Contains("result 1 (0x3F800000); exact 1.0000000149011612; error -1.4901161193847656e-08"));
  CHECK_THAT(explain_dot<format::bf16>(unit, codes({"0x7f80"}), codes({"0"}), f32_code::zero()), Contains("result nan (0x7FFFFFFF)"));
  CHECK_THROWS_AS(explain_dot<format::bf16>(unit, codes({"1"}), codes({"1", "1"}), f32_code::zero()), shape_error);
}

TEST_CASE("explain dot: the account ends with the code that the chain gives, 40 products", "[explain]") {
  const auto& unit = unit_named("sm90.mma.bf16.f32");
  std::vector<bf16_code> a, b;
  for (std::uint32_t i = 0; i < 40; ++i) {
    a.push_back(bf16_code::from_bits(std::uint16_t(0x3e00 + 37 * i)));
    b.push_back(bf16_code::from_bits(std::uint16_t(0xbe40 + 53 * i)));
  }
  const f32_code c = parse_f32("0.1"), result = inner_product<format::bf16>(unit, std::span<bf16_code const>(a), std::span<bf16_code const>(b), c);
  const std::string text = explain_dot<format::bf16>(unit, a, b, c);
  CHECK_THAT(text, Contains(fmt::format("result {} ({})", decimal(result), hex_code(result))));
  CHECK_THAT(text, Contains("block k = 32 to 47"));
}
