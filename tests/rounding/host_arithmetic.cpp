// The fast forms against the definitions, code for code.
#include "stickybit/rounding/host_arithmetic.hpp"

#include <cfenv>

#include "operands.hpp"
#include "stickybit/rounding/arithmetic.hpp"
#include "support/catch.hpp"
#include "support/tally.hpp"

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

using namespace stickybit;

namespace {

void sample(std::uint64_t seed, int count) {
  REQUIRE(host::is_ieee());
  for (auto const& generator : testing::operand_generators) {
    testing::random_bits next(seed);
    testing::tally all(fmt::format("host add, mul, fma, div, .ftz and not, against the definitions, {}", generator.name), seed);
    for (int i = 0; i < count; ++i) {
      const auto bits = generator.make(next);
      const auto a = f32_code::from_bits(bits.a), b = f32_code::from_bits(bits.b), c = f32_code::from_bits(bits.c);
      const auto in_words = [&] { return fmt::format("{:08x} {:08x} {:08x}", bits.a, bits.b, bits.c); };
      all.expect(host::fma_ftz(a, b, c) == fma(a, b, c, subnormals::flushed), in_words);
      all.expect(host::mul_ftz(a, b) == mul(a, b, subnormals::flushed), in_words);
      all.expect(host::add_ftz(a, c) == add(a, c, subnormals::flushed), in_words);
      all.expect(host::div_ftz(a, b) == div(a, b, subnormals::flushed), in_words);
      all.expect(host::fma(a, b, c) == fma(a, b, c, subnormals::kept), in_words);
      all.expect(host::mul(a, b) == mul(a, b, subnormals::kept), in_words);
      all.expect(host::add(a, c) == add(a, c, subnormals::kept), in_words);
      all.expect(host::div(a, b) == div(a, b, subnormals::kept), in_words);
      all.expect(host::to_bf16(c) == convert<format::bf16>(c), in_words);
    }
    all.check();
  }
}

}  // namespace

TEST_CASE("host arithmetic: equal to the definitions, sampled", "[rounding][sampled]") { sample(0x4057, 1000000); }
TEST_CASE("host arithmetic: equal to the definitions, larger sample", "[.long][rounding]") { sample(0x4058, 200000000); }

TEST_CASE("host arithmetic: is_ieee() sees a changed rounding mode", "[rounding]") {
  CHECK(host::is_ieee());
  for (int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    REQUIRE(std::fesetround(mode) == 0);
    const bool seen = !host::is_ieee();
    std::fesetround(FE_TONEAREST);
    INFO("mode " << mode);
    CHECK(seen);
  }
  CHECK(host::is_ieee());
}

#if defined(__SSE__)
TEST_CASE("host arithmetic: is_ieee() sees flushed results and operands", "[rounding]") {
  constexpr unsigned results_flushed = 0x8000, operands_flushed = 0x0040;
  const unsigned saved = _mm_getcsr();
  for (unsigned flags : {results_flushed, operands_flushed, results_flushed | operands_flushed}) {
    _mm_setcsr(saved | flags);
    const bool seen = !host::is_ieee();
    _mm_setcsr(saved);
    INFO("MXCSR flags " << flags);
    CHECK(seen);
  }
  CHECK(host::is_ieee());
}
#endif
