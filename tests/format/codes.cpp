// Codes, their classes and values, against the oracle.
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "oracle/exact.hpp"
#include "stickybit/format/code.hpp"
#include "stickybit/format/decode.hpp"
#include "stickybit/format/value.hpp"
#include "support/catch.hpp"
#include "support/tally.hpp"

using namespace stickybit;

namespace {

/// Every sign and exponent field with the fractions at the borders and in the middle.
std::vector<std::uint32_t> structured_f32() {
  std::vector<std::uint32_t> codes;
  for (std::uint32_t sign_and_exponent = 0; sign_and_exponent < 512; ++sign_and_exponent)
    for (std::uint32_t fraction : {0x000000u, 0x000001u, 0x000002u, 0x007fffu, 0x008000u, 0x008001u, 0x2aaaaau, 0x3fffffu, 0x400000u, 0x400001u, 0x555555u,
                                   0x7fffffu})
      codes.push_back(sign_and_exponent << 23 | fraction);
  for (int bit = 0; bit < 23; ++bit)
    for (std::uint32_t field : {0u, 1u, 127u, 254u, 255u}) codes.push_back(field << 23 | 1u << bit);
  return codes;
}

template <format F>
number_class expected_class(oracle::shape f, code<F> c) {
  const oracle::parts p = oracle::take_apart(f, c.to_bits());
  if (p.nan) return number_class::nan;
  if (p.infinite) return number_class::infinite;
  if (p.whole == 0) return number_class::zero;
  return p.whole < (std::uint32_t{1} << f.fraction_width) ? number_class::subnormal : number_class::normal;
}

template <format F>
bool decoded_as_the_oracle_reads(oracle::shape f, code<F> c) {
  const oracle::parts p = oracle::take_apart(f, c.to_bits());
  const decoded d = decode(c);
  const number_class kind = expected_class(f, c);
  if (d.kind != kind || d.negative != p.minus || c.negative() != p.minus) return false;
  const bool predicates = c.is_nan() == p.nan && c.is_infinite() == p.infinite && c.is_finite() == !(p.nan || p.infinite) &&
                          c.is_zero() == (kind == number_class::zero) && c.is_subnormal() == (kind == number_class::subnormal);
  if (!predicates || c.negated().to_bits() != (c.to_bits() ^ f.sign()) || c.negated().negated() != c) return false;
  if (!c.is_finite()) return d.significand == 0;
  return d.significand == p.whole && d.e == p.exponent && d.e - (f.precision() - 1) == p.weight;
}

/// A double taken apart by the C library, as a rational.
oracle::rational value_of_double(double x) {
  int e = 0;
  const double significand = std::frexp(std::fabs(x), &e);
  const oracle::rational magnitude = oracle::times_pow2<oracle::rational>(std::uint64_t(std::ldexp(significand, 53)), e - 53);
  return std::signbit(x) ? oracle::rational(-magnitude) : magnitude;
}

template <format F>
bool double_is_exact(oracle::shape f, code<F> c) {
  const double x = to_double(c);
  if (c.is_nan()) return std::isnan(x);
  if (std::signbit(x) != c.negative()) return false;
  if (c.is_infinite()) return std::isinf(x);
  return value_of_double(x) == oracle::value_of<oracle::rational>(f, c.to_bits());
}

template <format F>
bool ulp_is_exact(oracle::shape f, code<F> c) {
  const oracle::parts p = oracle::take_apart(f, c.to_bits());
  return p.nan || p.infinite || value_of_double(ulp_at<F>(to_double(c))) == oracle::times_pow2<oracle::rational>(1, p.weight);
}

}  // namespace

TEST_CASE("format traits: the interchange formats of IEEE 754", "[format]") {
  for (const auto& [f, expected] : {std::pair{format::bf16, oracle::bf16}, std::pair{format::f32, oracle::f32}}) {
    const format_traits t = traits_of(f);
    INFO(t.name);
    CHECK(t.precision() == expected.precision());
    CHECK(t.fraction_bits() == expected.fraction_width);
    CHECK(t.bias() == expected.largest_exponent());
    CHECK(t.e_max() == expected.largest_exponent());
    CHECK(t.e_min() == expected.smallest_exponent());
    CHECK(t.width_bits == 1 + expected.exponent_width + expected.fraction_width);
  }
}

TEST_CASE("code: special values have their patterns", "[format]") {
  CHECK(f32_code::nan().to_bits() == 0x7fffffff);
  CHECK(bf16_code::nan().to_bits() == 0x7fff);
  CHECK(f32_code::infinity().to_bits() == 0x7f800000);
  CHECK(f32_code::infinity(true).to_bits() == 0xff800000);
  CHECK(bf16_code::infinity(true).to_bits() == 0xff80);
  CHECK(f32_code::zero(true).to_bits() == 0x80000000);
  CHECK(bf16_code::zero(true).to_bits() == 0x8000);
  CHECK(f32_code{} == f32_code::zero());
  CHECK(f32_code::zero() != f32_code::zero(true));
  CHECK(f32_code::nan() == f32_code::nan());
}

TEST_CASE("decode: class, exponent and significand, all 65536 BF16 codes", "[format]") {
  testing::tally all("decode, to_double, ulp_at of all BF16 codes");
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const auto c = bf16_code::from_bits(std::uint16_t(bits));
    all.expect(c.to_bits() == bits && decoded_as_the_oracle_reads(oracle::bf16, c) && double_is_exact(oracle::bf16, c) && ulp_is_exact(oracle::bf16, c),
               [=] { return fmt::format("{:04x}", bits); });
  }
  all.check();
}

TEST_CASE("decode: class, exponent and significand, every FP32 exponent with border fractions", "[format]") {
  testing::tally all("decode, to_double, ulp_at of FP32 codes, all exponents x 12 fractions and single bits");
  for (std::uint32_t bits : structured_f32()) {
    const auto c = f32_code::from_bits(bits);
    all.expect(c.to_bits() == bits && decoded_as_the_oracle_reads(oracle::f32, c) && double_is_exact(oracle::f32, c) && ulp_is_exact(oracle::f32, c),
               [=] { return fmt::format("{:08x}", bits); });
  }
  all.check();
}

TEST_CASE("widen: the same value, sign and NaN payload, all 65536 BF16 codes", "[format]") {
  testing::tally all("widen of all BF16 codes");
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const f32_code wide = widen(bf16_code::from_bits(std::uint16_t(bits)));
    const oracle::parts from = oracle::take_apart(oracle::bf16, bits), to = oracle::take_apart(oracle::f32, wide.to_bits());
    bool same = from.minus == to.minus && from.nan == to.nan && from.infinite == to.infinite;
    if (same && !from.nan && !from.infinite)
      same = oracle::value_of<oracle::rational>(oracle::bf16, bits) == oracle::value_of<oracle::rational>(oracle::f32, wide.to_bits());
    if (from.nan) same = same && (wide.to_bits() & 0x7fffff) == (bits & 0x7f) * 0x10000;
    all.expect(same, [=] { return fmt::format("{:04x}", bits); });
  }
  all.check();
}

TEST_CASE("code_of and to_float: bits pass unchanged, every FP32 exponent with border fractions", "[format]") {
  testing::tally all("code_of(to_float(c)) == c");
  for (std::uint32_t bits : structured_f32())
    if ((bits & 0x7fffffff) <= 0x7f800000 || (bits & 0x400000) != 0)  // a host may quiet a signalling NaN
      all.expect(code_of(to_float(f32_code::from_bits(bits))).to_bits() == bits, [=] { return fmt::format("{:08x}", bits); });
  all.check();
}

TEST_CASE("ulp_at: between codes and at zero", "[format]") {
  CHECK(ulp_at<format::bf16>(0.0) == pow2(-133));
  CHECK(ulp_at<format::f32>(0.0) == pow2(-149));
  CHECK(ulp_at<format::bf16>(1.9999) == pow2(-7));
  CHECK(ulp_at<format::bf16>(-2.0) == pow2(-6));
  CHECK(ulp_at<format::f32>(pow2(-127)) == pow2(-149));
  CHECK(ulp_at<format::f32>(1.0) == pow2(-23));
}
