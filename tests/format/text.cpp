// How codes are written, and read back.
#include "stickybit/format/text.hpp"

#include <cstdint>
#include <cstdlib>
#include <string>

#include "oracle/exact.hpp"
#include "stickybit/format/value.hpp"
#include "support/catch.hpp"
#include "support/generators.hpp"
#include "support/tally.hpp"

using namespace stickybit;

namespace {

/// The value of "-1.0010111 × 2^2", read digit by digit.
oracle::rational value_of_binary(std::string text) {
  const bool minus = text[0] == '-';
  if (minus) text.erase(0, 1);
  const auto times = text.find(" × 2^");
  if (times == text.npos) return 0;
  const int e = std::atoi(text.substr(times + std::string(" × 2^").size()).c_str());
  std::uint64_t digits = 0;
  int after_point = 0;
  bool point = false;
  for (char c : text.substr(0, times)) {
    if (c == '.') {
      point = true;
      continue;
    }
    digits = 2 * digits + std::uint64_t(c - '0');
    after_point += point;
  }
  const oracle::rational magnitude = oracle::times_pow2<oracle::rational>(digits, e - after_point);
  return minus ? oracle::rational(-magnitude) : magnitude;
}

template <format F>
bool written_and_read_back(oracle::shape f, code<F> c, code<F> (*parse)(std::string_view)) {
  if (parse(hex_code(c)) != c || hex_code(c).size() != std::size_t(2 + traits_of(F).width_bits / 4)) return false;
  if (c.is_nan()) return parse(decimal(c)) == code<F>::nan() && binary(c) == "NaN";
  if (parse(decimal(c)) != c) return false;
  if (c.is_infinite()) return binary(c) == (c.negative() ? "-inf" : "inf");
  if (c.is_zero()) return binary(c) == (c.negative() ? "-0" : "0");
  return value_of_binary(binary(c)) == oracle::value_of<oracle::rational>(f, c.to_bits());
}

}  // namespace

TEST_CASE("text: spot values", "[format][golden]") {
  const auto c = bf16_code::from_bits(0xc097);
  CHECK(hex_code(c) == "0xC097");
  CHECK(decimal(c) == "-4.71875");
  CHECK(binary(c) == "-1.0010111 × 2^2");
  const auto sum = f32_code::from_bits(0xc0968717);
  CHECK(hex_code(sum) == "0xC0968717");
  CHECK(decimal(sum) == "-4.703990459442139");
  CHECK(binary(sum) == "-1.00101101000011100010111 × 2^2");
  CHECK(decimal(f32_code::from_bits(0x3f800000)) == "1");
  CHECK(decimal(f32_code::zero(true)) == "-0");
  CHECK(decimal(f32_code::infinity(true)) == "-inf");
  CHECK(binary(bf16_code::from_bits(0x0001)) == "0.0000001 × 2^-126");
  CHECK(hex_code(bf16_code::from_bits(0x0001)) == "0x0001");
}

TEST_CASE("text: hex, decimal and binary read back, all 65536 BF16 codes", "[format]") {
  testing::tally all("text of all BF16 codes");
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits)
    all.expect(written_and_read_back(oracle::bf16, bf16_code::from_bits(std::uint16_t(bits)), &parse_bf16), [=] { return fmt::format("{:04x}", bits); });
  all.check();
}

TEST_CASE("text: hex, decimal and binary read back, sampled FP32 codes", "[format][sampled]") {
  constexpr std::uint64_t seed = 0xf0a1;
  testing::random_bits next(seed);
  testing::tally all("text of FP32 codes, exponent bands x fraction patterns", seed);
  for (int i = 0; i < 100000; ++i) {
    const std::uint32_t bits = testing::f32_anywhere(next);
    all.expect(written_and_read_back(oracle::f32, f32_code::from_bits(bits), &parse_f32), [=] { return fmt::format("{:08x}", bits); });
  }
  all.check();
}
