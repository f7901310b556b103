// Single values that are known from elsewhere: measured on hardware, or worked out by hand.
#include "oracle/arithmetic.hpp"
#include "stickybit/format/text.hpp"
#include "stickybit/format/value.hpp"
#include "stickybit/rounding/arithmetic.hpp"
#include "stickybit/rounding/host_arithmetic.hpp"
#include "support/catch.hpp"

using namespace stickybit;

namespace {

f32_code f32(std::uint32_t bits) { return f32_code::from_bits(bits); }
constexpr auto kept = subnormals::kept, flushed = subnormals::flushed;

}  // namespace

// The bit example of Qiu and Yao, "Why Low-Precision Transformer Training Fails": one sticky bit turns the sign of the error.
TEST_CASE("bf16 from f32: a left-over turns a tie, -2.40625 - 2.296875", "[rounding][golden]") {
  const f32_code left_over = parse_f32("-0.0008654594421386719"), next = parse_f32("-2.296875");
  const f32_code running = add(parse_f32("-2.40625"), left_over, kept);
  const f32_code sum = add(running, next, kept);
  CHECK(decimal(sum) == "-4.703990459442139");
  CHECK(binary(sum) == "-1.00101101000011100010111 × 2^2");
  CHECK(convert<format::bf16>(sum).to_bits() == 0xc097);
  CHECK(to_double(convert<format::bf16>(sum)) == -4.71875);
  CHECK(to_double(convert<format::bf16>(sum)) - to_double(sum) == -0.014759540557861328);

  const f32_code tie = add(parse_f32("-2.40625"), next, kept);
  CHECK(to_double(tie) == -4.703125);
  CHECK(to_double(convert<format::bf16>(tie)) == -4.6875);
  recorder<rounded> events;
  (void)convert<format::bf16>(tie, rounding::nearest_even, events);
  (void)convert<format::bf16>(sum, rounding::nearest_even, events);
  REQUIRE(events.all<rounded>().size() == 2);
  CHECK(events.all<rounded>()[0].cut == tail::half);
  CHECK(events.all<rounded>()[1].cut == tail::above_half);
}

// Measured on an H200: MUL.FTZ and FFMA.FTZ decide on the result rounded to 24 bits with an exponent of any size.
TEST_CASE("ftz: a product just below 2^-126 that rounds up to it is kept", "[rounding][golden]") {
  const auto a = f32(0x20000001), b = f32(0x1ffffffe);  // (1 + 2^-23) 2^-63 and (1 - 2^-23) 2^-63
  CHECK(mul(a, b, flushed).to_bits() == 0x00800000);
  CHECK(fma(a, b, f32(0), flushed).to_bits() == 0x00800000);
  CHECK(host::mul_ftz(a, b).to_bits() == 0x00800000);
  CHECK(host::fma_ftz(a, b, f32(0)).to_bits() == 0x00800000);
  CHECK(mul(a.negated(), b, flushed).to_bits() == 0x80800000);
  // 2^-126 - 2^-202: 2^-101 times -2^-101 onto 2^-126.
  CHECK(fma(f32(0x0d000000), f32(0x8d000000), f32(0x00800000), flushed).to_bits() == 0x00800000);
  CHECK(host::fma_ftz(f32(0x0d000000), f32(0x8d000000), f32(0x00800000)).to_bits() == 0x00800000);
}

TEST_CASE("ftz: 2^-126 (1 - 2^-24), exact in 24 bits, is flushed although its IEEE result is 2^-126", "[rounding][golden]") {
  const auto a = f32(0x3f7fffff), b = f32(0x00800000);
  CHECK(mul(a, b, flushed).to_bits() == 0x00000000);
  CHECK(fma(a, b, f32(0), flushed).to_bits() == 0x00000000);
  CHECK(host::mul_ftz(a, b).to_bits() == 0x00000000);
  CHECK(host::fma_ftz(a, b, f32(0)).to_bits() == 0x00000000);
  CHECK(mul(a, b.negated(), flushed).to_bits() == 0x80000000);
  CHECK(mul(a, b, kept).to_bits() == 0x00800000);
  CHECK(fma(a, b, f32(0), kept).to_bits() == 0x00800000);
}

TEST_CASE("ftz: flushed operands and results keep their sign", "[rounding][golden]") {
  CHECK(mul(f32(0x0d000000), f32(0x8d000000), flushed).to_bits() == 0x80000000);
  CHECK(add(f32(0x80000000), f32(0x80000000), flushed).to_bits() == 0x80000000);
  CHECK(add(f32(0x00000000), f32(0x80000001), flushed).to_bits() == 0x00000000);
  CHECK(add(f32(0x80000000), f32(0x807fffff), flushed).to_bits() == 0x80000000);
  CHECK(mul(f32(0x007fffff), f32(0x40000000), flushed).to_bits() == 0x00000000);
  CHECK(add(f32(0x00800001), f32(0x80800000), flushed).to_bits() == 0x00000000);
  CHECK(add(f32(0x00800001), f32(0x80800000), kept).to_bits() == 0x00000001);
  CHECK(max(f32(0x00000001), f32(0x80000000), flushed).to_bits() == 0x00000000);
}

TEST_CASE("max: a NaN loses against a number, -0 against +0", "[rounding][golden]") {
  CHECK(max(f32(0x7fc00000), f32(0xff800000), kept).to_bits() == 0xff800000);
  CHECK(max(f32(0x3f800000), f32(0xffc12345), kept).to_bits() == 0x3f800000);
  CHECK(max(f32(0x7f800001), f32(0xffc12345), kept).to_bits() == 0x7fffffff);
  CHECK(max(f32(0x80000000), f32(0), kept).to_bits() == 0);
  CHECK(max(f32(0), f32(0x80000000), kept).to_bits() == 0);
  CHECK(max(f32(0xc0000000), f32(0xbf800000), kept).to_bits() == 0xbf800000);
}

// Measured on an H200: cvt.rn.bf16x2.f32 keeps subnormals.
TEST_CASE("bf16 from f32: subnormals are rounded, not flushed", "[rounding][golden]") {
  CHECK(convert<format::bf16>(f32(0x00400000)).to_bits() == 0x0040);
  CHECK(convert<format::bf16>(f32(0x00008001)).to_bits() == 0x0001);
  CHECK(convert<format::bf16>(f32(0x00018000)).to_bits() == 0x0002);
  CHECK(convert<format::bf16>(f32(0x00008000)).to_bits() == 0x0000);
}

TEST_CASE("bf16 from f32: truncation and additions to the bits get these wrong", "[rounding][golden]") {
  CHECK(to_double(convert<format::bf16>(parse_f32("0.26914087703"))) == 0.26953125);
  for (bool fast : {false, true}) {
    const auto convert_one = [fast](f32_code c) { return fast ? host::to_bf16(c) : convert<format::bf16>(c); };
    CHECK(convert_one(f32(0x7f800001)).to_bits() == 0x7fff);
    CHECK(convert_one(f32(0x7fffffff)).to_bits() == 0x7fff);
    CHECK(convert_one(f32(0xffffffff)).to_bits() == 0x7fff);
    CHECK(convert_one(f32(0x7f7f8000)).to_bits() == 0x7f80);
    CHECK(convert_one(f32(0x7f7f7fff)).to_bits() == 0x7f7f);
    CHECK(convert_one(f32(0xff7fffff)).to_bits() == 0xff80);
  }
}

TEST_CASE("fma to bf16: one rounding gives another result than two, 1.75 x 0.578125 - 2^-40", "[rounding][golden]") {
  const oracle::rational exact = oracle::value_of<oracle::rational>(oracle::f32, 0x3fe00000) * oracle::value_of<oracle::rational>(oracle::f32, 0x3f140000) -
                                 oracle::times_pow2<oracle::rational>(1, -40);
  CHECK(oracle::round_to<oracle::rational>(oracle::bf16, {}, false, exact) == 0x3f81);  // 1.0078125
  const f32_code through_f32 = fma(parse_f32("1.75"), parse_f32("0.578125"), parse_f32("-0x1p-40"), kept);
  CHECK(convert<format::bf16>(through_f32).to_bits() == 0x3f82);  // 1.015625
}
