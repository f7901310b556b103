// The error bounds that sfu.hpp states, and monotonicity.
#include <algorithm>
#include <array>
#include <bit>
#include <boost/multiprecision/cpp_bin_float.hpp>
#include <cmath>
#include <vector>

#include "functions.hpp"
#include "support/catch.hpp"
#include "support/generators.hpp"
#include "support/tally.hpp"

using namespace stickybit;
using testing::value_of;

namespace {

namespace mp = boost::multiprecision;
using real = mp::number<mp::cpp_bin_float<113, mp::digit_base_2>, mp::et_off>;

real number(std::uint32_t bits) { return real(std::bit_cast<float>(bits)); }

/// Ends of every one of `segments` equal parts of a binade, and points within.
template <class Visit>
void each_segment(std::uint32_t sign_and_exponent, int segment_bits, int inside, testing::random_bits& next, Visit visit) {
  const std::uint32_t length = 0x800000u >> segment_bits;
  for (std::uint32_t segment = 0; segment < 1u << segment_bits; ++segment) {
    const std::uint32_t begin = sign_and_exponent << 23 | segment * length;
    visit(begin);
    visit(begin + length - 1);
    for (int i = 0; i < inside; ++i) visit(begin + next.below(length));
  }
}

/// Largest error of f, in the measure that error(result, operand) gives.
template <class Error>
void within(char const* what, double log2_bound, std::vector<std::uint32_t> const& binades, int segment_bits, std::uint64_t seed, Error error) {
  testing::random_bits next(seed);
  const real bound = mp::exp2(real(log2_bound));
  real largest = 0;
  testing::tally all(fmt::format("{}, error below 2^{:.4f}", what, log2_bound), seed);
  for (std::uint32_t binade : binades)
    each_segment(binade, segment_bits, 30, next, [&](std::uint32_t x) {
      const real e = mp::abs(error(x));
      largest = std::max(largest, e);
      all.expect(e < bound, [=] { return fmt::format("at {:08x}: 2^{:.4f}", x, mp::log2(e).convert_to<double>()); });
    });
  all.check();
  fmt::print("{}: largest seen 2^{:.4f}\n", what, mp::log2(largest).convert_to<double>());
}

/// lg2 in ulps of the exact value.
real lg2_error_ulps(std::uint32_t x) {
  const real exact = mp::log2(number(x));
  return (number(value_of(&lg2, x)) - exact) / mp::ldexp(real(1), int(mp::ilogb(exact)) - 23);
}

/// Does f never go down (direction 1) or never up (−1) from code to code over [first, last]?
void monotonic(char const* what, testing::special_function f, std::uint32_t first, std::uint32_t last, int direction) {
  testing::tally all(fmt::format("{} is monotonic, codes {:08x} to {:08x}", what, first, last));
  float before = std::bit_cast<float>(value_of(f, first));
  std::uint64_t wrong = 0;
  std::uint32_t where = 0;
  for (std::uint32_t x = first + 1; x <= last; ++x) {
    const float now = std::bit_cast<float>(value_of(f, x));
    if (direction > 0 ? now < before : now > before)
      if (wrong++ == 0) where = x;
    before = now;
  }
  all.add(last - first, wrong, [&] { return fmt::format("{:08x} and {} more", where, wrong - 1); });
  all.check();
}

}  // namespace

TEST_CASE("ex2: relative error below 2^-22.7, every segment of several binades and both signs", "[sfu][sampled]") {
  within("ex2", -22.7, {103, 107, 117, 122, 125, 126, 127, 128, 133, 256 + 103, 256 + 122, 256 + 125, 256 + 126, 256 + 127, 256 + 128, 256 + 132},
         6, 0xacc1, [](std::uint32_t x) -> real {
           const std::uint32_t r = value_of(&ex2, x);
           if (r == 0 || r == 0x7f800000) return 0;
           return number(r) / mp::exp2(number(x)) - 1;
         });
}

TEST_CASE("rcp: relative error below 2^-23.2, every segment", "[sfu][sampled]") {
  within("rcp", -23.2, {1, 100, 127, 200, 252}, 7, 0xacc2, [](std::uint32_t x) { return real(number(value_of(&rcp, x)) * number(x) - 1); });
}

TEST_CASE("rsqrt: relative error below 2^-22.9, every segment of both parities", "[sfu][sampled]") {
  within("rsqrt", -22.9, {1, 2, 126, 127, 128, 254}, 6, 0xacc3,
         [](std::uint32_t x) { return real(number(value_of(&rsqrt, x)) * mp::sqrt(number(x)) - 1); });
}

TEST_CASE("lg2: absolute error below 2^-22.1 between 0.5 and 2, every segment", "[sfu][sampled]") {
  within("lg2 next to 1", -22.1, {126, 127}, 6, 0xacc4, [](std::uint32_t x) { return real(number(value_of(&lg2, x)) - mp::log2(number(x))); });
}

TEST_CASE("lg2: error below 2.3 ulp outside 0.5 to 2, every segment of several binades", "[sfu][sampled]") {
  within("lg2 elsewhere, in ulps", std::log2(2.3), {1, 64, 120, 123, 124, 125, 128, 129, 130, 140, 254}, 6, 0xacc5, lg2_error_ulps);
  // The largest of all codes, found by going through every binade.
  CHECK(mp::abs(lg2_error_ulps(0x3e875fcf)) > 2.28);
}

TEST_CASE("ex2: monotonic, all codes of 0.25 to 4, both signs", "[sfu]") {
  monotonic("ex2", &ex2, 0x3e800000, 0x40800000, 1);
  monotonic("ex2", &ex2, 0xbe800000, 0xc0800000, -1);
}
TEST_CASE("rcp: monotonic, all codes of 1 to 2", "[sfu]") { monotonic("rcp", &rcp, 0x3f800000, 0x40000000, -1); }
TEST_CASE("rsqrt: monotonic, all codes of 1 to 4", "[sfu]") { monotonic("rsqrt", &rsqrt, 0x3f800000, 0x40800000, -1); }
TEST_CASE("lg2: monotonic, all codes of 0.5 to 2 and of 128 to 256", "[sfu]") {
  monotonic("lg2", &lg2, 0x3f000000, 0x40000000, 1);
  monotonic("lg2", &lg2, 0x43000000, 0x43800000, 1);
}
