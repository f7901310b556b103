// Where two accounts part, in words.
#include "support/accounts.hpp"

#include "stickybit/explain/difference.hpp"
#include "support/catch.hpp"

using namespace stickybit;
using Catch::Matchers::Contains;

namespace {

account_operand from(std::int32_t step, bool negated = false) { return {.step = step, .negated = negated}; }
account_operand named(std::uint32_t bits) { return {.bits = bits}; }

constexpr std::uint32_t l_bits = 0x3e38aa3b;

/// The argument of the exponential of a key whose score is S, fused or not.
account argument(std::vector<const char*> const& scores, bool fused) {
  account a(*sm90().special_functions);
  a.name_constant(l_bits, "L", {0x1.71547652b82fep-3, 0});
  std::vector<account_operand> s;
  for (const char* score : scores) {
    const f32_code x = parse_f32(score);
    s.push_back(from(a.input(format::f32, x.to_bits(), {to_double(x), 0}, {"S", std::int32_t(s.size())})));
  }
  const std::int32_t m = a.record({.op = operation::maximum}, s);
  a.name(m, {"m", 0});
  const std::int32_t scaled = a.record({.op = operation::multiply}, std::vector{from(m), named(l_bits)});
  for (std::int32_t i = 0; i < std::int32_t(s.size()); ++i) {
    std::int32_t x;
    if (fused) {
      x = a.record({.op = operation::fma}, std::vector{s[std::size_t(i)], named(l_bits), from(scaled, true)});
    } else {
      const std::int32_t product = a.record({.op = operation::multiply}, std::vector{s[std::size_t(i)], named(l_bits)});
      x = a.record({.op = operation::add}, std::vector{from(product), from(scaled, true)});
    }
    a.name(x, {"x", i});
  }
  return a;
}

}  // namespace

TEST_CASE("first difference: two units part at the first block whose sums differ", "[explain][golden]") {
  const std::vector<const char*> terms{"1", "0x1p-25", "0x1p-25", "0x1p-25", "0x1p-25"};
  const auto d = first_difference(dot_account("sm80.mma.bf16.f32", terms), dot_account("sm90.mma.bf16.f32", terms), "sm80", "sm90");
  REQUIRE(d);
  CHECK(d->where == quantity{"d"});
  CHECK(d->bits_a == 0x3f800000);
  CHECK(d->bits_b == 0x3f800001);
  CHECK_THAT(d->sentence, Contains("sm80 takes k = 0 to 4 (E = 0, cut at 2^-24): terms 1, 2, 3 and 1 more are lost altogether (-1 ulp of the outcome)") &&
                              Contains("sm90 takes k = 0 to 4 (E = 0, cut at 2^-25): nothing is lost"));
  CHECK(!first_difference(dot_account("sm90.wgmma.bf16.f32", terms), dot_account("sm90.mma.bf16.f32", terms)));
  CHECK(!first_difference(dot_account("sm80.mma.bf16.f32", {"1", "2"}), dot_account("sm90.mma.bf16.f32", {"1", "2"})));

  // Next to 32 Ampere cuts at 2^-19, Hopper at 2^-20: four terms that make an ulp together.
  std::vector<const char*> long_terms(64, "1");
  for (std::size_t k = 40; k < 44; ++k) long_terms[k] = "0x1p-20";
  const auto later = first_difference(dot_account("sm80.mma.bf16.f32", long_terms), dot_account("sm90.mma.bf16.f32", long_terms), "sm80", "sm90");
  REQUIRE(later);
  CHECK(later->where == quantity{"d", 48});
  CHECK_THAT(later->sentence, Contains("After k = 31 both have 32.") && Contains("sm80 takes k = 32 to 39 (E = 5, cut at 2^-19), then k = 40 to 47 (E = 5, cut at 2^-19): terms 40, 41, 42 and 1 more are lost altogether") &&
                                  Contains("sm90 takes k = 32 to 47 (E = 5, cut at 2^-20): nothing is lost"));
}

TEST_CASE("first difference: other operands, other counts, another start", "[explain]") {
  const auto given = first_difference(dot_account("sm90.mma.bf16.f32", {"1", "2"}), dot_account("sm90.mma.bf16.f32", {"1", "4"}));
  REQUIRE(given);
  CHECK_THAT(given->sentence, Contains("Product 1 is 2 × 1 in A and 4 × 1 in B"));
  std::vector<const char*> first(17, "0x1p-60"), second(17, "0x1p-60");  // a block of 16 cancels; what is left for the next one is another term
  first[0] = second[0] = "1";
  first[1] = second[1] = "-1";
  first[16] = second[2] = "0x1p-30";
  const auto order = first_difference(dot_account("sm90.mma.bf16.f32", first), dot_account("sm90.mma.bf16.f32", second));
  REQUIRE(order);
  CHECK_THAT(order->sentence, Contains("another order"));
  const auto start = first_difference(dot_account("sm90.mma.bf16.f32", {"1"}, "1"), dot_account("sm90.mma.bf16.f32", {"1"}, "2"));
  REQUIRE(start);
  CHECK_THAT(start->sentence, Contains("the chain starts from 1 in A and from 2 in B"));
  const auto maximum = first_difference(argument({"1", "2", "5"}, true), argument({"1", "2"}, true));
  REQUIRE(maximum);
  CHECK(maximum->where == quantity{"m", 0});
  CHECK_THAT(maximum->sentence, Contains("A takes the maximum of S[0] to S[2] in this block, B of S[0] to S[1]"));
}

TEST_CASE("first difference: a fused and an unfused argument of the exponential", "[explain][golden]") {
  const std::vector<const char*> scores{"11.37", "3.777", "-2.19"};
  const account fused = argument(scores, true), unfused = argument(scores, false);
  const auto d = first_difference(fused, unfused, "fa2", "fa2-torch");
  REQUIRE(d);
  CHECK(d->where == quantity{"x", 0});
  CHECK(fused[d->step_a].op == operation::fma);
  CHECK(unfused[d->step_b].op == operation::add);
  CHECK(d->equal == std::vector<std::string>{"S[0]", "m after block 0", "L"});
  CHECK_THAT(d->sentence, Contains("fa2 fuses the multiplication into the addition, fma(S[0], L, -rn(m[0]·L)), and rounds once. fa2-torch rounds the product S[0]·L first, cutting its last") &&
                              Contains("its result is rn(S[0]·L) - rn(m[0]·L)"));
  const auto swapped = first_difference(unfused, fused, "fa2-torch", "fa2");
  REQUIRE(swapped);
  CHECK_THAT(swapped->sentence, Contains("fa2 fuses the multiplication"));
}

TEST_CASE("first difference: equal operands, other rules", "[explain]") {
  const f32_code x = parse_f32("1.0078");
  const auto d = first_difference(account_of_cast(x, format::bf16), account_of_cast(x, format::bf16, rounding::toward_zero));
  REQUIRE(d);
  CHECK_THAT(d->sentence, Contains("operands of bf16(1.00779998) are equal, the rules are not") && Contains("nearest_even") && Contains("toward_zero"));
}
