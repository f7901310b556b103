// Numbers that people write, against decimals that the oracle wrote out in full.
#include <array>
#include <cstdint>
#include <string>

#include "oracle/round.hpp"
#include "stickybit/format/text.hpp"
#include "support/catch.hpp"
#include "support/generators.hpp"
#include "support/tally.hpp"

using namespace stickybit;
using oracle::integer;
using oracle::rational;

namespace {

/// All decimal digits of m·2^e: with e < 0 it is m·5^-e / 10^-e.
std::string all_digits(integer const& m, int e) {
  if (e >= 0) return integer(m << unsigned(e)).str();
  std::string digits = integer(m * boost::multiprecision::pow(integer(5), unsigned(-e))).str();
  const auto places = std::size_t(-e);
  if (digits.size() <= places) digits.insert(0, places + 1 - digits.size(), '0');
  return digits.insert(digits.size() - places, 1, '.');
}

/// The same digits with an exponent, as 'd.ddde-38'.
std::string with_exponent(std::string digits) {
  auto point = digits.find('.');
  if (point == digits.npos) point = digits.size();
  else digits.erase(point, 1);
  const auto first = digits.find_first_not_of('0');
  if (first == digits.npos) return "0e7";
  const long exponent = long(point) - long(first) - 1;
  return digits.substr(first, 1) + "." + digits.substr(first + 1) + "0e" + std::to_string(exponent);
}

std::uint32_t parsed(std::string const& text) { return parse_f32(text).to_bits(); }

/// The midpoint above a positive finite code: (2·whole + 1)·2^(weight − 1).
void check_midpoint(testing::tally& all, std::uint32_t code) {
  const oracle::parts p = oracle::take_apart(oracle::f32, code);
  const std::string tie = all_digits(integer(p.whole) * 2 + 1, p.weight - 1);
  const std::string above = tie + (tie.find('.') == tie.npos ? ".0000001" : "0000001");
  std::string below = tie;  // one unit less in the last place, then nines: tie − 10^-places·10^-6
  if (below.find('.') == below.npos) below += ".0";
  auto at = below.find_last_not_of("0.");
  below[at] = char(below[at] - 1);
  for (++at; at < below.size(); ++at)
    if (below[at] != '.') below[at] = '9';
  below += "999999";
  const std::uint32_t even = code % 2 == 0 ? code : code + 1;
  const auto differs = [&](std::string const& text, std::uint32_t expected) {
    for (std::string const& form : {text, with_exponent(text)}) {
      all.expect(parsed(form) == expected, [&] { return fmt::format("'{}' gave {:08x}, not {:08x}", form, parsed(form), expected); });
      all.expect(parsed("-" + form) == (expected | 0x80000000), [&] { return fmt::format("'-{}'", form); });
    }
  };
  differs(tie, even);
  differs(above, code + 1);
  differs(below, code);
}

}  // namespace

TEST_CASE("parse_f32: decimals round to nearest even, midpoints of neighbouring codes and next to them", "[format][sampled]") {
  constexpr std::uint64_t seed = 0xdec1;
  testing::random_bits next(seed);
  testing::tally all("decimals at FP32 midpoints, 12 spellings each", seed);
  for (std::uint32_t code : {0u, 1u, 2u, 0x7ffffeu, 0x7fffffu, 0x800000u, 0x800001u, 0x3f7fffffu, 0x3f800000u, 0x7f7ffffeu, 0x7f7fffffu}) check_midpoint(all, code);
  for (int i = 0; i < 4000; ++i) {
    const std::uint32_t code = testing::f32_at(next, next.between(-150, 127)) & 0x7fffffff;
    check_midpoint(all, code);
  }
  all.check();
}

TEST_CASE("parse_f32: short decimals round to nearest even, random digits and exponents", "[format][sampled]") {
  constexpr std::uint64_t seed = 0xdec2;
  testing::random_bits next(seed);
  testing::tally all("random decimals of up to 19 digits, 10^-60 ... 10^45", seed);
  for (int i = 0; i < 100000; ++i) {
    const std::uint64_t digits = next() >> next.below(64);
    const int exponent = next.between(-60, 26);
    const std::string text = fmt::format("{}e{}", digits, exponent);
    const integer power = boost::multiprecision::pow(integer(10), unsigned(exponent < 0 ? -exponent : exponent));
    const rational value = exponent < 0 ? rational(integer(digits), power) : rational(integer(digits) * power);
    const std::uint32_t expected = oracle::round_to<rational>(oracle::f32, {}, false, value);
    all.expect(parsed(text) == expected, [&] { return fmt::format("'{}' gave {:08x}, not {:08x}", text, parsed(text), expected); });
  }
  all.check();
}

TEST_CASE("parse_f32: hex floats round to nearest even, sampled", "[format][sampled]") {
  constexpr std::uint64_t seed = 0xdec3;
  testing::random_bits next(seed);
  testing::tally all("hex floats of up to 64 bits, 2^-230 ... 2^160", seed);
  for (int i = 0; i < 100000; ++i) {
    // A 24-bit number, then a tail at the borders of one half.
    const std::uint64_t head = 0x800000 | testing::fraction_pattern(next, 23);
    constexpr std::array<std::uint64_t, 7> tails{0, 1, 0x7fffffffff, 0x8000000000, 0x8000000001, 0xffffffffff, 0x4000000000};
    const std::uint64_t digits = head << 40 | tails[next.below(7)];
    const int exponent = next.between(-230, 100);
    const std::string text = fmt::format("0x{:x}.{:08x}p{}", digits >> 32, digits & 0xffffffff, exponent);
    const std::uint32_t expected = oracle::round_to<rational>(oracle::f32, {}, false, oracle::times_pow2<rational>(digits, exponent - 32));
    all.expect(parsed(text) == expected, [&] { return fmt::format("'{}' gave {:08x}, not {:08x}", text, parsed(text), expected); });
    all.expect(parsed("-" + text) == (expected | 0x80000000), [&] { return fmt::format("'-{}'", text); });
  }
  all.check();
}

TEST_CASE("parse_f32: a code, a hex float and a decimal are told apart", "[format]") {
  CHECK(parsed("0x3f800000") == 0x3f800000);
  CHECK(parsed("0X3F800000") == 0x3f800000);
  CHECK(parsed("0x1.8p+1") == 0x40400000);
  CHECK(parsed("0x3f800000p0") == 0x4e7e0000);
  CHECK(parsed("-0x1.8p+1") == 0xc0400000);
  CHECK(parsed("0x7fffffff") == 0x7fffffff);
  CHECK(parsed("0x80000000") == 0x80000000);
  CHECK(parsed("+1.5") == 0x3fc00000);
  CHECK(parsed("-0") == 0x80000000);
  CHECK(parsed("inf") == 0x7f800000);
  CHECK(parsed("-inf") == 0xff800000);
  CHECK(parsed("nan") == 0x7fffffff);
  CHECK(parsed("-2.40625") == 0xc01a0000);
}

TEST_CASE("parse_f32: far beyond the range is infinity or zero of the sign", "[format]") {
  CHECK(parsed("1e39") == 0x7f800000);
  CHECK(parsed("-1e39") == 0xff800000);
  CHECK(parsed("1e-46") == 0);
  CHECK(parsed("-1e-46") == 0x80000000);
  CHECK(parsed("1e400") == 0x7f800000);
  CHECK(parsed("-1e400") == 0xff800000);
  CHECK(parsed("1e-400") == 0);
  CHECK(parsed("-1e-400") == 0x80000000);
  CHECK(parsed("0x1p+2000") == 0x7f800000);
  CHECK(parsed("0x1p-2000") == 0);
}

TEST_CASE("parse_f32: what is not a number throws parse_error naming the text", "[format]") {
  for (const char* text : {"", " ", "abc", "1.0 ", " 1", "1,5", "--1", "+-1", "-+1", "0x", "0x3f8", "0x3f8000000", "0xzzzzzzzz", "1e", "0x1.8p", "1.5f", "+", "-",
                           ".", "1..2", "0x1.8p+", "1e5.5", "-0x3f800000", "+0x3f800000"}) {
    INFO("text '" << text << "'");
    bool thrown = false;
    try {
      (void)parse_f32(text);
    } catch (parse_error const& e) {
      thrown = true;
      CHECK(std::string(e.what()).find("'" + std::string(text) + "'") != std::string::npos);
    }
    CHECK(thrown);
  }
}

TEST_CASE("parse_bf16: codes and exact numbers, else parse_error with both neighbours", "[format]") {
  CHECK(parse_bf16("0x3f80").to_bits() == 0x3f80);
  CHECK(parse_bf16("0x3f800000").to_bits() == 0x3f80);
  CHECK(parse_bf16("-4.71875").to_bits() == 0xc097);
  CHECK(parse_bf16("0x1.8p+1").to_bits() == 0x4040);
  CHECK(parse_bf16("-inf").to_bits() == 0xff80);
  CHECK(parse_bf16("nan").to_bits() == 0x7fff);
  CHECK(parse_bf16("-0").to_bits() == 0x8000);
  CHECK(parse_bf16("9.183549615799121e-41").to_bits() == 0x0001);
  // The last five are not exact, although the FP32 number next to them is a BF16 number.
  for (const char* text : {"1.00390625", "0.1", "-4.703990459442139", "0x3f8", "0x3f8000", "", "one", "0x3f800001", "1.00000000001", "0.99999999999", "1e39", "1e-46",
                           "0x1.00000000001p0"}) {
    INFO("text '" << text << "'");
    CHECK_THROWS_AS(parse_bf16(text), parse_error);
  }
  try {
    (void)parse_bf16("-1.00390625");
    CHECK(false);
  } catch (parse_error const& e) {
    const std::string what = e.what();
    CHECK(what.find("'-1.00390625'") != what.npos);
    CHECK(what.find("0xBF80 (-1)") != what.npos);
    CHECK(what.find("0xBF81 (-1.0078125)") != what.npos);
  }
}
