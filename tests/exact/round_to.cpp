#include "stickybit/exact/round_to.hpp"

#include <limits>
#include <random>

#include "measure.hpp"
#include "stickybit/format/value.hpp"
#include "support/catch.hpp"

using namespace stickybit;
using namespace stickybit_test;

namespace {

/// The value nearest to x in a format, ties to even, by dividing by the last bit's weight: infinity beyond the largest number.
template <format F>
big nearest(big const& x) {
  constexpr format_traits t = traits_of(F);
  if (x == 0) return 0;
  const int e = std::max(int(mp::ilogb(x)), t.e_min());
  const big unit = pow2_big(e - t.fraction_bits());
  const big scaled = x / unit, below = mp::floor(scaled);
  const big rest = scaled - below;
  const bool odd = mp::floor(below / 2) * 2 != below;
  const big rounded = (rest > big(0.5) || (rest == big(0.5) && odd) ? below + 1 : below) * unit;
  const big infinity = std::numeric_limits<big>::infinity();
  return mp::abs(rounded) < pow2_big(t.e_max() + 1) ? rounded : x < 0 ? big(-infinity) : infinity;
}

template <format F>
int wrong_of(double_double x) {
  const double got = to_double(round_to<F>(x));
  const big expected = nearest<F>(value_of(x));
  return (std::isinf(got) ? (got < 0 ? -std::numeric_limits<big>::infinity() : std::numeric_limits<big>::infinity()) : big(got)) != expected;
}

/// Halfway between two neighbours of F, moved by a tiny lo in one half of the cases each way.
template <format F>
double_double near_tie(std::mt19937_64& random) {
  constexpr int p = traits_of(F).precision();
  const double significand = double((random() >> (64 - p)) | (std::uint64_t{1} << (p - 1))) + 0.5;
  const double hi = std::ldexp(significand, std::uniform_int_distribution<int>(-150, 130)(random) - p);
  const double lo = std::ldexp(hi, -std::uniform_int_distribution<int>(54, 200)(random));
  return {hi, random() % 3 == 0 ? 0 : random() & 1 ? lo : -lo};
}

}  // namespace

TEST_CASE("round_to: one rounding to bf16 and f32 of hi and lo together, 4 x 20000 numbers, half of them near ties, seed 8",
          "[exact][double_rounding]") {
  std::mt19937_64 random(8);
  int wrong = 0;
  for (int i = 0; i < 20000; ++i) {
    const double_double x = random_double_double(random, -155, 130);
    const double_double tie = near_tie<format::bf16>(random), fine_tie = near_tie<format::f32>(random);
    wrong += wrong_of<format::bf16>(x) + wrong_of<format::f32>(x) + wrong_of<format::bf16>(tie) + wrong_of<format::f32>(-fine_tie);
  }
  CHECK(wrong == 0);
}

TEST_CASE("round_to: special values", "[exact][unit]") {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  CHECK(round_to<format::bf16>(double_double{0.0}) == bf16_code::zero());
  CHECK(round_to<format::bf16>(double_double{-0.0}) == bf16_code::zero(true));
  CHECK(round_to<format::bf16>(double_double{infinity}) == bf16_code::infinity());
  CHECK(round_to<format::f32>(double_double{-infinity}) == f32_code::infinity(true));
  CHECK(round_to<format::f32>(double_double{std::numeric_limits<double>::quiet_NaN()}) == f32_code::nan());
  CHECK(round_to<format::f32>(double_double{0x1p-1074}) == f32_code::zero());
  CHECK(round_to<format::f32>({1, 0x1p-300}, rounding::toward_positive).to_bits() == 0x3f800001);
  CHECK(round_to<format::f32>({1, -0x1p-300}, rounding::toward_zero).to_bits() == 0x3f7fffff);
}
